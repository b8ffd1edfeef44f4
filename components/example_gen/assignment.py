"""Which splits there are, and which of them each input is in: of files and of rows.

    rules = SplitRules({"train", "eval"}, columns, some_have_none=False, partition=None, …)
    rules.splits                            # ('train', 'eval')
    rules.assign(own, hashes)               # array([0, 1, 0], dtype=uint16)

An input that names its split is in it. All others are shared out by a hash of what they are
known by, or class by class.
"""

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from components.common.entry import Column, ExcludedInput, label_column
from components.common.rejects import Reject
from components.example_gen.partition import OWN_NAME, Partition, order_splits
from components.example_gen.settings import ExampleGenSettings
from trainer_utils.format import ConfigError
from trainer_utils.format.errors import did_you_mean

EXCLUDED = (1 << 16) - 1  # in place of a split's number

Numbers = npt.NDArray[np.uint16]


class SplitRules:
    """The splits of a dataset, and who decides.

    Args:
        some_have_none: whether there are inputs that name none.
        partition: the splits that output_config asks for, or None.
        groups: what `group_by` may name beside columns.

    Attributes:
        splits: their names, in order.
        hashed: those that the hash assigns.

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
        by_hash = self._numbers_of_hashed()[self.hashed.places_of(hashes)]
        return by_hash if own is None else np.where(own == EXCLUDED, by_hash, own)

    def stratify(
        self,
        classes: npt.NDArray[np.int64],
        hashes: npt.NDArray[np.uint64],
        *,
        key_of: Callable[[int], bytes],
    ) -> Numbers:
        """The same, so that each class is shared to within one, as `Partition.stratified`."""
        places = self.hashed.stratified(classes, hashes, key_of=key_of, seed=self._seed)
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
            split = self.hashed.split_of_excluded(
                left, self.splits, inputs_decide=self.has_own, seed=self._seed
            )
            if left.code is None:
                skipped[split] += 1
            else:
                rejects.append(Reject(split, left.name, left.code, left.detail))
        return rejects, skipped


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
            raise ConfigError.of(
                "group_by",
                group_by,
                allowed=f"none beside output_config's partition_feature_name {hashed.feature!r}",
            )
        hashed = dataclasses.replace(hashed, feature=group_by)
    asked = {
        "output_config": partition and ", ".join(hashed.names),
        "group_by": group_by,
        "stratify": stratify or None,
    }
    for setting, value in asked.items():
        if own and value is not None:
            raise ConfigError(
                f"{setting}: expected none, since the inputs name their own splits "
                f"({', '.join(sorted(own))}), got {value}",
                setting=setting,
            )
    if hashed.feature not in names:
        setting = "group_by" if group_by else "output_config partition_feature_name"
        raise ConfigError.of(
            setting,
            hashed.feature,
            allowed=f"one of {', '.join(names)}",
            advice=did_you_mean(hashed.feature, names).strip(),
        )
    if stratify and hashed.feature != OWN_NAME:
        raise ConfigError(
            f"stratify: expected False where {hashed.feature!r} decides the split, got True",
            setting="stratify",
        )
    if stratify and label_column(columns) is None:
        raise ConfigError(
            "stratify: expected inputs with labels, got some without", setting="stratify"
        )
    return hashed
