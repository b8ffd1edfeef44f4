"""Decide the split of each input, before data is moved.

An input that names its split is in that split. All others are assigned by a hash of their identity,
or class by class. This applies to files and rows alike.
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.example_gen.settings import ExampleGenSettings
from components.inputs.input_table import Column, ExcludedInput, label_column
from components.inputs.rejects import Reject
from trainer_utils.core import settings
from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.format import keyed_hash
from trainer_utils.format.naming import check_split_name
from trainer_utils.storage.paths import encode_path

OWN_NAME = "filename"  # hashed by default, if no column is named

NEAR_DUPLICATES = "near_duplicates"  # a value of `group_by` that is not a column

EXCLUDED = (1 << 16) - 1  # instead of a split's number

_MAX_PARTS = 10**6  # up to this denominator, fractional shares are exact

_SPLIT_ORDER = ("train", "eval", "test")

Numbers = npt.NDArray[np.uint16]


@dataclasses.dataclass(frozen=True)
class Partition:
    """The splits that a hash assigns."""

    # Names and shares of the splits, as in TFX's `SplitConfig`
    buckets: tuple[tuple[str, int], ...] = (("train", 2), ("eval", 1))
    # The value that is hashed: `filename` (each input's name) or a column. Equal values share a
    # split
    feature: str = OWN_NAME

    def __post_init__(self) -> None:
        is_pairs = isinstance(self.buckets, tuple) and all(
            isinstance(bucket, tuple) and len(bucket) == 2 for bucket in self.buckets
        )
        if not is_pairs or not self.buckets:
            rule = "pairs of a split and its share, such as (('train', 2), ('eval', 1))"
            raise ConfigError.of("splits", self.buckets, allowed=rule)
        check_split_names("splits", self.names)
        for split, share in self.buckets:
            settings.NumberRule(1)(f"splits[{split!r}]", share)

    @property
    def names(self) -> tuple[str, ...]:
        """The splits' names, in order."""
        return tuple(name for name, _ in self.buckets)

    @property
    def ends(self) -> list[int]:
        """Cumulative shares: the end of each split's share."""
        return list(itertools.accumulate(share for _, share in self.buckets))


def whole_shares(splits: object) -> dict[str, int]:
    """Return the shares of splits as whole numbers: 0.8 and 0.2 become 8 and 2.

    Raises:
        ConfigError: a split cannot have that name, or a share is not allowed.
    """
    if not isinstance(splits, Mapping) or not splits:
        raise ConfigError.of("splits", splits, allowed="shares such as {'train': 8, 'eval': 2}")
    for name, share in splits.items():
        check_split_name(str(name))
        is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
        least = 1 if isinstance(share, int) else 1 / _MAX_PARTS
        if not is_number or not least <= share <= (math.inf if isinstance(share, int) else 1):
            rule = "a share of at least 1, or one between 0 and 1"
            raise ConfigError(
                f"splits[{name!r}]: expected {rule}, got {share!r}", setting="splits", value=share
            )
    if all(isinstance(share, int) for share in splits.values()):
        return {name: int(share) for name, share in splits.items()}
    if abs(sum(splits.values()) - 1) > 1e-5:  # a third is 0.333333
        raise ConfigError.of("splits", splits, allowed="whole numbers, or shares of one")
    parts = 10
    while parts < _MAX_PARTS and any(round(s * parts, 6) % 1 for s in splits.values()):
        parts *= 10
    return {name: round(share * parts) for name, share in splits.items()}


def read_output_config(output_config: Any) -> Partition | None:
    """Return the splits that TFX's `Output` requests. None: the inputs decide."""
    split_config = output_config.split_config
    if not split_config.splits:
        return None
    return Partition(
        tuple((split.name, split.hash_buckets) for split in split_config.splits),
        split_config.partition_feature_name or OWN_NAME,
    )


def check_split_names(setting: str, names: Sequence[str]) -> None:
    """Raise an error for an invalid or duplicate split name."""
    for place, name in enumerate(names):
        check_split_name(name)
        if name in names[:place]:
            raise ConfigError.of(setting, name, allowed="each split once")


def order_splits(names: Collection[str], asked: Sequence[str]) -> tuple[str, ...]:
    """Return the splits in order: requested ones, TFX's usual three, then others by name."""
    known = [*asked, *_SPLIT_ORDER]
    order = {name: place for place, name in reversed([*enumerate(known)])}
    return tuple(sorted(names, key=lambda name: (order.get(name, len(known)), name)))


class SplitRules:
    """The ordered splits of a dataset, and the rules that assign inputs to them.

    Args:
        own: the splits that inputs name.
        columns: the columns of the inputs.
        some_have_none: whether there are inputs that do not name a split.
        partition: the splits that output_config requests, or None.
        settings: the settings of the ExampleGen.
        groups: values that `group_by` may have in addition to columns.

    Raises:
        ConfigError: both the inputs and a setting decide splits, or a setting names no column.
    """

    def __init__(
        self,
        own: Collection[str],
        columns: Sequence[Column],
        *,
        some_have_none: bool,
        partition: Partition | None,
        settings: ExampleGenSettings,
        groups: Sequence[str] = (),
    ) -> None:
        hashed, group_by, stratify = partition or Partition(), settings.group_by, settings.stratify
        if group_by is not None:
            if hashed.feature != OWN_NAME:
                rule = f"none with output_config's partition_feature_name {hashed.feature!r}"
                raise ConfigError.of("group_by", group_by, allowed=rule)
            hashed = dataclasses.replace(hashed, feature=group_by)
        asked = {
            "output_config": partition and ", ".join(hashed.names),
            "group_by": group_by,
            "stratify": stratify or None,
        }
        for setting, value in asked.items():
            if own and value is not None:
                rule = f"none, since the inputs name their own splits ({', '.join(sorted(own))})"
                raise ConfigError.of(setting, value, allowed=rule)
        known = [OWN_NAME, *groups, *(column.name for column in columns)]
        if hashed.feature not in known:
            setting = "group_by" if group_by else "output_config partition_feature_name"
            rule, advice = f"one of {', '.join(known)}", did_you_mean(hashed.feature, known).strip()
            raise ConfigError.of(setting, hashed.feature, allowed=rule, advice=advice)
        if stratify and hashed.feature != OWN_NAME:
            rule = f"False where {hashed.feature!r} decides the split"
            raise ConfigError.of("stratify", True, allowed=rule)
        if stratify and label_column(columns) is None:
            rule = "False for inputs without labels"
            raise ConfigError.of("stratify", True, allowed=rule)
        self.hashed, self.has_own, self._seed = hashed, bool(own), settings.seed
        self.own = frozenset(own)
        names = {*own, *(hashed.names if some_have_none or not own else ())}
        self.splits = order_splits(names, hashed.names)
        settings.check_splits(self.splits)
        # If one of them is not a split here, every input names its split.
        numbers = [self.number_of(n if n in self.splits else None) for n in hashed.names]
        self._numbers = np.array(numbers, np.uint16)

    def number_of(self, name: str | None) -> int:
        """Return the number of a split, or `EXCLUDED` for None."""
        return EXCLUDED if name is None else self.splits.index(name)

    def assign(self, named_splits: Numbers | None, hashes: npt.NDArray[np.uint64]) -> Numbers:
        """Return the number of each input's split, `(n,)`: the named one, or by hash.

        Args:
            named_splits: the number of the split that each input names, `(n,)`, or `EXCLUDED`.
                None: no input names a split.
            hashes: the hash of each input's identity, `(n,) uint64`.
        """
        ends = np.array(self.hashed.ends, np.uint64)
        splits: Numbers = self._numbers[np.searchsorted(ends, hashes % ends[-1], side="right")]
        if named_splits is not None:
            splits = np.where(named_splits == EXCLUDED, splits, named_splits)
        return splits

    def stratify(
        self,
        classes: npt.NDArray[np.int64],
        hashes: npt.NDArray[np.uint64],
        *,
        key_of: Callable[[int], bytes],
    ) -> Numbers:
        """Return the number of each input's split, with exact shares of each class to within one.

        Args:
            classes: the class of each input, `(n,) int64`.
            hashes: the hash of each input, `(n,) uint64`, which orders the inputs of a class.
            key_of: returns the identity of a class, which does not depend on its number.
        """
        places = np.zeros(len(classes), np.int64)
        order = np.lexsort((hashes, classes))
        groups = np.unique(classes[order], return_index=True, return_counts=True)
        for number, first, size in zip(*map(np.ndarray.tolist, groups), strict=True):
            ranks = self.first_ranks(size, key=key_of(number))
            shares = np.searchsorted(ranks, np.arange(size), side="right")
            places[order[first : first + size]] = shares
        return self.splits_of_shares(places)

    def first_ranks(self, size: int, *, key: bytes) -> list[int]:
        """Return the first rank of each share but the first, for a stratified class.

        A class has its own start, so that the remainders of small classes do not all go to the same
        split. With shares that end at e and a total of t, rank i is at (i t + start) / size.

        Args:
            size: the number of inputs of the class. At `size`, a share has no input.
            key: the identity of the class.
        """
        *ends, total = self.hashed.ends
        start = keyed_hash(key, seed=self._seed, purpose="stratify") % total
        return [max(0, -((start - end * size) // total)) for end in ends]

    def splits_of_shares(self, shares: npt.NDArray[np.int64]) -> Numbers:
        """Return the number of the split that each share belongs to."""
        numbers: Numbers = self._numbers[shares]
        return numbers

    def count_excluded(
        self, excluded: Iterable[ExcludedInput]
    ) -> tuple[list[Reject], collections.Counter[str]]:
        """Return the inputs rejected before reading, and the number of skipped ones by split.

        An input counts in its own split. Otherwise it counts in the first split if inputs name
        splits, or else in that of its hash.
        """
        rejects: list[Reject] = []
        skipped: collections.Counter[str] = collections.Counter()
        for left in excluded:
            split = left.split
            if split not in self.splits:
                split = self.splits[0]
                if not self.has_own:
                    identity = encode_path(left.name if self.hashed.feature == OWN_NAME else "")
                    digest = keyed_hash(identity, seed=self._seed, purpose="split")
                    place = np.array([digest % self.hashed.ends[-1]], np.uint64)
                    split = self.splits[self.assign(None, place)[0]]
            if left.code is None:
                skipped[split] += 1
            else:
                rejects.append(Reject(split, left.name, left.code, left.detail))
        return rejects, skipped
