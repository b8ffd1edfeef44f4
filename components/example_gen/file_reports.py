"""What each shard of media reports: counts, sizes, conversions and rejects.

summary = ShardSummary()
summary.add({"image": stored}, columns, values)
"""

import dataclasses
from collections.abc import Mapping, Sequence

from components.common.entry import Column, Value
from components.common.rejects import Reject
from components.media.audio import StoredAudio
from components.media.images import StoredImage
from trainer_utils.format import Shard
from trainer_utils.format.json_text import JsonObject

Stored = StoredImage | StoredAudio


@dataclasses.dataclass
class ImageFacts:
    """Of one image feature of a shard.

    Args:
        shape: height, width and channels of the first; empty without one.
        one_size: whether all have that height and width.
        channels: the numbers of channels that occur.
        formats: the formats that occur.
    """

    shape: list[int] = dataclasses.field(default_factory=list)
    one_size: bool = True
    channels: list[int] = dataclasses.field(default_factory=list)
    formats: list[str] = dataclasses.field(default_factory=list)

    def add(self, image: StoredImage) -> None:
        """Takes one more image in."""
        size = [image.height, image.width]
        self.shape = self.shape or [*size, image.channels]
        self.one_size &= size == self.shape[:2]
        if image.channels not in self.channels:
            self.channels.append(image.channels)
        if image.format not in self.formats:
            self.formats.append(image.format)

    def join(self, other: "ImageFacts") -> None:
        """Takes those of another part of the shard in, none of which is empty."""
        self.one_size &= other.one_size and self.shape[:2] in ([], other.shape[:2])
        self.shape = self.shape or other.shape
        self.channels += [one for one in other.channels if one not in self.channels]
        self.formats += [one for one in other.formats if one not in self.formats]


@dataclasses.dataclass
class AudioFacts:
    """Of one audio feature of a shard: what occurs, least and most."""

    sample_rates: tuple[int, int] = (0, 0)
    num_frames: tuple[int, int] = (0, 0)
    channels: tuple[int, int] = (0, 0)

    def add(self, audio: StoredAudio) -> None:
        """Takes one more in."""
        self.sample_rates = _widened(self.sample_rates, audio.sample_rate)
        self.num_frames = _widened(self.num_frames, audio.num_frames)
        self.channels = _widened(self.channels, audio.channels)

    def join(self, other: "AudioFacts") -> None:
        """Takes those of another shard in."""
        for name in ("sample_rates", "num_frames", "channels"):
            for bound in getattr(other, name):
                setattr(self, name, _widened(getattr(self, name), bound))


def _widened(bounds: tuple[int, int], value: int) -> tuple[int, int]:
    least, most = bounds
    return (value, value) if not most else (min(least, value), max(most, value))


@dataclasses.dataclass
class ShardSummary:
    """What became of one task.

    Args:
        labels: how often each class occurs, by id.
        images, audio: by feature.
        longest: of each list column, the most values.
        incomplete: columns that an example lacks.
        conversions: examples by what was done to their images or sounds.
        fingerprint: of the inputs' files, as `sum_blobs` has it.
        own_fingerprint: the same of those that became records.
        rejects: what was left out.
        names, states: 64-bit sums of each record's input, in their order: of its name, and of all
            that the record was made of.
    """

    labels: dict[int, int] = dataclasses.field(default_factory=dict)
    images: dict[str, ImageFacts] = dataclasses.field(default_factory=dict)
    audio: dict[str, AudioFacts] = dataclasses.field(default_factory=dict)
    longest: dict[str, int] = dataclasses.field(default_factory=dict)
    incomplete: list[str] = dataclasses.field(default_factory=list)
    conversions: dict[str, int] = dataclasses.field(default_factory=dict)
    fingerprint: int = 0
    own_fingerprint: int = 0
    rejects: list[Reject] = dataclasses.field(default_factory=list)
    names: list[int] = dataclasses.field(default_factory=list)
    states: list[int] = dataclasses.field(default_factory=list)

    def add(
        self,
        media: Mapping[str, Stored],
        columns: Sequence[Column],
        values: Sequence[Value],
    ) -> None:
        """Takes one more example in."""
        for feature, stored in media.items():
            if isinstance(stored, StoredImage):
                self.images.setdefault(feature, ImageFacts()).add(stored)
            else:
                self.audio.setdefault(feature, AudioFacts()).add(stored)
            for conversion in stored.conversions:
                self.conversions[conversion] = self.conversions.get(conversion, 0) + 1
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, tuple):
                self.longest[column.name] = max(self.longest.get(column.name, 0), len(value))
            elif value is None and column.name not in self.incomplete:
                self.incomplete.append(column.name)

    def join(self, other: "ShardSummary") -> None:
        """Takes that of the shard's next part in."""
        for label, count in other.labels.items():
            self.labels[label] = self.labels.get(label, 0) + count
        for conversion, count in other.conversions.items():
            self.conversions[conversion] = self.conversions.get(conversion, 0) + count
        for feature, images in other.images.items():
            self.images.setdefault(feature, ImageFacts()).join(images)
        for feature, sounds in other.audio.items():
            self.audio.setdefault(feature, AudioFacts()).join(sounds)
        for column, most in other.longest.items():
            self.longest[column] = max(self.longest.get(column, 0), most)
        self.incomplete += [one for one in other.incomplete if one not in self.incomplete]
        self.fingerprint += other.fingerprint
        self.own_fingerprint += other.own_fingerprint
        self.rejects += other.rejects
        self.names += other.names
        self.states += other.states

    def to_json(self) -> JsonObject:
        """What is known of the records themselves, as plain JSON types."""
        plain = dataclasses.replace(self, names=[], states=[], rejects=[])
        facts = {name: value for name, value in dataclasses.asdict(plain).items() if name in _KEPT}
        return {**facts, "fingerprint": f"{self.own_fingerprint % 2**128:032x}"}

    @classmethod
    def from_json(cls, value: JsonObject) -> "ShardSummary":
        """Reads what `to_json` made."""
        given = {name: value[name] for name in _KEPT}
        given["fingerprint"] = given["own_fingerprint"] = int(value["fingerprint"], 16)
        given["labels"] = {int(label): count for label, count in value["labels"].items()}
        given["images"] = {name: ImageFacts(**facts) for name, facts in value["images"].items()}
        given["audio"] = {
            name: AudioFacts(**{key: tuple(bounds) for key, bounds in facts.items()})
            for name, facts in value["audio"].items()
        }
        return cls(**given)


_KEPT = ("labels", "images", "audio", "longest", "incomplete", "conversions")


@dataclasses.dataclass(frozen=True)
class KnownShard:
    """A shard of an earlier conversion.

    Args:
        uri: of its dataset.
        summary: what its records were made of.
        listing: a digest of what a listing says of its inputs; empty: that does not say enough.
        is_listed: whether the listing still says the same, so that no file need be read.
    """

    uri: str
    shard: Shard
    summary: ShardSummary
    listing: str = ""
    is_listed: bool = False
