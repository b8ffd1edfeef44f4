"""Declare `OrderOptions`, the settings of the order of records.

options = OrderOptions(batch_size=256, shuffle="global", seed=7, remainder="pad")
"""

import dataclasses
import math
import numbers
from collections.abc import Collection
from typing import Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import (
    NumberRule,
    Predicate,
    Settings,
    documents_settings,
    flag,
    is_int,
    one_of,
    setting,
    settings_or_dict,
)
from trainer_utils.format.condition import parse_condition
from trainer_utils.order.batch_layout import REMAINDERS
from trainer_utils.order.mixing import Weights, WeightSchedule
from trainer_utils.order.packing import PackOptions


def _is_shuffle(value: Any) -> bool:
    return _is_repeat(value) or (isinstance(value, str) and value == "global")


def _is_repeat(value: Any) -> bool:
    return isinstance(value, bool) or (is_int(value) and value > 0)


def _is_state(value: Any) -> bool:
    return not isinstance(value, (bool, float)) and (not is_int(value) or 0 <= value < 1 << 63)


def _are_weights(value: Any) -> bool:
    if isinstance(value, WeightSchedule):
        return True
    return (
        isinstance(value, Collection)
        and len(value) > 0
        and all(
            isinstance(number, numbers.Real) and not isinstance(number, bool) for number in value
        )
        and all(0 < float(number) < math.inf for number in value)
    )


def _condition(name: str, value: Any) -> str:
    return parse_condition(value).text.strip()


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderOptions(Settings):
    """The batches, their order, and the step to start at."""

    batch_size: int | None = setting(
        64,
        NumberRule(1),
        "size of the GLOBAL batch, which is divided among the replicas. None: single examples, "
        "not batched.",
    )
    shuffle: bool | int | str = setting(
        True,
        Predicate(_is_shuffle, "True, False, a number of records, or 'global'"),
        "a number: shuffle at least this many records together, in blocks of chunks whose order "
        "changes each epoch. True: as many records as 256 MiB hold. "
        '`"global"`: a true permutation of all records, a new one each epoch (records are read at '
        "random, so use local disks, and no gzip). False: the order of the files.",
    )
    reshuffle_each_iteration: bool = setting(
        True, flag, "False: every epoch has the order of the first."
    )
    seed: int = setting(0, Predicate(is_int, "an int"), "seed of all random orders.")
    repeat: bool | int = setting(
        False,
        Predicate(_is_repeat, "a bool or a number of epochs of at least 1"),
        "True: forever; a number: that many epochs.",
    )
    remainder: str | None = setting(
        None,
        one_of(*REMAINDERS),
        'how to handle records that do not fill a whole batch. `"drop"`: drop them, different ones '
        'each epoch; all shapes are static. `"pad"`: fill the last batch with rows of weight 0, '
        'which `mask` marks. `"balance"`: make the last two batches equally large. '
        "None: the last batch is smaller; with fewer records than replicas, some replicas get an "
        "empty one. With single examples, fewer are dropped than there are workers.",
    )
    where: str | None = setting(
        None,
        _condition,
        "a condition on features, such as `label == 'cat' and height > 100`: only records that "
        "meet it are read, as if there were no others. See docs/reading.md.",
    )
    weights: Weights | None = setting(
        None,
        Predicate(_are_weights, "a number above 0 for each dataset"),
        "relative frequency of each dataset's records. A dataset that runs out starts its next "
        "epoch, and an epoch lasts until every record of every dataset has been read. For more "
        "control, pass a `Recipe` in place of the uri. None: every record is read once.",
    )
    pack: PackOptions | None = setting(
        None,
        settings_or_dict(PackOptions),
        "`PackOptions(length=, strategy=, eos=)`, or a dict of these: rows are packs of tokenized "
        "documents, and settings for records apply to packs. Batches have `tokens`, `targets`, "
        "`segment_ids` and `positions`, `(batch, length) int32`, and `loss_mask`, float32. "
        "None: rows are records.",
    )
    echoing: int = setting(
        1,
        NumberRule(1, 1 << 16),
        "number of times to repeat each batch in a row, for inputs slower than the trainer.",
    )
    on_corrupt: str = setting(
        "raise",
        one_of("raise", "skip"),
        '`"raise"`: a corrupt record raises an error with its file and offset. `"skip"`: replace '
        "it by the next intact record; skipped records are counted, and reported at the end of "
        "the epoch.",
    )
    state: Any = setting(
        None,
        Predicate(_is_state, "a token of state(step), or the number of a step"),
        "where to start: a token of `state(step)`, with any number of workers, rejected if the "
        "dataset or the order differs; or the number of a step, counted over all epochs. Records "
        "before that step are not read.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_setting(
            self,
            "remainder",
            self.remainder in (None, "drop") or self.batch_size is not None,
            "None or 'drop' for single examples",
        )

    @property
    def keeps_rows(self) -> bool:
        """Whether all batches have the same number of rows."""
        return self.batch_size is not None and self.remainder in ("drop", "pad")

    @property
    def keeps_pairs(self) -> bool:
        """Whether rows 0 and 1, 2 and 3, … of a full batch stay on one replica, to be mixed."""
        return False


def check_setting(options: object, name: str, is_allowed: bool, rule: str) -> None:
    """Raise a `ConfigError` for the value of a setting unless it is allowed."""
    if not is_allowed:
        raise ConfigError.of(name, getattr(options, name), allowed=rule)
