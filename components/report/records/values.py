"""What one feature of an example holds: numbers, texts, an image, a sound, pixels, or bytes.

value = value_of(decode_example(record)["image"], features["image"])
value.kind, value.format, value.shape       # 'image', 'JPEG', (375, 500, 3)
"""

import base64
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer_utils.format import Feature
from trainer_utils.format.images import encode_png, image_size
from trainer_utils.format.json_text import Json
from trainer_utils.format.media_formats import FORMATS, format_of

_SUFFIXES = {known.name: known.extensions[0] for known in FORMATS} | {"RAW": ".png"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """What a feature holds in one example."""

    values: Sequence[Any]  # integers, floats or bytes
    kind: str  # `number`, `text`, `image`, `sound` or `bytes`
    format: str = ""  # of an image or a sound, such as `JPEG`, `RAW` (pixels) or `WAV`
    shape: tuple[int, ...] = ()  # of an image, `(height, width, channels)`
    names: Sequence[str] = ()  # of the classes that integers are, where there is a vocabulary

    @property
    def is_file(self) -> bool:
        """Whether its one value is what a file would hold."""
        return self.kind in ("image", "sound", "bytes") and len(self.values) == 1

    @property
    def num_bytes(self) -> int:
        """Of all values that are bytes."""
        return sum(len(value) for value in self.values if isinstance(value, bytes))

    @functools.cached_property
    def content(self) -> bytes:
        """The file's content; of pixels a PNG."""
        data: bytes = self.values[0]
        if self.format != "RAW":
            return data
        return encode_png(np.frombuffer(data, np.uint8).reshape(self.shape))

    @property
    def suffix(self) -> str:
        """Of the file's name, such as `.jpg`."""
        return _SUFFIXES.get(self.format, f".{self.format.lower() or 'bin'}")

    @property
    def texts(self) -> list[str]:
        """The values of a text; what is not UTF-8 in a file's name is escaped."""
        return [value.decode(errors="backslashreplace") for value in self.values]

    def to_json(self) -> Json:
        """Plain JSON types; a single value as itself; bytes that are no text as base64."""
        values = [_plain(value) for value in self.values]
        return values[0] if len(values) == 1 else values


def value_of(
    values: Sequence[Any],
    feature: Feature | None = None,
    vocabulary: Sequence[str] = (),
) -> Value:
    """Finds out what some values are, by looking at them.

    Args:
        values: as `decode_example` gives them.
        feature: what the dataset says of it, if anything.
        vocabulary: the names of classes, by number.
    """
    if not values or not isinstance(values[0], memoryview):
        are_classes = all(isinstance(v, int) and 0 <= v < len(vocabulary) for v in values)
        names = [vocabulary[value] for value in values] if are_classes else []
        return Value(values=values, kind="number", names=names)
    contents = [bytes(value) for value in values]
    if feature is not None and feature.is_raw_image and len(contents) == 1:
        shape = tuple(feature.extra.get("image_shape", ()))
        return Value(values=contents, kind="image", format="RAW", shape=shape)
    if (image := image_size(contents[0])) is not None:
        shape = (image.height, image.width, image.channels)
        return Value(values=contents, kind="image", format=image.format, shape=shape)
    if (known := format_of(contents[0])) is not None and known.kind == "audio":
        return Value(values=contents, kind="sound", format=known.name)
    return Value(values=contents, kind="text" if _are_texts(contents) else "bytes")


def _are_texts(contents: Sequence[bytes]) -> bool:
    try:
        return all(content.decode() is not None for content in contents)
    except UnicodeDecodeError:
        return False


def _plain(value: object) -> Json:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)  # JSON has neither NaN nor inf
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
