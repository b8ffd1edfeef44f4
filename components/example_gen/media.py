"""From an entry's files to what its example holds of them, and what a shard reports of all."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from components.common.entry import BlobColumn, Column, Entry, Value
from components.common.rejects import Reject, RejectedInputError
from components.example_gen.settings import MediaSettings
from components.media.audio import StoredAudio, store_audio
from components.media.images import StoredImage, open_image, store_image, store_label_map
from trainer_utils.format import Shard
from trainer_utils.format.json_text import JsonObject

Stored = StoredImage | StoredAudio
_KEPT = ("labels", "images", "audio", "longest", "incomplete", "conversions")
# What the first file of a kind is described by, in features of these names.
DESCRIPTIONS = {"image": ("height", "width", "channels"), "audio": ("sample_rate", "num_frames")}


@dataclasses.dataclass
class ImageFacts:
    """Of one image feature."""

    # Height, width and channels of the first; empty without one
    shape: list[int] = dataclasses.field(default_factory=list)
    one_size: bool = True  # whether all have that height and width
    # channels, formats: those that occur
    channels: list[int] = dataclasses.field(default_factory=list)
    formats: list[str] = dataclasses.field(default_factory=list)

    def join(self, other: "ImageFacts") -> None:
        """Takes more images in."""
        self.one_size &= other.one_size and self.shape[:2] in ([], other.shape[:2])
        self.shape = self.shape or other.shape
        self.channels += [one for one in other.channels if one not in self.channels]
        self.formats += [one for one in other.formats if one not in self.formats]


@dataclasses.dataclass
class AudioFacts:
    """Of one audio feature: the least and the most that occurs."""

    sample_rates: tuple[int, int] = (0, 0)
    num_frames: tuple[int, int] = (0, 0)
    channels: tuple[int, int] = (0, 0)

    def join(self, other: "AudioFacts") -> None:
        """Takes more sounds in."""
        for name, (low, high) in vars(other).items():
            least, most = getattr(self, name)
            setattr(self, name, (min(least, low), max(most, high)) if most else (low, high))


def _facts_of(stored: Stored) -> Any:
    if isinstance(stored, StoredAudio):
        numbers = (stored.sample_rate, stored.num_frames, stored.channels)
        return AudioFacts(*((number, number) for number in numbers))
    shape = [stored.height, stored.width, stored.channels]
    return ImageFacts(shape, True, [stored.channels], [stored.format])


@dataclasses.dataclass
class ShardSummary:
    """What became of one task, or of several."""

    # How often each class occurs, by id
    labels: dict[int, int] = dataclasses.field(default_factory=dict)
    # images, audio: by feature
    images: dict[str, ImageFacts] = dataclasses.field(default_factory=dict)
    audio: dict[str, AudioFacts] = dataclasses.field(default_factory=dict)
    # Of each list column, the most values
    longest: dict[str, int] = dataclasses.field(default_factory=dict)
    incomplete: list[str] = dataclasses.field(default_factory=list)  # columns that an example lacks
    # Examples by what was done to their images or sounds
    conversions: dict[str, int] = dataclasses.field(default_factory=dict)
    fingerprint: int = 0  # of the inputs' files, as `sum_blobs` has it
    own_fingerprint: int = 0  # the same of those that became records
    rejects: list[Reject] = dataclasses.field(default_factory=list)  # what was left out
    # names, states: 64-bit sums of each record's input, in their order: of its name, and of all
    # that the record was made of
    names: list[int] = dataclasses.field(default_factory=list)
    states: list[int] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, summaries: Iterable["ShardSummary"]) -> "ShardSummary":
        """All of them together, but for what is known record by record."""
        total = cls()
        for summary in summaries:
            total.join(dataclasses.replace(summary, names=[], states=[]))
        return total

    def add(
        self, media: Mapping[str, Stored], columns: Sequence[Column], values: Sequence[Value]
    ) -> None:
        """Takes one more example in."""
        for feature, stored in media.items():
            facts: Any = self.images if isinstance(stored, StoredImage) else self.audio
            _join_facts(facts, {feature: _facts_of(stored)})
            for conversion in stored.conversions:
                self.conversions[conversion] = self.conversions.get(conversion, 0) + 1
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, tuple):
                self.longest[column.name] = max(self.longest.get(column.name, 0), len(value))
            elif value is None and column.name not in self.incomplete:
                self.incomplete.append(column.name)

    def join(self, other: "ShardSummary") -> None:
        """Takes that of the shard's next part in."""
        _join_facts(self.images, other.images)
        _join_facts(self.audio, other.audio)
        for sums, more in ((self.labels, other.labels), (self.conversions, other.conversions)):
            counts: Any = sums
            for key, count in more.items():
                counts[key] = counts.get(key, 0) + count
        for column, most in other.longest.items():
            self.longest[column] = max(self.longest.get(column, 0), most)
        self.incomplete += [one for one in other.incomplete if one not in self.incomplete]
        for name in ("fingerprint", "own_fingerprint", "rejects", "names", "states"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

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


def _join_facts(facts: dict[str, Any], more: Mapping[str, Any]) -> None:
    for feature, one in more.items():
        if feature not in facts:
            facts[feature] = type(one)()
        facts[feature].join(one)


@dataclasses.dataclass(frozen=True)
class KnownShard:
    """A shard of an earlier conversion."""

    uri: str  # of its dataset
    shard: Shard
    summary: ShardSummary  # what its records were made of
    # A digest of what a listing says of its inputs; empty: that does not say enough
    listing: str = ""
    is_listed: bool = False  # whether the listing still says the same, so that no file need be read


def store_media(
    entry: Entry,
    blobs: list[bytes] | RejectedInputError,
    columns: Sequence[BlobColumn],
    settings: MediaSettings,
) -> dict[str, Stored]:
    """What is kept of an entry's files, by feature.

    Args:
        blobs: their bytes, or why they could not be read.
    """
    if isinstance(blobs, RejectedInputError):
        raise blobs
    media: dict[str, Stored] = {}
    for column, data, blob in zip(columns, blobs, entry.blobs, strict=True):
        # A row of a table has no name of its own but the entry's.
        filename = entry.name if len(columns) == 1 or blob.row is not None else blob.path
        try:
            stored = _stored(column.kind, data, settings, filename)
        except RejectedInputError as error:
            if len(columns) == 1:
                raise
            place = f"row {blob.row}" if blob.row is not None else blob.path
            detail = f"{column.name}, {place}: {error.detail}"
            raise RejectedInputError(error.code, detail) from error
        if column.kind == "label_map":
            _check_size(stored, media.values())
        media[column.name] = stored
    return media


def _stored(kind: str, data: bytes, settings: MediaSettings, filename: str) -> Stored:
    if kind == "audio":
        return store_audio(data, settings.audio, filename=filename)
    if kind == "image":
        return store_image(data, settings.images, filename=filename)
    return store_label_map(data, settings.images)


def _check_size(label_map: Stored, media: Iterable[Stored]) -> None:
    assert isinstance(label_map, StoredImage)
    photo = next(stored for stored in media if isinstance(stored, StoredImage))
    if (label_map.height, label_map.width) != (photo.height, photo.width):
        raise RejectedInputError(
            "LABEL_MAP_SIZE",
            f"expected {photo.width} x {photo.height} as the image has, "
            f"got {label_map.width} x {label_map.height}",
        )


def check_annotation(
    media: Mapping[str, Stored],
    blobs: list[bytes] | RejectedInputError,
    size: Sequence[Value],
    settings: MediaSettings,
) -> dict[str, Stored]:
    """Compares an image with the size that its annotation has scaled the boxes by.

    Boxes fit an image that was scaled since, which is counted as BOXES_SCALED; of an image that has
    been cut or turned, or is another one, nobody knows where they are: BAD_ANNOTATION.

    Args:
        media: what is kept of the image.
        blobs: its file.
        size: height and width, as the annotation says.
    """
    ((name, stored),) = media.items()
    said_height, said_width = cast(tuple[int, int], size)
    assert isinstance(stored, StoredImage)
    assert isinstance(blobs, list)
    if (stored.height, stored.width) == (said_height, said_width):
        return {name: stored}
    # It may be we who have scaled it.
    width, height = open_image(blobs[0], max_pixels=settings.images.max_pixels).size
    if (height, width) == (said_height, said_width):
        return {name: stored}
    if abs(said_width * height - said_height * width) > max(width, height, said_width, said_height):
        is_turned = (said_height, said_width) == (width, height)
        raise RejectedInputError(
            "BAD_ANNOTATION",
            f"expected the size of its image, {width} x {height}, got {said_width} x {said_height}"
            + (": the image turned by a quarter. Save it upright" if is_turned else ""),
        )
    return {name: stored._replace(conversions=(*stored.conversions, "BOXES_SCALED"))}


def describe_media(media: Iterable[Stored]) -> dict[str, int]:
    """The sizes of the first image and of the first sound, as features."""
    features: dict[str, int] = {}
    for stored in media:
        kind = "audio" if isinstance(stored, StoredAudio) else "image"
        for name in DESCRIPTIONS[kind]:
            features.setdefault(name, getattr(stored, name))
    return features
