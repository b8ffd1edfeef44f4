"""How many shards a split gets: settings that the ExampleGens and ShardBalancer share.

    settings.shards_of("train", num_records=100, num_bytes=1 << 30)

A dataset that an ExampleGen made with the settings of a ShardBalancer has its shards already.
"""

from collections.abc import Collection, Mapping

from trainer_utils.format import ConfigError, num_shards_for
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.settings import number


def shard_counts(name: str, value: object) -> object:
    """The rule of `num_shards`: a number of at least 1, or one by split."""
    if not isinstance(value, Mapping):
        return number(1)(name, value)
    for split, shards in value.items():
        number(1)(f"{name}[{split!r}]", shards)
    return value


class Sharding:
    """Base of settings that say how many shards there are, and how they are written."""

    num_shards: int | Mapping[str, int] | None
    target_shard_bytes: int
    shard_multiple: int
    seed: int
    compression: str

    @property
    def gzip(self) -> bool:
        """Whether shards are compressed."""
        return self.compression == "gzip"

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
        return num_shards_for(
            num_records=num_records,
            num_bytes=num_bytes,
            target_shard_bytes=self.target_shard_bytes,
            shard_multiple=self.shard_multiple,
            num_shards=self.asked_shards(split),
        )
