"""What the features of a dataset are, from its plan and what the writing of it reports.

A feature that an example lacks is sparse, and so are lists that may differ in length.
"""

from collections.abc import Sequence

from components.common.entry import Column
from components.example_gen.file_plan import FilePlan
from components.example_gen.media import DESCRIPTIONS, AudioFacts, ImageFacts, ShardSummary
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


def features_of_files(plan: FilePlan, found: ShardSummary) -> dict[str, Feature]:
    """Every feature of examples that hold files, by name; none of images without any.

    Args:
        found: what all shards report together.
    """
    features = {"filename": Feature(type="string")}
    for name, kind in plan.blobs:
        if kind == "audio":
            features[name] = _audio(found.audio.get(name, AudioFacts()))
        elif name in found.images:
            features[name] = _image(found.images[name], label_map=kind == "label_map")
        for description in DESCRIPTIONS.get(kind, ()):
            features[description] = Feature(type="int")
    for column in plan.columns:
        if column.name not in features:  # an annotation's size of the image, which says it itself
            features[column.name] = _value(
                column,
                plan,
                length=column.length,
                longest=found.longest.get(column.name, 0),
                is_missing=column.name in found.incomplete,
            )
    return features


def _image(facts: ImageFacts, *, label_map: bool) -> Feature:
    formats = sorted(facts.formats)
    if formats == ["RAW"]:
        return Feature(type="string", extra={"encoding": "raw", "image_shape": facts.shape})
    height, width, _ = facts.shape
    extra: JsonObject = {"sizes": "fixed" if facts.one_size else "mixed"}
    if not DATUM_IMAGE_FORMATS.issuperset(formats):
        extra["formats"] = formats
    if label_map:
        extra["label_map"] = True
    # Datum decodes rank 2 to one channel and rank 3 to three.
    shape = (height, width) if facts.channels == [1] else (height, width, 3)
    return Feature(type="string", shape=shape, extra=extra)


def _audio(facts: AudioFacts) -> Feature:
    """WAV files; what all have in common stands beside."""
    common = {
        "sample_rate": facts.sample_rates,
        "num_frames": facts.num_frames,
        "channels": facts.channels,
    }
    shared = {key: least for key, (least, most) in common.items() if least == most}
    return Feature(type="string", extra={"encoding": "wav", **shared})


def _value(
    column: Column, plan: Plan, *, length: int | None, longest: int, is_missing: bool
) -> Feature:
    """The feature of a column, whose lists all have `length` values, or None; and at the most."""
    extra: JsonObject = {}
    if column.kind == "label":
        extra["num_classes"] = len(plan.vocabularies[column.name])
    kind = _TYPES[column.kind]
    if column.is_list:
        is_dense = length is not None and kind != "string"  # Datum reads that as one scalar
        return Feature(type=kind, shape=(length or longest,), dense=is_dense, extra=extra)
    if is_missing:
        return Feature(type=kind, shape=(1,), dense=False, extra=extra)
    return Feature(type=kind, extra=extra)
