"""Which splits there are, and who decides: the inputs, TFX's output_config, or a hash.

partition = read_output_config(output_config)     # None: the inputs' own, or train and eval 2:1
Partition().split_of("cat/1.jpg", seed=0)
"""

import bisect
import dataclasses
import itertools
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.common.entry import ExcludedInput
from trainer_utils.format import ConfigError, keyed_hash, settings
from trainer_utils.format.naming import check_split_name

OWN_NAME = "filename"  # what is hashed where no column is named
NEAR_DUPLICATES = "near_duplicates"  # what `group_by` names in place of a column
_SPLIT_ORDER = ("train", "eval", "test")


@dataclasses.dataclass(frozen=True)
class Partition:
    """The splits that a hash assigns.

    Args:
        buckets: split names with their share, as in TFX's `SplitConfig`.
        feature: what is hashed: `filename`, each input's own name, or a column; equal values
            share a split.
    """

    buckets: tuple[tuple[str, int], ...] = (("train", 2), ("eval", 1))
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

    def split_of(self, identity: str, *, seed: int) -> str:
        """The split of one input."""
        bucket = keyed_hash(os.fsencode(identity), seed=seed, purpose="split") % self.ends[-1]
        return self.names[bisect.bisect(self.ends, bucket)]

    def places_of(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The place among `names` of each of many inputs, by their hashes."""
        ends = np.array(self.ends, np.uint64)
        places: npt.NDArray[np.int64] = np.searchsorted(ends, hashes % ends[-1], side="right")
        return places

    def stratified(
        self,
        classes: npt.NDArray[np.int64],
        hashes: npt.NDArray[np.uint64],
        *,
        key_of: Callable[[int], bytes],
        seed: int,
    ) -> npt.NDArray[np.int64]:
        """The place among `names` of each input, so that each class is shared to within one.

        Args:
            classes: `(n,)`, the class of each input, as any number.
            hashes: `(n,)`; a class is shared out in their order.
            key_of: what a class is known by, whatever its number.
            seed: of the shares' beginning.
        """
        ends = np.array(self.ends)
        places = np.zeros(len(classes), np.int64)
        order = np.lexsort((hashes, classes))
        found, firsts, sizes = np.unique(classes[order], return_index=True, return_counts=True)
        for number, first, size in zip(
            *map(np.ndarray.tolist, (found, firsts, sizes)), strict=True
        ):
            # One start a class, so that the remainders of many small ones do not all go one way.
            start = keyed_hash(key_of(number), seed=seed, purpose="stratify") % int(ends[-1])
            points = (np.arange(size) * int(ends[-1]) + start) // size
            places[order[first : first + size]] = np.searchsorted(ends, points, side="right")
        return places

    def split_of_excluded(
        self, left: ExcludedInput, splits: Sequence[str], *, inputs_decide: bool, seed: int
    ) -> str:
        """The split that an excluded input counts for.

        Args:
            inputs_decide: whether inputs name splits. Then one that names none counts in the first.
        """
        if left.split is not None and left.split in splits:
            return left.split
        if inputs_decide:
            return splits[0]
        return self.split_of(left.name if self.feature == OWN_NAME else "", seed=seed)


def read_output_config(output_config: Any) -> Partition | None:
    """The splits that TFX's `Output` asks for; None where it leaves them to the inputs.

    Raises:
        ConfigError: a split's name or share is not allowed.
    """
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
            raise ConfigError(
                f"{setting}: expected each split once, got {name!r} twice",
                setting=setting,
                value=name,
            )


def order_splits(names: Collection[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The splits asked for in their order, then TFX's usual three, then any others by name."""
    order = {name: place for place, name in enumerate([*_SPLIT_ORDER, *asked])}
    order.update({name: place - len(asked) for place, name in enumerate(asked)})
    return tuple(sorted(names, key=lambda name: (order.get(name, len(order)), name)))
