"""What the features of a dataset are, from its plan and what the writing of it reports.

features_of_files(plan, summaries)["image"]      # Feature(type='string', shape=(480, 640, 3), …)
features_of_rows(plan, reports)["label"]         # Feature(type='int', extra={'num_classes': 2})

A feature that an example lacks is sparse, and so are lists that may differ in length.
"""

from collections.abc import Sequence

from components.common.entry import Column
from components.example_gen.file_plan import FilePlan
from components.example_gen.file_reports import AudioFacts, ImageFacts, ShardSummary
from components.example_gen.media import DESCRIPTIONS
from components.example_gen.plan import Plan
from components.example_gen.row_encoding import EncodingReport, id_feature
from components.example_gen.row_plan import TOKENS, RowPlan
from trainer_utils.format import Feature
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS
from trainer_utils.format.json_text import JsonObject

_TYPES = {"int": "int", "label": "int", "float": "float", "string": "string"}


def features_of_rows(plan: RowPlan, reports: Sequence[EncodingReport]) -> dict[str, Feature]:
    """Every feature of examples that are rows, by name."""
    features = {}
    for column in plan.columns:
        name = column.name
        lengths = [report.lengths[name] for report in reports if name in report.lengths]
        least = min((low for low, _ in lengths), default=0)
        most = max((high for _, high in lengths), default=0)
        features[name] = _value(
            column,
            plan,
            length=least if least == most > 0 else None,
            longest=most,
            is_missing=any(name in report.missing for report in reports),
        )
    if plan.tokens is not None:
        extra: JsonObject = {"encoding": "tokens", "tokens": plan.tokens.spec.to_json()}
        features[TOKENS] = Feature(type="string", extra=extra)
        if not plan.tokens.keep_text:
            del features[plan.tokens.column]
    return features | {id_feature(features): Feature(type="string")}


def features_of_files(plan: FilePlan, summaries: Sequence[ShardSummary]) -> dict[str, Feature]:
    """Every feature of examples that hold files, by name.

    Args:
        summaries: of all shards; those of images without any are left out.
    """
    features = {"filename": Feature(type="string")}
    for name, kind in plan.blobs:
        if kind == "audio":
            features[name] = _audio(name, summaries)
        elif any(name in summary.images for summary in summaries):
            features[name] = _image(_facts(name, summaries), label_map=kind == "label_map")
        for description in DESCRIPTIONS.get(kind, ()):
            features[description] = Feature(type="int")
    for column in plan.columns:
        if column.name in features:
            continue  # what an annotation says of the image, which says it itself
        features[column.name] = _value(
            column,
            plan,
            length=column.length,
            longest=max((s.longest.get(column.name, 0) for s in summaries), default=0),
            is_missing=any(column.name in summary.incomplete for summary in summaries),
        )
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
    extra: JsonObject = {"sizes": "fixed" if facts.one_size else "mixed"}
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
    extra: JsonObject = {"encoding": "wav"}
    common = {
        "sample_rate": facts.sample_rates,
        "num_frames": facts.num_frames,
        "channels": facts.channels,
    }
    extra |= {key: least for key, (least, most) in common.items() if least == most}
    return Feature(type="string", extra=extra)


def _value(
    column: Column, plan: Plan, *, length: int | None, longest: int, is_missing: bool
) -> Feature:
    """The feature of a column.

    Args:
        length: that all of its lists have, or None.
        is_missing: whether an example lacks it.
    """
    extra: JsonObject = {}
    if column.kind == "label":
        extra["num_classes"] = len(plan.vocabularies[column.name])
    kind = _TYPES[column.kind]
    if column.is_list:
        # Datum reads a dense string as one scalar.
        is_dense = length is not None and kind != "string"
        return Feature(type=kind, shape=(length or longest,), dense=is_dense, extra=extra)
    if is_missing:
        return Feature(type=kind, shape=(1,), dense=False, extra=extra)
    return Feature(type=kind, extra=extra)
