"""Which splits there are, and which of them each input is in: of files and of rows.

An input that names its split is in it. All others are shared out by a hash of what they are known
by, or class by class.
"""

import bisect
import collections
import dataclasses
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.common.entry import Column, ExcludedInput, label_column
from components.common.rejects import Reject
from components.example_gen.settings import ExampleGenSettings
from trainer_utils.format import ConfigError, keyed_hash, settings
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.naming import check_split_name

OWN_NAME = "filename"  # what is hashed where no column is named
NEAR_DUPLICATES = "near_duplicates"  # what `group_by` names in place of a column
EXCLUDED = (1 << 16) - 1  # in place of a split's number
_SPLIT_ORDER = ("train", "eval", "test")

Numbers = npt.NDArray[np.uint16]


@dataclasses.dataclass(frozen=True)
class Partition:
    """The splits that a hash assigns."""

    # Split names with their share, as in TFX's `SplitConfig`
    buckets: tuple[tuple[str, int], ...] = (("train", 2), ("eval", 1))
    # What is hashed: `filename`, each input's own name, or a column; equal values share a split
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
            settings.number(1)(f"splits[{split!r}]", share)

    @property
    def names(self) -> tuple[str, ...]:
        """The splits' names, in order."""
        return tuple(name for name, _ in self.buckets)

    @property
    def ends(self) -> list[int]:
        """Where each split's share ends, of the shares laid end to end."""
        return list(itertools.accumulate(share for _, share in self.buckets))


def read_output_config(output_config: Any) -> Partition | None:
    """The splits that TFX's `Output` asks for; None where it leaves them to the inputs."""
    split_config = output_config.split_config
    if not split_config.splits:
        return None
    return Partition(
        tuple((split.name, split.hash_buckets) for split in split_config.splits),
        split_config.partition_feature_name or OWN_NAME,
    )


def check_split_names(setting: str, names: Sequence[str]) -> None:
    """Refuses a name that no split can have, or one that comes twice."""
    for place, name in enumerate(names):
        check_split_name(name)
        if name in names[:place]:
            raise ConfigError.of(setting, name, allowed="each split once")


def order_splits(names: Collection[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The splits asked for in their order, then TFX's usual three, then any others by name."""
    order = {name: place for place, name in enumerate([*_SPLIT_ORDER, *asked])}
    order.update({name: place - len(asked) for place, name in enumerate(asked)})
    return tuple(sorted(names, key=lambda name: (order.get(name, len(order)), name)))


class SplitRules:
    """The splits of a dataset, by name in order, and those that a hash assigns.

    Args:
        own: the splits that inputs name.
        some_have_none: whether there are inputs that name none.
        partition: the splits that output_config asks for, or None.
        groups: what `group_by` may name beside columns.

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
        self.hashed = _hashed(partition, own, columns, settings, groups)
        names = {*own, *(self.hashed.names if some_have_none or not own else ())}
        self.splits = order_splits(names, self.hashed.names)
        settings.check_splits(self.splits)
        self.has_own = bool(own)
        self._seed = settings.seed

    def number_of(self, name: str | None) -> int:
        """The number of a split; `EXCLUDED` of None."""
        return EXCLUDED if name is None else self.splits.index(name)

    def assign(self, own: Numbers | None, hashes: npt.NDArray[np.uint64]) -> Numbers:
        """The number of each input's split.

        Args:
            own: `(n,)`, the number of the split that it names, or `EXCLUDED`; None: all name none.
            hashes: `(n,)`, of what each is known by.
        """
        ends = np.array(self.hashed.ends, np.uint64)
        places = np.searchsorted(ends, hashes % ends[-1], side="right")
        by_hash = self._numbers_of_hashed()[places]
        return by_hash if own is None else np.where(own == EXCLUDED, by_hash, own)

    def stratify(
        self,
        classes: npt.NDArray[np.int64],
        hashes: npt.NDArray[np.uint64],
        *,
        key_of: Callable[[int], bytes],
    ) -> Numbers:
        """The same, so that each class is shared out to within one, in the order of its hashes.

        Args:
            classes: `(n,)`, the class of each input, as any number.
            key_of: what a class is known by, whatever its number.
        """
        ends = np.array(self.hashed.ends)
        places = np.zeros(len(classes), np.int64)
        order = np.lexsort((hashes, classes))
        found = np.unique(classes[order], return_index=True, return_counts=True)
        for number, first, size in zip(*map(np.ndarray.tolist, found), strict=True):
            # One start a class, so that the remainders of many small ones do not all go one way.
            start = keyed_hash(key_of(number), seed=self._seed, purpose="stratify") % int(ends[-1])
            points = (np.arange(size) * int(ends[-1]) + start) // size
            places[order[first : first + size]] = np.searchsorted(ends, points, side="right")
        return self._numbers_of_hashed()[places]

    def _numbers_of_hashed(self) -> Numbers:
        if not {*self.hashed.names} <= {*self.splits}:  # then no input is left to the hash
            return np.full(len(self.hashed.names), EXCLUDED, np.uint16)
        return np.array([*map(self.number_of, self.hashed.names)], np.uint16)

    def count_excluded(
        self, excluded: Iterable[ExcludedInput]
    ) -> tuple[list[Reject], collections.Counter[str]]:
        """What is rejected before it is read, and how many are skipped, by split."""
        rejects: list[Reject] = []
        skipped: collections.Counter[str] = collections.Counter()
        for left in excluded:
            split = self._split_of_excluded(left)
            if left.code is None:
                skipped[split] += 1
            else:
                rejects.append(Reject(split, left.name, left.code, left.detail))
        return rejects, skipped

    def _split_of_excluded(self, left: ExcludedInput) -> str:
        """Its own, else the first one where inputs name splits, else that of its hash."""
        if left.split is not None and left.split in self.splits:
            return left.split
        if self.has_own:
            return self.splits[0]
        identity = os.fsencode(left.name if self.hashed.feature == OWN_NAME else "")
        ends = self.hashed.ends
        bucket = keyed_hash(identity, seed=self._seed, purpose="split") % ends[-1]
        return self.hashed.names[bisect.bisect(ends, bucket)]


def _hashed(
    partition: Partition | None,
    own: Collection[str],
    columns: Sequence[Column],
    settings: ExampleGenSettings,
    groups: Sequence[str],
) -> Partition:
    """The splits that the hash assigns, where the inputs name none, as settings allow it."""
    names = [OWN_NAME, *groups, *(column.name for column in columns)]
    hashed, group_by, stratify = partition or Partition(), settings.group_by, settings.stratify
    if group_by is not None:
        if hashed.feature != OWN_NAME:
            rule = f"none beside output_config's partition_feature_name {hashed.feature!r}"
            raise ConfigError.of("group_by", group_by, allowed=rule)
        hashed = dataclasses.replace(hashed, feature=group_by)
    asked = {
        "output_config": partition and ", ".join(hashed.names),
        "group_by": group_by,
        "stratify": stratify or None,
    }
    for setting, value in asked.items():
        if own and value is not None:
            named = ", ".join(sorted(own))
            rule = f"none, since the inputs name their own splits ({named})"
            raise ConfigError.of(setting, value, allowed=rule)
    if hashed.feature not in names:
        raise ConfigError.of(
            "group_by" if group_by else "output_config partition_feature_name",
            hashed.feature,
            allowed=f"one of {', '.join(names)}",
            advice=did_you_mean(hashed.feature, names).strip(),
        )
    if stratify and hashed.feature != OWN_NAME:
        rule = f"False where {hashed.feature!r} decides the split"
        raise ConfigError.of("stratify", True, allowed=rule)
    if stratify and label_column(columns) is None:
        rule = "False, or inputs that all have labels"
        raise ConfigError.of("stratify", True, allowed=rule)
    return hashed
