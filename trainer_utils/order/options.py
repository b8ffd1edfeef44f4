"""`OrderOptions`: the settings that say which record comes at which step.

options = OrderOptions(batch_size=256, shuffle="global", seed=7, remainder="pad")
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.order.layout import REMAINDERS

__all__ = ["OrderOptions", "check_setting", "is_int"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderOptions:
    """Batches, their order, and where to begin.

    Args:
        batch_size: size of the GLOBAL batch: each replica gets its share. None: single examples,
            not batched.
        shuffle: True: shards and records in a new order each epoch, records within a window of
            `shuffle_bytes`. A number: within a window of that many records. `"global"`: a true
            permutation of all records, a new one each epoch, without a buffer (records are read at
            random, so use local disks, and no gzip). False: the order of the files.
        shuffle_bytes: size of the shuffle window in bytes of serialized records, of all workers
            together, so that the order does not depend on how many there are.
        seed: seed of all random orders.
        repeat: True: forever; a number: that many epochs.
        remainder: what becomes of the records that fill no whole batch. `"drop"`: they are dropped,
            others each epoch, and all shapes are static. `"pad"`: the last batch is filled up with
            rows of weight 0, marked by `mask`. `"balance"`: the last two batches are made equally
            large. None: the last batch is smaller; with fewer records than replicas, some replicas
            get an empty one. Of single examples, fewer than there are workers are dropped.
        drop_remainder: drop a last batch that is not full, so that shapes are static.
        weights: how often records of each of several datasets come, in any unit; datasets that
            run out begin again, and an epoch is as many records as there are in all of them. None:
            every record comes once.
        echoing: how often each batch is repeated in a row, for inputs slower than the trainer.
        on_corrupt: `"raise"`: a bad record ends the epoch, with its file and offset. `"skip"`: it
            is skipped, counted, and reported at the end of the epoch.
        start_step: the step of the first batch, counted over all epochs. What comes before is not
            read.
        state: a token of `state(step)` to resume from, instead of `start_step`, with any number of
            workers; refused if the dataset or the order differs.

    Raises:
        ConfigError: a setting is not allowed.
    """

    batch_size: int | None = 64
    shuffle: bool | int | str = True
    shuffle_bytes: int = 256 << 20  # 256 MiB: 2,500 photos of 100 KB
    seed: int = 0
    repeat: bool | int = False
    remainder: str | None = None
    drop_remainder: bool = False
    weights: Sequence[float] | None = None
    echoing: int = 1
    on_corrupt: str = "raise"
    start_step: int = 0
    state: Any = None

    def __post_init__(self) -> None:
        size, shuffle, repeat, weights = self.batch_size, self.shuffle, self.repeat, self.weights
        check_setting(
            self,
            "batch_size",
            size is None or (is_int(size) and size >= 1),
            "an int of at least 1, or None",
        )
        is_window = isinstance(shuffle, int) and (isinstance(shuffle, bool) or shuffle > 0)
        check_setting(
            self,
            "shuffle",
            is_window or shuffle == "global",
            "True, False, a number of records, or 'global'",
        )
        check_setting(
            self, "shuffle_bytes", is_int(self.shuffle_bytes) and self.shuffle_bytes > 0, "bytes"
        )
        check_setting(self, "seed", is_int(self.seed), "an int")
        check_setting(
            self,
            "repeat",
            isinstance(repeat, bool) or (is_int(repeat) and repeat > 0),
            "a bool or a number of epochs of at least 1",
        )
        remainders = ", ".join(map(repr, REMAINDERS))
        check_setting(self, "remainder", self.remainder in REMAINDERS, f"one of {remainders}")
        check_setting(
            self,
            "remainder",
            self.remainder in (None, "drop") or not (self.drop_remainder or not size),
            "None or 'drop' for single examples, and with drop_remainder",
        )
        check_setting(
            self,
            "weights",
            weights is None or (all(weight > 0 for weight in weights) and len(weights) > 0),
            "a number above 0 for each dataset",
        )
        is_count = is_int(self.echoing) and self.echoing >= 1
        check_setting(self, "echoing", is_count, "an int of at least 1")
        check_setting(self, "on_corrupt", self.on_corrupt in ("raise", "skip"), "'raise' or 'skip'")
        is_step = is_int(self.start_step) and self.start_step >= 0
        check_setting(self, "start_step", is_step, "an int of at least 0")
        has_one_start = self.state is None or not self.start_step
        check_setting(self, "state", has_one_start, "None with a start_step")

    @property
    def keeps_pairs(self) -> bool:
        """Whether rows 0 and 1, 2 and 3, … of a full batch stay together, to be mixed later."""
        return False


def check_setting(options: object, name: str, is_allowed: bool, rule: str) -> None:
    """Refuses the value of a setting that is not allowed, as a `ConfigError`."""
    if not is_allowed:
        raise ConfigError.of(name, getattr(options, name), allowed=rule)


def is_int(value: object) -> bool:
    """Whether a value is a number, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)
