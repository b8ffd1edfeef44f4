"""Convert an entry's files and values to its example, and summarise the examples of a shard.

The summaries of all shards determine the features of the dataset.
"""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from components.example_gen.box_frames import fit_boxes
from components.example_gen.plan import Plan
from components.example_gen.settings import MediaSettings
from components.inputs.input_table import BlobColumn, Column, Entry, Value
from components.inputs.rejects import Reject, RejectedInputError
from components.media.audio import StoredAudio, store_audio
from components.media.images import (
    StoredImage,
    orientation_of_label_map,
    store_image,
    store_label_map,
)
from components.media.options import DESCRIPTIONS
from trainer_utils.core.decoding import decode
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format import Feature
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS
from trainer_utils.storage.paths import encode_path


class StoredBytes(NamedTuple):
    """A file that is stored unchanged."""

    data: bytes
    conversions: tuple[str, ...] = ()


Stored = StoredImage | StoredAudio | StoredBytes
SIXTEEN_BIT_PEAK = "sixteen_bit_peak"  # the peak of 16-bit images converted to 8 bits
_BITS = 8  # default bits per channel
_KEPT = ("labels", "media", "longest", "incomplete", "conversions")


def make_example(
    entry: Entry,
    blobs: list[bytes] | RejectedInputError,
    columns: Sequence[Column],
    blob_columns: Sequence[BlobColumn],
    settings: MediaSettings,
) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Return the stored form of an entry's files by feature, and all features of its example."""
    if isinstance(blobs, RejectedInputError):
        raise blobs
    media = store_media(entry, blobs, blob_columns, settings)
    values = entry.values
    if blob_columns and blob_columns[0].kind == "image" and len(media) == 1:
        fitted = fit_boxes(
            columns,
            values,
            blobs[0],
            settings.images,
            box_frame=box_frame_of(settings),
            renamed=settings.feature_names,
        )
        values = fitted.values
        media = {
            name: stored._replace(conversions=(*stored.conversions, *fitted.conversions))
            if fitted.conversions and isinstance(stored, StoredImage)
            else stored
            for name, stored in media.items()
        }
    sizes: dict[str, int] = {}  # sizes of the first image and of the first audio clip
    for stored in media.values():
        if isinstance(stored, StoredBytes):
            continue
        for name in DESCRIPTIONS["audio" if isinstance(stored, StoredAudio) else "image"]:
            sizes.setdefault(name, getattr(stored, name))
    features = encode_values(columns, values) | {"filename": encode_path(entry.name), **sizes}
    return media, features | {feature: stored.data for feature, stored in media.items()}


def box_frame_of(settings: MediaSettings) -> str | None:
    """Return the setting `box_frame` of images; audio files have none."""
    frame: str | None = getattr(settings, "box_frame", None)
    return frame


def _checked_text(data: bytes) -> bytes:
    """Return UTF-8 text without its byte order mark; raise RejectedInputError if it is invalid."""
    try:
        return data.decode("utf-8-sig").encode()
    except UnicodeDecodeError as error:
        raise RejectedInputError("NOT_UTF8", str(error)) from error


def store_media(
    entry: Entry, blobs: Sequence[bytes], columns: Sequence[BlobColumn], settings: MediaSettings
) -> dict[str, Stored]:
    """Return the stored form of an entry's files, by feature."""
    media: dict[str, Stored] = {}
    for column, data, blob in zip(columns, blobs, entry.blobs, strict=True):
        # A table's row has no file name, so use the entry's.
        filename = entry.name if len(columns) == 1 or blob.row is not None else blob.path
        try:
            if column.kind == "audio":
                media[column.name] = store_audio(data, settings.audio, filename=filename)
            elif column.kind == "image":
                media[column.name] = store_image(data, settings.images, filename=filename)
            elif column.kind == "bytes":
                media[column.name] = StoredBytes(data)
            elif column.kind == "text":
                media[column.name] = StoredBytes(_checked_text(data))
            else:
                first = next(n for n, column in enumerate(columns) if column.kind == "image")
                turn = functools.partial(
                    orientation_of_label_map,
                    photo=blobs[first],
                    options=settings.images,
                    box_frame=box_frame_of(settings),
                )
                stored = store_label_map(data, settings.images, turn=turn)
                photo = next(stored for stored in media.values() if isinstance(stored, StoredImage))
                if (stored.height, stored.width) != (photo.height, photo.width):
                    rule = f"expected {photo.width} x {photo.height} as the image has"
                    got = f"got {stored.width} x {stored.height}"
                    raise RejectedInputError("LABEL_MAP_SIZE", f"{rule}, {got}")
                media[column.name] = stored
        except RejectedInputError as error:
            if len(columns) == 1:
                raise
            place = f"row {blob.row}" if blob.row is not None else blob.path
            detail = f"{column.name}, {place}: {error.detail}"
            raise RejectedInputError(error.code, detail) from error
    return media


def encode_values(columns: Sequence[Column], values: Sequence[Value]) -> dict[str, Any]:
    """Convert values to features: UTF-8 strings, floats and ints. Missing values are left out."""
    features: dict[str, Any] = {}
    for column, value in zip(columns, values, strict=True):
        encode: Any = {"string": encode_path, "float": float}.get(column.kind, int)
        if isinstance(value, tuple):
            features[column.name] = tuple(map(encode, value))
        elif value is not None:
            features[column.name] = encode(value)
    return features


@dataclasses.dataclass
class MediaFacts:
    """Facts about one feature of images or audio."""

    first: dict[str, int] = dataclasses.field(default_factory=dict)  # numbers of the first value
    # The minimum and maximum of each of these numbers
    ranges: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    formats: list[str] = dataclasses.field(default_factory=list)  # distinct formats

    def add(self, stored: Stored) -> None:
        """Add one image or clip."""
        if isinstance(stored, StoredBytes):
            return
        if isinstance(stored, StoredAudio):
            names, file_format = (*DESCRIPTIONS["audio"], "channels"), "WAV"
        else:
            names, file_format = DESCRIPTIONS["image"], stored.format
        numbers = {name: getattr(stored, name) for name in names}
        ranges = {name: [number, number] for name, number in numbers.items()}
        if isinstance(stored, StoredImage):
            if stored.bits != _BITS:
                ranges["bits"] = [stored.bits, stored.bits]
            if stored.sixteen_bit_peak is not None:
                ranges[SIXTEEN_BIT_PEAK] = [stored.sixteen_bit_peak] * 2
        self.join(MediaFacts(numbers, ranges, [file_format]))

    def join(self, other: "MediaFacts") -> None:
        """Add the facts of another part."""
        self.first = self.first or other.first
        for name, (low, high) in other.ranges.items():
            least, most = self.ranges.get(name, (low, high))
            self.ranges[name] = [min(least, low), max(most, high)]
        self.formats += [
            file_format for file_format in other.formats if file_format not in self.formats
        ]

    def feature(self, kind: str) -> Feature:
        """Return the feature of a kind, such as `image`, with properties that all values share."""
        shared = {name: least for name, (least, most) in self.ranges.items() if least == most}
        if kind in ("bytes", "text"):
            return Feature(type="string")
        if kind == "audio":
            return Feature(type="string", extra={"encoding": "wav", **shared})
        height, width, channels = (self.first[name] for name in DESCRIPTIONS["image"])
        formats = sorted(self.formats)
        if formats == ["RAW"]:
            shape = [height, width, channels]
            return Feature(type="string", extra={"encoding": "raw", "image_shape": shape})
        extra: JsonObject = {"sizes": "fixed" if {"height", "width"} <= {*shared} else "mixed"}
        if not DATUM_IMAGE_FORMATS.issuperset(formats):
            extra["formats"] = formats
        if "bits" in self.ranges:  # the maximum; other images have fewer
            extra["bits"] = self.ranges["bits"][1]
        if kind == "label_map":
            extra["label_map"] = True
        # Datum decodes rank 2 to one channel and rank 3 to three.
        shape_of_one = (height, width) if shared.get("channels") == 1 else (height, width, 3)
        return Feature(type="string", shape=shape_of_one, extra=extra)


@dataclasses.dataclass
class ShardSummary:
    """The outcome of one or more tasks."""

    labels: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    media: dict[str, MediaFacts] = dataclasses.field(default_factory=dict)  # by feature
    # The length of the longest value of each list column
    longest: dict[str, int] = dataclasses.field(default_factory=dict)
    incomplete: list[str] = dataclasses.field(default_factory=list)  # columns that an example lacks
    # Number of examples by conversion of their images or audio
    conversions: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    fingerprint: int = 0  # fingerprint of the input files, as `sum_blobs` returns it
    own_fingerprint: int = 0  # the same, only for inputs that became records
    rejects: list[Reject] = dataclasses.field(default_factory=list)  # rejected inputs
    # names, states: 64-bit digests of each record's input, in record order: of its name, and of
    # everything that the record was created from
    names: list[int] = dataclasses.field(default_factory=list)
    states: list[int] = dataclasses.field(default_factory=list)

    def add(
        self, media: Mapping[str, Stored], columns: Sequence[Column], values: Sequence[Value]
    ) -> None:
        """Add one example, without its label."""
        for feature, stored in media.items():
            self.media.setdefault(feature, MediaFacts()).add(stored)
            for conversion in stored.conversions:
                self.conversions[conversion] += 1
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, tuple):
                self.longest[column.name] = max(self.longest.get(column.name, 0), len(value))
            elif value is None and column.name not in self.incomplete:
                self.incomplete.append(column.name)

    def join(self, other: "ShardSummary") -> None:
        """Add the summary of the shard's next part."""
        for feature, facts in other.media.items():
            self.media.setdefault(feature, MediaFacts()).join(facts)
        self.labels.update(other.labels)
        self.conversions.update(other.conversions)
        for column, most in other.longest.items():
            self.longest[column] = max(self.longest.get(column, 0), most)
        self.incomplete += [name for name in other.incomplete if name not in self.incomplete]
        for name in ("fingerprint", "own_fingerprint", "rejects", "names", "states"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @classmethod
    def of(cls, summaries: Iterable["ShardSummary"]) -> "ShardSummary":
        """Merge summaries, without the digests of single records."""
        total = cls()
        for summary in summaries:
            total.join(dataclasses.replace(summary, names=[], states=[]))
        return total

    def to_json(self) -> JsonObject:
        """Return the facts about the records as plain JSON types."""
        facts = {name: getattr(self, name) for name in _KEPT}
        facts["media"] = {name: vars(facts) for name, facts in self.media.items()}
        return {**facts, "fingerprint": f"{self.own_fingerprint % 2**128:032x}"}

    @classmethod
    def from_json(cls, value: JsonObject) -> "ShardSummary":
        """Read the value that `to_json` returned."""
        fields = {name: value[name] for name in _KEPT}
        fields["fingerprint"] = fields["own_fingerprint"] = int(value["fingerprint"], 16)
        fields["labels"] = collections.Counter(
            {int(n): count for n, count in value["labels"].items()}
        )
        fields["conversions"] = collections.Counter(value["conversions"])
        fields["media"] = decode(dict[str, MediaFacts], value["media"])
        return cls(**fields)

    def features(self, plan: Plan, blobs: Sequence[BlobColumn]) -> dict[str, Feature]:
        """Return the features of examples with files, by name, without blobs that never occur."""
        features = {"filename": Feature(type="string")}
        for name, kind in blobs:
            if name in self.media:
                features[name] = self.media[name].feature(kind)
            features |= {other: Feature(type="int") for other in DESCRIPTIONS.get(kind, ())}
        for column in plan.columns:
            # The image's actual size takes precedence over an annotation's.
            if column.name not in features:
                features[column.name] = plan.feature(
                    column,
                    length=column.length,
                    longest=self.longest.get(column.name, 0),
                    is_missing=column.name in self.incomplete,
                )
        return features
