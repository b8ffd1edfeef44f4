"""What the features of a text dataset are, from its plan and what its pieces report.

make_features(plan, reports)["label"]      # Feature(type='int', extra={'num_classes': 2})
"""

from collections.abc import Sequence
from typing import Any

from components.common.listing import Column
from components.example_gen.encoding import EncodingReport, id_feature
from components.example_gen.row_plan import RowPlan
from trainer_utils.format import Feature

__all__ = ["make_features"]

_TYPES = {"int": "int", "label": "int", "float": "float", "string": "string"}


def make_features(plan: RowPlan, reports: Sequence[EncodingReport]) -> dict[str, Feature]:
    """Every feature, by name.

    A feature that an example lacks, or whose lists differ in length, is sparse.
    """
    features = {column.name: _feature(column, plan, reports) for column in plan.columns}
    return features | {id_feature(features): Feature(type="string")}


def _feature(column: Column, plan: RowPlan, reports: Sequence[EncodingReport]) -> Feature:
    extra: dict[str, Any] = {}
    if column.kind == "label":
        extra["num_classes"] = len(plan.vocabularies[column.name])
    kind = _TYPES[column.kind]
    if column.is_list:
        lengths = [report.lengths[column.name] for report in reports if report.lengths]
        least, most = min(low for low, _ in lengths), max(high for _, high in lengths)
        # Datum reads a dense string as one scalar.
        dense = least == most > 0 and kind != "string"
        return Feature(type=kind, shape=(most,), dense=dense, extra=extra)
    if any(column.name in report.missing for report in reports):
        return Feature(type=kind, shape=(1,), dense=False, extra=extra)
    return Feature(type=kind, extra=extra)
