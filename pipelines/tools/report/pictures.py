"""Small pictures of examples, with boxes and label maps drawn in, as data that a page holds.

picture = draw_picture(example)
picture.source          # 'data:image/jpeg;base64,…'
"""

import base64
import dataclasses
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from pipelines.tools.records import Example, Value

__all__ = ["DrawnBox", "Picture", "colour_means", "draw_picture"]

_SIDE = 144  # pixels
_QUALITY = 70
_EDGES = ("xmin", "xmax", "ymin", "ymax")
_MOST_BOXES = 20
_MOST_PIXELS = 90_000_000
# Class ids of label maps by colour: far apart, and the same on every page.
_COLOURS = [((37 * n) % 256, (91 * n + 60) % 256, (151 * n + 120) % 256) for n in range(256)]
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
    """A small picture.

    Args:
        source: a `data:` uri.
        width, height: in pixels.
        name: what its example is called.
        boxes: round objects.
    """

    source: str
    width: int
    height: int
    name: str
    boxes: Sequence[DrawnBox]


def draw_picture(example: Example) -> Picture | None:
    """The first image of an example, small; None where it has none that Pillow reads."""
    images = [v for n, v in example.values.items() if v.kind == "image" and n != "label"]
    if not images or (image := _open(images[0])) is None:
        return None
    label = example.values.get("label")
    if label is not None and label.kind == "image" and (label_map := _open(label)) is not None:
        image = _painted(image, label_map)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_QUALITY)
    return Picture(
        source=f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}",
        width=image.width,
        height=image.height,
        name=example.name,
        boxes=_boxes(example),
    )


def colour_means(value: Value) -> dict[str, float]:
    """The mean of each colour of an image, in [0, 255]; empty where Pillow reads none."""
    image = _open(value)
    if image is None:
        return {}
    names = ("brightness",) if value.shape[2] == 1 else ("red", "green", "blue")
    means = np.asarray(image, np.float64).mean(axis=(0, 1))
    return dict(zip(names, means.tolist(), strict=False))


def _open(value: Value) -> Image.Image | None:
    try:
        with Image.open(io.BytesIO(value.content)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return None
            image.draft("RGB", (_SIDE, _SIDE))
            small = image.convert("L" if value.shape[2] == 1 else "RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    small.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    return small.convert("RGB")


def _painted(image: Image.Image, label_map: Image.Image) -> Image.Image:
    """The image with each class of the label map in a colour of its own."""
    ids = label_map.convert("L").resize(image.size, Image.Resampling.NEAREST)
    ids.putpalette([part for colour in _COLOURS for part in colour])
    return Image.blend(image, ids.convert("RGB"), _LABEL_MAP_OPACITY)


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
