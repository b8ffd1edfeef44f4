"""The settings of ShardBalancer, validated on creation."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from components.inputs.advice import how_to_set
from components.runtime.component_settings import (
    COMPRESSIONS,
    ComponentSettings,
    Sharding,
    are_texts,
    is_text,
    shard_counts,
)
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import NumberRule, Predicate, one_of, setting
from trainer_utils.format.condition import parse_condition
from trainer_utils.format.tfrecord import BLOCK_BYTES

_RUNNER_BYTES = 32 << 20  # memory of Beam and the planner; measured: 20 to 30 MiB
_BUFFERS = 10  # blocks in memory: about two each to read, cut, join, write and verify


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        is_text(key) and isinstance(new, (str, int, float)) and not isinstance(new, bool)
        for key, new in value.items()
    )


_feature = Predicate(is_text, "a feature's name")
_names = Predicate(
    lambda value: are_texts(value) or is_text(value),
    "names, or the path of a file with one per line",
)
_new_values = Predicate(
    lambda value: _is_table(value) or is_text(value), "values by name, or the path of a CSV of both"
)
_uris = Predicate(are_texts, "a list of uris of datasets")


def _condition(name: str, value: Any) -> str:
    return parse_condition(value).text


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancerSettings(Sharding, ComponentSettings):
    """The settings of ShardBalancer.

    Args:
        num_shards: number of shards of every split, or by split: `{"train": 8, "eval": 2}`. Splits
            with fewer records get fewer shards. Default: the number that comes closest to
            `target_shard_bytes`.
        target_shard_bytes: target size of a shard in bytes; 100 to 200 MB is the usual advice.
        shard_multiple: round the number of shards to a multiple of this, such as the number of
            workers.
        shuffle: permute all records of a split: each is equally likely in every position. False
            keeps their order (with `stratify_by`: within each shard).
        balance: `records`: shards differ by at most one record; `bytes`: by at most the bytes of
            the largest record (before compression).
        stratify_by: a feature, such as `label`: every shard gets its share of each of the feature's
            values, to within one record. An example may have at most one value; a missing value
            counts as a value.
        seed: seed of the permutation.
        compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
        memory_bytes: memory that a worker may use; below 64 MiB, it uses more. Larger splits go
            through temporary files next to the output. Planning by bytes or by class
            takes about 40 additional bytes per record.
        exclude: records to leave out: a list of names (`filename`, `id` or `record_id`), or the
            path of a file with one name per line. Added records are kept, so a record can be
            replaced by another of the same name. A million names take about 300 MB in each worker.
        relabel: new labels: values by name, or the path of a CSV that begins with `name,label`.
            Another feature's name in place of `label` changes that feature.
        where: a condition on features that a record must meet to be kept, such as `label !=
            'unknown' and height >= 64`.
        add: uris of further datasets, whose records come last.
        keep_shards: link or copy shards without changed records, and rewrite only the others.
            Nothing is balanced or shuffled.
    """

    num_shards: int | Mapping[str, int] | None = setting(None, shard_counts)
    target_shard_bytes: int = setting(128 << 20, NumberRule(1))
    shard_multiple: int = setting(1, NumberRule(1))
    shuffle: bool = setting(True, one_of(False, True))
    balance: str = setting("records", one_of("records", "bytes"))
    stratify_by: str | None = setting(None, _feature)
    seed: int = setting(0, NumberRule(-(2**63), 2**63 - 1))
    compression: str = setting("none", one_of(*COMPRESSIONS))
    memory_bytes: int = setting(1 << 30, NumberRule(1 << 20))
    exclude: str | Sequence[str] | None = setting(None, _names, is_path=True)
    relabel: str | Mapping[str, str | int | float] | None = setting(None, _new_values, is_path=True)
    where: str | None = setting(None, _condition)
    add: Sequence[str] = setting((), _uris, is_path=True)
    keep_shards: bool = setting(False, one_of(False, True))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stratify_by is not None and self.balance == "bytes":
            rule = (
                "None with balance='bytes', since shards cannot be equal in bytes and in classes "
                "at once"
            )
            advice = f"Balance by records: {how_to_set(balance='records')}"
            raise ConfigError.of("stratify_by", self.stratify_by, allowed=rule, advice=advice)
        for name in ("num_shards", "shard_multiple", "balance", "stratify_by"):
            value = getattr(self, name)
            if self.keep_shards and value != getattr(BalancerSettings, name):
                rule = f"False with {name}={value!r}, since reused shards cannot be divided again"
                raise ConfigError.of("keep_shards", True, allowed=rule)

    @property
    def changes_records(self) -> bool:
        """Whether records are left out or relabelled."""
        return bool(self.exclude or self.relabel or self.where)

    @property
    def held_bytes(self) -> int:
        """Memory for records in bytes, without buffers for reading, joining and checking."""
        others = _BUFFERS * self.block_bytes + _RUNNER_BYTES
        return max(self.memory_bytes - others, self.memory_bytes // 4)

    @property
    def block_bytes(self) -> int:
        """Bytes to read or join at once."""
        return min(max(self.memory_bytes // 64, 64 << 10), BLOCK_BYTES)
