"""The decisions about a dataset before anything is written, and the outcome of writing it.

`split_rules` decides the split of each input.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from components.example_gen.settings import ExampleGenSettings
from components.inputs.input_table import Column
from components.inputs.rejects import Reject
from components.shuffle.split_layout import SplitLayout
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format import Feature, Shard, shard_bounds
from trainer_utils.format.input_listing import InputListing

_TYPES = {"int": "int", "label": "int", "float": "float", "string": "string"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The decisions that are made before anything is written."""

    layouts: tuple[SplitLayout, ...]  # the records of each shard, by split
    columns: tuple[Column, ...]  # columns that become features
    # Values by feature, sorted or as given; a value's index is its id
    vocabularies: Mapping[str, tuple[str, ...]]
    rejects: tuple[Reject, ...]  # inputs that will be left out
    skipped: Mapping[str, int]  # number of skipped inputs, by split
    found: int  # total number of inputs
    is_shuffled: bool = True  # whether the order is random; False: the order of the inputs
    own_splits: frozenset[str] = frozenset()  # splits that the inputs name

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, in order."""
        return tuple(layout.split for layout in self.layouts)

    @property
    def num_records(self) -> int:
        """Number of examples, if none is rejected while it is read."""
        return sum(layout.num_records for layout in self.layouts)

    def feature(
        self, column: Column, *, length: int | None, longest: int, is_missing: bool
    ) -> Feature:
        """Return a column's feature. Lists are dense if all have `length` values, else sparse."""
        extra: JsonObject = {}
        if column.kind == "label":
            extra["num_classes"] = len(self.vocabularies[column.name])
        kind = _TYPES[column.kind]
        if column.is_list:
            is_dense = length is not None and kind != "string"  # Datum reads that as a scalar
            return Feature(type=kind, shape=(length or longest,), dense=is_dense, extra=extra)
        if is_missing:
            optional = {**extra, "optional": True}
            return Feature(type=kind, shape=(1,), dense=False, extra=optional)
        return Feature(type=kind, extra=extra)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """The outcome of a plan."""

    shards: tuple[Shard, ...]  # all shards, verified, by split and number
    features: Mapping[str, Feature]
    # Number of examples by class (an id or a number), for parts of splits
    label_counts: Sequence[tuple[str, Mapping[int, int]]]
    fingerprint: str
    # Inputs that were rejected while they were read
    rejects: tuple[Reject, ...] = ()
    # Number of inputs that are not kept byte for byte, by conversion
    conversions: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inputs: str = ""  # content of `inputs.json`; empty: no such file
    # Identity of the dataset by its inputs. None: its order does not follow from the listing alone
    listing: InputListing | None = None
    # Number of examples added, changed, removed and kept, relative to a base dataset
    update: JsonObject = dataclasses.field(default_factory=dict)


def lay_out_shards(
    splits: Iterable[tuple[str, int, int]], settings: ExampleGenSettings
) -> tuple[SplitLayout, ...]:
    """Return the layout of shards, given the name, records and bytes of each split."""
    layouts = []
    for name, num_records, num_bytes in splits:
        num_shards = settings.shards_of(name, num_records=num_records, num_bytes=num_bytes)
        bounds = tuple(shard_bounds(num_records=num_records, num_shards=num_shards).tolist())
        layouts.append(
            SplitLayout(split=name, bounds=bounds, seed=settings.seed, gzip=settings.gzip)
        )
    return tuple(layouts)
