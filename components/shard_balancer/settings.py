"""The settings of ShardBalancer, checked where they are made.

BalancerSettings(num_shards={"train": 8, "eval": 2})
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from components.common.settings import COMPRESSIONS, ComponentSettings, are_texts, is_text
from components.shuffle.condition import parse_condition
from trainer_utils.format import ConfigError, num_shards_for
from trainer_utils.format.settings import number, one_of, setting, where
from trainer_utils.format.spelling import did_you_mean
from trainer_utils.format.tfrecord import BLOCK_BYTES

__all__ = ["BalancerSettings"]

_RUNNER_BYTES = 32 << 20  # Beam's own, and the planner's; measured: 20 to 30 MiB
_BUFFERS = 10  # blocks that are being read, cut up, joined, written and read back, of some two each


def _shards(name: str, value: object) -> object:
    if not isinstance(value, Mapping):
        return number(1)(name, value)
    for split, shards in value.items():
        number(1)(f"{name}[{split!r}]", shards)
    return value


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        is_text(key) and isinstance(new, (str, int, float)) and not isinstance(new, bool)
        for key, new in value.items()
    )


_feature = where(is_text, "a feature's name")
_names = where(
    lambda value: are_texts(value) or is_text(value), "names, or the path of a file with one a line"
)
_new_values = where(
    lambda value: _is_table(value) or is_text(value), "values by name, or the path of a CSV of both"
)
_uris = where(are_texts, "a list of uris of datasets")


def _condition(name: str, value: Any) -> str:
    return parse_condition(value, setting=name).text


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancerSettings(ComponentSettings):
    """What shapes the output."""

    num_shards: int | Mapping[str, int] | None = setting(
        None,
        _shards,
        'shards of every split, or by split: `{"train": 8, "eval": 2}`. Fewer where there are '
        "fewer records. Default: the number that comes closest to `target_shard_bytes`.",
    )
    target_shard_bytes: int = setting(
        128 << 20, number(1), "target size of a shard in bytes; 100 to 200 MB is the usual advice."
    )
    shard_multiple: int = setting(
        1, number(1), "the number of shards is a multiple of this, such as the number of workers."
    )
    shuffle: bool = setting(
        True,
        one_of(False, True),
        "a permutation of all records of a split: each is equally likely in every place. False "
        "keeps their order (with `stratify_by`: within each shard).",
    )
    balance: str = setting(
        "records",
        one_of("records", "bytes"),
        "`records`: shards differ by at most one record; `bytes`: by at most the bytes of "
        "the largest record (before compression).",
    )
    stratify_by: str | None = setting(
        None,
        _feature,
        "a feature, such as `label`: each shard holds each value's share to within one record. "
        "Each example has one value of it, or none, which counts as a value.",
    )
    seed: int = setting(0, number(-(2**63), 2**63 - 1), "seed of the permutation.")
    compression: str = setting(
        "none",
        one_of(*COMPRESSIONS),
        "`none`, or `gzip` (slower to read, and Datum cannot read it).",
    )
    memory_bytes: int = setting(
        1 << 30,
        number(1 << 20),
        "memory that a worker may use (below 64 MiB it takes some more than that); a split that is "
        "larger goes through temporary files beside the output. Planning by bytes or by class "
        "takes some 40 bytes a record of its own.",
    )
    exclude: str | Sequence[str] | None = setting(
        None,
        _names,
        "records to leave out: a list of names (`filename`, `id` or `record_id`), or the path of a "
        "file with one a line. Records of `add` stay, so that one can be replaced by another of "
        "its name. A million names take some 300 MB in each worker.",
    )
    relabel: str | Mapping[str, str | int | float] | None = setting(
        None,
        _new_values,
        "new labels: values by name, or the path of a CSV that begins with `name,label`. Another "
        "feature's name in place of `label` changes that feature.",
    )
    where: str | None = setting(
        None,
        _condition,
        "a condition on features that a record must meet to stay, such as "
        "`label != 'unknown' and height >= 64`.",
    )
    add: Sequence[str] = setting(
        (),
        _uris,
        "further datasets, by their uris, whose records come after those of `examples`.",
    )
    keep_shards: bool = setting(
        False,
        one_of(False, True),
        "True: shards stay as they are, as hard links or copies; only those with a changed record "
        "are written again, and nothing is balanced or shuffled.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stratify_by is not None and self.balance == "bytes":
            raise ConfigError(
                "stratify_by: expected a feature's name, and balance='records' with it, since "
                "shards cannot be equal in bytes and in classes at once, "
                f"got {self.stratify_by!r} and balance={self.balance!r}",
                setting="stratify_by",
                value=self.stratify_by,
            )

        self._check_kept()

    def _check_kept(self) -> None:
        """Refuses what shards that stay as they are cannot be."""
        others = {
            "num_shards": None,
            "shard_multiple": 1,
            "balance": "records",
            "stratify_by": None,
        }
        for name, default in others.items():
            value = getattr(self, name)
            if self.keep_shards and value != default:
                raise ConfigError(
                    f"keep_shards: expected False with {name}={value!r}, since shards that stay "
                    "cannot be divided anew, got True",
                    setting="keep_shards",
                    value=True,
                )

    @property
    def gzip(self) -> bool:
        """Whether shards are compressed."""
        return self.compression == "gzip"

    @property
    def changes_records(self) -> bool:
        """Whether some records are left out or get another label."""
        return bool(self.exclude or self.relabel or self.where)

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
