"""What the features of a converted dataset are, from its plan and what its shards report.

make_features(plan, summaries)["image"]      # Feature(type='string', shape=(480, 640, 3), …)
"""

from collections.abc import Sequence
from typing import Any

from components.common.listing import Column
from components.example_gen.media import DESCRIPTIONS
from components.example_gen.plan import Plan
from components.example_gen.reports import AudioFacts, ImageFacts, ShardSummary
from trainer_utils.format import Feature
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS

__all__ = ["make_features"]

_TYPES = {"int": "int", "label": "int", "float": "float", "string": "string"}


def make_features(plan: Plan, summaries: Sequence[ShardSummary]) -> dict[str, Feature]:
    """Every feature, by name.

    Args:
        plan: what was to be written.
        summaries: of all shards, with one example at the least.
    """
    features = {"filename": Feature(type="string")}
    for name, kind in plan.blobs:
        if kind == "audio":
            features[name] = _audio(name, summaries)
        else:
            features[name] = _image(_facts(name, summaries), label_map=kind == "label_map")
        for description in DESCRIPTIONS.get(kind, ()):
            features[description] = Feature(type="int")
    for column in plan.columns:
        features[column.name] = _value(column, plan, summaries)
    return features


def _facts(name: str, summaries: Sequence[ShardSummary]) -> ImageFacts:
    """Of all shards together."""
    found = [summary.images[name] for summary in summaries if name in summary.images]
    first = found[0].shape
    return ImageFacts(
        shape=first,
        one_size=all(facts.one_size and facts.shape[:2] == first[:2] for facts in found),
        channels=sorted({number for facts in found for number in facts.channels}),
        formats=sorted({name for facts in found for name in facts.formats}),
    )


def _image(facts: ImageFacts, *, label_map: bool = False) -> Feature:
    if facts.formats == ["RAW"]:
        return Feature(type="string", extra={"encoding": "raw", "image_shape": facts.shape})
    height, width, _ = facts.shape
    extra: dict[str, Any] = {"sizes": "fixed" if facts.one_size else "mixed"}
    if not DATUM_IMAGE_FORMATS.issuperset(facts.formats):
        extra["formats"] = facts.formats
    if label_map:
        extra["label_map"] = True
    # Datum decodes rank 2 to one channel and rank 3 to three.
    grey = facts.channels == [1]
    return Feature(
        type="string", shape=(height, width) if grey else (height, width, 3), extra=extra
    )


def _audio(name: str, summaries: Sequence[ShardSummary]) -> Feature:
    """WAV files; what all have in common stands beside."""
    facts = AudioFacts()
    for summary in summaries:
        if name in summary.audio:
            facts.join(summary.audio[name])
    extra: dict[str, Any] = {"encoding": "wav"}
    common = {
        "sample_rate": facts.sample_rates,
        "num_frames": facts.num_frames,
        "channels": facts.channels,
    }
    extra |= {key: least for key, (least, most) in common.items() if least == most}
    return Feature(type="string", extra=extra)


def _value(column: Column, plan: Plan, summaries: Sequence[ShardSummary]) -> Feature:
    extra: dict[str, Any] = {}
    if column.kind == "label":
        extra["num_classes"] = len(plan.vocabularies[column.name])
    kind = _TYPES[column.kind]
    if column.length is not None and kind != "string":  # Datum reads a dense string as one scalar
        return Feature(type=kind, shape=(column.length,), extra=extra)
    if column.is_list:
        longest = max(summary.longest.get(column.name, 0) for summary in summaries)
        return Feature(type=kind, shape=(longest,), dense=False, extra=extra)
    if any(column.name in summary.incomplete for summary in summaries):
        return Feature(type=kind, shape=(1,), dense=False, extra=extra)
    return Feature(type=kind, extra=extra)
