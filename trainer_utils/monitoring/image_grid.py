"""Draw a grid of a dataset's images, with their labels, as PNG.

    preview(input_fn(uri, label="label", features="image"), path="preview.png")

Labels use Pillow's built-in font, which only has ASCII: accents are dropped, and letters of other
scripts become question marks.
"""

import io
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.settings import NumberRule
from trainer_utils.storage import write_atomically

_MARGIN = 2  # pixels around an image and below its label
_TEXT_HEIGHT = 12  # pixels of a line in Pillow's default font

Array = npt.NDArray[Any]


def preview(
    dataset: Iterable[Any],
    *,
    image: str | None = None,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    rows: int = 4,
    columns: int = 8,
    path: str | os.PathLike[str] | None = None,
) -> bytes:
    """Draw the first images of a dataset.

    Args:
        dataset: a dataset of any framework, with batches or single examples. Images have any size
            and are uint8, or float32, which is scaled from its minimum to its maximum.
        image: the feature with the images. None: the only one that looks like images.
        label: the feature to write below each image. None: the second element of a pair, or
            `label` if it exists.
        labels: names of int labels, such as the lines of `vocab/label.txt`. None: `class_names` of
            the dataset.
        rows, columns: the size of the grid.
        path: a file to write the PNG to, local or in an object store.

    Returns:
        The PNG, with no more rows than needed.

    Raises:
        ConfigError: a setting is not allowed, or there is no such feature.
        DatasetError: the dataset has no images.
    """
    count = NumberRule(1)("rows", rows) * NumberRule(1)("columns", columns)
    if labels is None and label in (None, "label"):
        labels = getattr(dataset, "class_names", None)
    pictures: list[Image.Image] = []
    texts: list[str] = []
    for element in dataset:
        images, marks = _images_and_labels(element, image, label)
        pictures += map(_picture, images)
        texts += [_text(mark, labels) for mark in marks]
        if len(pictures) >= count:
            break
    if not pictures:
        raise DatasetError("preview: expected a dataset with examples, got an empty one")
    stream = io.BytesIO()
    _grid(pictures[:count], texts[:count], columns).save(stream, "PNG")
    if path is not None:
        path = os.fspath(path)
        with write_atomically(path, temporary_folder=os.path.dirname(path)) as file:
            file.write(stream.getvalue())
    return stream.getvalue()


def _images_and_labels(
    element: Any, image: str | None, label: str | None
) -> tuple[Array, list[Array | None]]:
    """Return the images of one element, and a label or None for each."""
    inputs, target = (element[0], element[1]) if isinstance(element, tuple) else (element, None)
    if not isinstance(inputs, Mapping):
        inputs = {image or "": inputs}  # an element that is a tensor has no feature name
    shapes = {name: tuple(value.shape) for name, value in inputs.items()}
    alike = [n for n, shape in shapes.items() if len(shape) in (3, 4) and shape[-1] in (1, 3)]
    if image is None and not alike:
        described = "; ".join(f"{name or 'a tensor'} {shape}" for name, shape in shapes.items())
        raise DatasetError(f"preview: expected a feature with images, got {described}")
    name = image or ("image" if "image" in alike else alike[0])
    for setting, value in (("image", name), ("label", label)):
        if value is not None and value not in inputs:
            raise ConfigError.of(setting, value, allowed=f"one of {', '.join(inputs)}")
    marks = target if label is None else inputs[label]
    marks = inputs.get("label") if marks is None else marks
    pictures = np.asarray(inputs[name])
    pictures = pictures[np.newaxis] if pictures.ndim == 3 else pictures
    if marks is None or isinstance(marks, Mapping):
        return pictures, [None] * len(pictures)
    return pictures, [*np.asarray(marks).reshape(len(pictures), -1)]


def _picture(pixels: Array) -> Image.Image:
    if pixels.dtype != np.uint8:
        least, most = float(pixels.min()), float(pixels.max())
        pixels = np.rint((pixels - least) * (255 / (most - least or 1.0))).astype(np.uint8)
    return Image.fromarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def _text(label: Array | None, labels: Sequence[str] | None) -> str:
    words = []
    for value in () if label is None else label.ravel()[:4].tolist():
        if isinstance(value, bytes):
            words.append(value.decode("utf-8", "replace"))
        elif labels is not None and isinstance(value, int) and 0 <= value < len(labels):
            words.append(labels[value])
        else:
            words.append(f"{value:.3g}" if isinstance(value, float) else str(value))
    return " ".join(words)


def _grid(pictures: Sequence[Image.Image], texts: Sequence[str], columns: int) -> Image.Image:
    """Return a grid of equal cells, each with a centred picture and its text below."""
    width, height = (max(picture.size[axis] for picture in pictures) for axis in (0, 1))
    line = _TEXT_HEIGHT + _MARGIN if any(texts) else 0
    cell_width, cell_height = width + 2 * _MARGIN, height + line + 2 * _MARGIN
    columns = min(columns, len(pictures))
    size = columns * cell_width, -(-len(pictures) // columns) * cell_height
    canvas = Image.new("RGB", size, "white")
    for index, (picture, text) in enumerate(zip(pictures, texts, strict=True)):
        top = index // columns * cell_height + _MARGIN
        left = index % columns * cell_width + _MARGIN
        middle = (width - picture.width) // 2, (height - picture.height) // 2
        canvas.paste(picture, (left + middle[0], top + middle[1]))
        if text:  # cropped to the cell
            marked = unicodedata.normalize("NFKD", text)
            letters = [letter for letter in marked if not unicodedata.combining(letter)]
            plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in letters)
            strip = Image.new("RGB", (width, _TEXT_HEIGHT), "white")
            ImageDraw.Draw(strip).text((0, 0), plain, fill="black", font=ImageFont.load_default())
            canvas.paste(strip, (left, top + height + _MARGIN))
    return canvas
