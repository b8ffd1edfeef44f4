"""`preview`: a grid of a dataset's images, with their labels, as PNG or in TensorBoard.

    preview(input_fn(uri, label="label", features="image"), path="preview.png")
    preview(dataset, labels=["cat", "dog"], summary=tf.summary.create_file_writer("logs"))

Labels are written in the font that Pillow brings along, which has ASCII alone: accents are dropped,
and letters of other scripts become question marks.
"""

import io
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from trainer_utils.format import ConfigError, DatasetError

__all__ = ["preview"]

_MARGIN = 2  # pixels round an image and below its label
_TEXT_HEIGHT = 12  # pixels, of Pillow's default font


def preview(
    dataset: tf.data.Dataset,
    *,
    image: str | None = None,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    rows: int = 4,
    columns: int = 8,
    path: str | None = None,
    summary: Any = None,
    step: int = 0,
) -> bytes:
    """Draws the first images of a dataset.

    Args:
        dataset: of `input_fn`, with batches or single examples; images of any size, uint8, or
            float32, which is stretched so that its least is black and its most is white.
        image: the feature with the images; None: the only one that looks like images.
        label: the feature to write below; None: the second of a pair, or `label`, if there.
        labels: names of int labels, say the lines of `vocab/label.txt`; None: the dataset's own
            `class_names`, of the label that it was made with.
        rows, columns: of the grid.
        path: of a file to write the PNG to, local or `gs://`.
        summary: a writer of `tf.summary`, which the image is written to as `preview`.
        step: of that summary.

    Returns:
        The PNG: as many rows as are needed.

    Raises:
        ConfigError: a setting is not allowed, or there is no such feature.
        DatasetError: the dataset has no images.
    """
    for name, value in (("rows", rows), ("columns", columns)):
        if not isinstance(value, int) or value < 1:
            raise ConfigError.of(name, value, allowed="a number of at least 1")
    if labels is None and label in (None, "label"):
        labels = getattr(dataset, "class_names", None)
    pictures: list[npt.NDArray[np.uint8]] = []
    texts: list[str] = []
    for element in dataset:
        images, marks = _images_and_labels(element, image, label)
        pictures.extend(_as_rgb(picture) for picture in images)
        texts.extend(_text(mark, labels) for mark in marks)
        if len(pictures) >= rows * columns:
            break
    if not pictures:
        raise DatasetError("preview: expected a dataset with examples, got an empty one")
    grid = _grid(pictures[: rows * columns], texts[: rows * columns], columns)
    stream = io.BytesIO()
    grid.save(stream, "PNG")
    png = stream.getvalue()
    if path is not None:
        with tf.io.gfile.GFile(path, "wb") as stream:
            stream.write(png)
    if summary is not None:
        try:
            with summary.as_default():
                tf.summary.image("preview", np.asarray(grid)[np.newaxis], step=step)
        except ModuleNotFoundError as error:  # since TensorFlow 2.20
            raise ConfigError(
                "summary: expected tensorboard, which TensorFlow no longer brings, got no such "
                "package. Run pip install tensorboard.",
                setting="summary",
            ) from error
    return png


def _images_and_labels(
    element: Any, image: str | None, label: str | None
) -> tuple[list[tf.Tensor], list[tf.Tensor | None]]:
    """The images of one element as a list, and as many labels, or none."""
    inputs, target = (element[0], element[1]) if isinstance(element, tuple) else (element, None)
    if not isinstance(inputs, Mapping):
        inputs = {image or "": inputs}  # it has no name here
    name = _image_name(inputs) if image is None else image
    if name not in inputs:
        raise ConfigError.of("image", image, allowed=f"one of {', '.join(inputs)}")
    if label is not None and label not in inputs:
        raise ConfigError.of("label", label, allowed=f"one of {', '.join(inputs)}")
    marks = inputs[label] if label is not None else target
    if marks is None:
        marks = inputs.get("label")
    pictures = inputs[name]
    is_one = pictures.shape.rank == 3
    images = [pictures] if is_one else list(pictures)
    if marks is None or isinstance(marks, Mapping):
        return images, [None] * len(images)
    return images, [marks] if is_one else list(marks)


def _image_name(inputs: Mapping[str, tf.Tensor]) -> str:
    names = [
        name
        for name, value in inputs.items()
        if value.shape.rank in (3, 4) and value.shape[-1] in (1, 3)
    ]
    if not names:
        found = "; ".join(
            f"{name or 'a tensor'} {tuple(value.shape)} {value.dtype.name}"
            for name, value in inputs.items()
        )
        raise DatasetError(f"preview: expected a feature with images, got {found}")
    return "image" if "image" in names else names[0]


def _as_rgb(image: tf.Tensor) -> npt.NDArray[np.uint8]:
    pixels = image.numpy()
    if pixels.dtype != np.uint8:
        least, most = float(pixels.min()), float(pixels.max())
        pixels = np.rint((pixels - least) * (255 / (most - least or 1.0))).astype(np.uint8)
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3))


def _text(label: tf.Tensor | None, labels: Sequence[str] | None) -> str:
    if label is None:
        return ""
    values = np.asarray(label.numpy()).ravel()[:4].tolist()
    words = []
    for value in values:
        if isinstance(value, bytes):
            words.append(value.decode("utf-8", "replace"))
        elif labels is not None and isinstance(value, int) and 0 <= value < len(labels):
            words.append(labels[value])
        else:
            words.append(f"{value:.3g}" if isinstance(value, float) else str(value))
    return " ".join(words)


def _grid(
    pictures: Sequence[npt.NDArray[np.uint8]], texts: Sequence[str], columns: int
) -> Image.Image:
    """Cells of one size, each picture in the middle of its own, its text below."""
    height = max(picture.shape[0] for picture in pictures)
    width = max(picture.shape[1] for picture in pictures)
    line = _TEXT_HEIGHT + _MARGIN if any(texts) else 0
    cell_height, cell_width = height + line + 2 * _MARGIN, width + 2 * _MARGIN
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    canvas = Image.new("RGB", (columns * cell_width, rows * cell_height), "white")
    for index, (picture, text) in enumerate(zip(pictures, texts, strict=True)):
        row, column = divmod(index, columns)
        top, left = row * cell_height + _MARGIN, column * cell_width + _MARGIN
        down, right = (height - picture.shape[0]) // 2, (width - picture.shape[1]) // 2
        canvas.paste(Image.fromarray(picture), (left + right, top + down))
        canvas.paste(_draw_text(text, width), (left, top + height + _MARGIN))
    return canvas


def _draw_text(text: str, width: int) -> Image.Image:
    """A line of text, as far as there is room; nothing of it reaches into the next cell."""
    strip = Image.new("RGB", (width, _TEXT_HEIGHT if text else 0), "white")
    if text:
        letters = [c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)]
        plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in letters)
        ImageDraw.Draw(strip).text((0, 0), plain, fill="black", font=ImageFont.load_default())
    return strip
