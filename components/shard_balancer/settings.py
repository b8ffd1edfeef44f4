"""The settings of ShardBalancer, checked where they are made.

BalancerSettings(num_shards={"train": 8, "eval": 2})
"""

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any

from components.common.checks import COMPRESSIONS, check_choice, check_number
from trainer_utils.format import ConfigError, num_shards_for
from trainer_utils.format.spelling import did_you_mean
from trainer_utils.format.tfrecord import BLOCK_BYTES

__all__ = ["BalancerSettings"]

_RUNNER_BYTES = 32 << 20  # Beam's own, and the planner's; measured: 20 to 30 MiB
_BUFFERS = 10  # blocks that are being read, cut up, joined, written and read back, of some two each


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancerSettings:
    """What shapes the output.

    Args:
        num_shards: of every split, or by split; None: as `target_shard_bytes` has it.
        target_shard_bytes: wished size of a shard, at least 1 byte.
        shard_multiple: shards are a multiple of this, such as the number of workers.
        shuffle: a global permutation of each split's records; False keeps their order.
        balance: `records`: shards differ by one record at the most; `bytes`: by the bytes of the
            largest record at the most.
        stratify_by: a feature of one value an example; each shard gets each value's share to
            within one record. With `shuffle` off, each shard keeps the order of the input.
        seed: of that permutation; 64 bits, signed.
        compression: `none` or `gzip`.
        memory_bytes: how much a worker may hold; more data goes through temporary files.
    """

    num_shards: int | Mapping[str, int] | None = None
    target_shard_bytes: int = 128 << 20
    shard_multiple: int = 1
    shuffle: bool = True
    balance: str = "records"
    stratify_by: str | None = None
    seed: int = 0
    compression: str = "none"
    memory_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if isinstance(self.num_shards, Mapping):
            for split, number in self.num_shards.items():
                check_number(f"num_shards[{split!r}]", number, 1)
        elif self.num_shards is not None:
            check_number("num_shards", self.num_shards, 1)
        check_number("target_shard_bytes", self.target_shard_bytes, 1)
        check_number("shard_multiple", self.shard_multiple, 1)
        check_choice("shuffle", self.shuffle, (False, True))
        check_choice("balance", self.balance, ("records", "bytes"))
        if self.stratify_by is not None and (
            not isinstance(self.stratify_by, str) or self.balance == "bytes"
        ):
            raise ConfigError(
                "stratify_by: expected a feature's name, and balance='records' with it, since "
                "shards cannot be equal in bytes and in classes at once, "
                f"got {self.stratify_by!r} and balance={self.balance!r}"
            )
        check_number("seed", self.seed, -(2**63), 2**63 - 1)
        check_choice("compression", self.compression, COMPRESSIONS)
        check_number("memory_bytes", self.memory_bytes, 1 << 20)

    @classmethod
    def from_properties(cls, values: Mapping[str, Any]) -> "BalancerSettings":
        """From execution properties: `num_shards` is JSON, `shuffle` 0 or 1."""
        known: dict[str, Any] = {
            field.name: values[field.name]
            for field in dataclasses.fields(cls)
            if values.get(field.name) not in (None, "")  # Kubeflow has no parameter without value
        }
        if isinstance(known.get("num_shards"), float):  # Kubeflow's numbers are float64
            known["num_shards"] = int(known["num_shards"])
        elif isinstance(known.get("num_shards"), str):
            try:
                known["num_shards"] = json.loads(known["num_shards"])
            except ValueError as error:
                raise ConfigError(
                    f"num_shards: expected a number or JSON, got {known['num_shards']!r}"
                ) from error
        if "shuffle" in known:
            known["shuffle"] = bool(known["shuffle"])
        return cls(**known)

    @property
    def held_bytes(self) -> int:
        """What may be held of records, the rest being buffers to read, join and check them."""
        others = _BUFFERS * self.block_bytes + _RUNNER_BYTES
        return max(self.memory_bytes - others, self.memory_bytes // 4)

    @property
    def block_bytes(self) -> int:
        """How much is read, joined or read back at a time."""
        return min(max(self.memory_bytes // 64, 64 << 10), BLOCK_BYTES)

    def check_splits(self, splits: Collection[str]) -> None:
        """Refuses a number of shards for a split that is not there.

        Raises:
            ConfigError: it names the split.
        """
        if isinstance(self.num_shards, Mapping):
            for split in self.num_shards:
                if split not in splits:
                    raise ConfigError(
                        f"num_shards[{split!r}]: expected one of the splits {', '.join(splits)}."
                        f"{did_you_mean(split, splits)}".removesuffix(".")
                    )

    def asked_shards(self, split: str) -> int | None:
        """How many shards were asked for, as a multiple; None: as their size has it."""
        asked = self.num_shards
        if isinstance(asked, Mapping):
            asked = asked.get(split)
        return None if asked is None else asked + -asked % self.shard_multiple

    def shards_of(self, split: str, *, num_records: int, num_bytes: int) -> int:
        """How many shards a split gets; never an empty one, but for an empty split."""
        asked = self.asked_shards(split)
        return num_shards_for(
            num_records=num_records,
            num_bytes=num_bytes,
            target_shard_bytes=self.target_shard_bytes,
            shard_multiple=self.shard_multiple,
            num_shards=asked,
        )
