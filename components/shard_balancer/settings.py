"""The settings of ShardBalancer, checked where they are made.

BalancerSettings(num_shards={"train": 8, "eval": 2})
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from components.common.checks import COMPRESSIONS, check_choice, check_number
from trainer_utils.format import ConfigError, num_shards_for

__all__ = ["BalancerSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancerSettings:
    """What shapes the output.

    Args:
        num_shards: of every split, or by split; None: as `target_shard_bytes` has it.
        target_shard_bytes: wished size of a shard, at least 1 byte.
        shard_multiple: shards are a multiple of this, such as the number of workers.
        shuffle: a global permutation of each split's records; False keeps their order.
        seed: of that permutation; 64 bits, signed.
        compression: `none` or `gzip`.
        memory_bytes: about how much a worker may hold; more data goes through temporary files.
    """

    num_shards: int | Mapping[str, int] | None = None
    target_shard_bytes: int = 128 << 20
    shard_multiple: int = 1
    shuffle: bool = True
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
        check_number("seed", self.seed, -(2**63), 2**63 - 1)
        check_choice("compression", self.compression, COMPRESSIONS)
        check_number("memory_bytes", self.memory_bytes, 1 << 20)

    @classmethod
    def from_properties(cls, values: Mapping[str, Any]) -> "BalancerSettings":
        """From execution properties: `num_shards` is JSON, `shuffle` 0 or 1."""
        known: dict[str, Any] = {
            field.name: values[field.name]
            for field in dataclasses.fields(cls)
            if values.get(field.name) is not None
        }
        if "num_shards" in known:
            try:
                known["num_shards"] = json.loads(known["num_shards"])
            except ValueError as error:
                raise ConfigError(
                    f"num_shards: expected a number or JSON, got {known['num_shards']!r}"
                ) from error
        if "shuffle" in known:
            known["shuffle"] = bool(known["shuffle"])
        return cls(**known)

    def shards_of(self, split: str, *, num_records: int, num_bytes: int) -> int:
        """How many shards a split gets; never an empty one, but for an empty split."""
        asked = self.num_shards
        if isinstance(asked, Mapping):
            asked = asked.get(split)
        if asked is None:
            return num_shards_for(
                num_records=num_records,
                num_bytes=num_bytes,
                target_shard_bytes=self.target_shard_bytes,
                shard_multiple=self.shard_multiple,
            )
        asked += -asked % self.shard_multiple
        return max(1, min(asked, num_records))
