"""Small pictures of examples, with boxes and label maps drawn in, as data that a page holds; wave
forms of their sounds.

draw_picture(example).source          # 'data:image/jpeg;base64,…'
read_sound(example, "audio").seconds
"""

import base64
import dataclasses
import io
import wave
from collections.abc import Sequence

import numpy as np
from PIL import Image

from components.report.records import Example, Value
from trainer_utils.storage.faults import is_fault

_SIDE = 144  # pixels
_QUALITY = 70
_EDGES = ("xmin", "xmax", "ymin", "ymax")
_MOST_BOXES = 20
_MOST_PIXELS = 90_000_000
_PEAKS = 80  # of a wave form
# Class ids of label maps by colour: far apart, and the same on every page.
_STEPS = ((37, 0), (91, 60), (151, 120))
_COLOURS = [(step * n + first) % 256 for n in range(256) for step, first in _STEPS]
_LABEL_MAP_OPACITY = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnBox:
    """A box round an object, with edges in shares of the picture, and what is in it."""

    left: float
    top: float
    width: float
    height: float
    label: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A small picture: a `data:` uri, its pixels, what its example is called, and its objects."""

    source: str
    width: int
    height: int
    name: str
    boxes: Sequence[DrawnBox]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sound:
    """One sound: its example's name, and the greatest amplitudes of its parts, in [0, 1]."""

    name: str
    seconds: float
    sample_rate: int  # samples a second
    channels: int
    peaks: Sequence[float]


def draw_picture(example: Example) -> Picture | None:
    """The first image of an example, small; None where it has none that Pillow reads."""
    images = [v for n, v in example.values.items() if v.kind == "image" and n != "label"]
    if not images or (image := _open(images[0])) is None:
        return None
    label = example.values.get("label")
    if label is not None and label.kind == "image" and (label_map := _open(label)) is not None:
        ids = label_map.convert("L").resize(image.size, Image.Resampling.NEAREST)
        ids.putpalette(_COLOURS)
        image = Image.blend(image, ids.convert("RGB"), _LABEL_MAP_OPACITY)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_QUALITY)
    return Picture(
        source=f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}",
        width=image.width,
        height=image.height,
        name=example.name,
        boxes=_boxes(example),
    )


def _open(value: Value) -> Image.Image | None:
    try:
        with Image.open(io.BytesIO(value.content)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return None
            image.draft("RGB", (_SIDE, _SIDE))
            small = image.convert("L" if value.shape[2] == 1 else "RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if is_fault(error):
            raise
        return None
    small.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    return small.convert("RGB")


def _boxes(example: Example) -> list[DrawnBox]:
    edges = [example.values[name].values for name in _EDGES if name in example.values]
    if len(edges) != len(_EDGES):
        return []
    labels = example.values.get("labels")
    names = [] if labels is None else labels.names or [str(v) for v in labels.values]
    corners = list(zip(*edges, strict=False))[:_MOST_BOXES]
    return [
        DrawnBox(
            left=float(xmin),
            top=float(ymin),
            width=float(xmax - xmin),
            height=float(ymax - ymin),
            label=names[number] if number < len(names) else "",
        )
        for number, (xmin, xmax, ymin, ymax) in enumerate(corners)
        if all(isinstance(edge, float) and 0 <= edge <= 1 for edge in (xmin, xmax, ymin, ymax))
    ]


def read_sound(example: Example, feature: str) -> Sound | None:
    """The sound that a feature holds; None where it holds none, or none kept as plain WAV."""
    value = example.values[feature]
    if value.format != "WAV" or not value.is_file:
        return None
    try:
        with wave.open(io.BytesIO(value.content)) as reader:
            rate, channels = reader.getframerate(), reader.getnchannels()
            width, frames = reader.getsampwidth(), reader.readframes(reader.getnframes())
    except (wave.Error, EOFError, ValueError):  # floating point, for one
        return None
    if width != 2 or not rate or not channels:
        return None
    samples = np.frombuffer(frames[: len(frames) // 2 * 2], "<i2").astype(np.int32)
    parts = np.array_split(np.abs(samples), min(_PEAKS, max(len(samples), 1)))
    return Sound(
        name=example.name,
        seconds=len(samples) / channels / rate,
        sample_rate=rate,
        channels=channels,
        peaks=[float(part.max(initial=0)) / 32768 for part in parts],
    )
