"""Read Tiny ImageNet: class folders in `train`, a list of images in `val`, no labels in `test`.

Source: http://cs231n.stanford.edu/tiny-imagenet-200.zip
"""

import posixpath
from collections.abc import Iterator

from absl import logging

from components.inputs.input_table import Blob, Column, Entry, ExcludedInput, InputTable
from components.inputs.listing import LayoutInputs
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import InputFile

_LIST = "val/val_annotations.txt"
_SPLITS = {"train": "train", "val": "eval", "test": "test"}


def detect(inputs: LayoutInputs) -> Detection:
    """Look for the list of validation images, and for `images` in the class folders."""
    if posixpath.join(inputs.root, _LIST) not in inputs.files:
        return Detection.miss(f"no {_LIST}")
    if not any(parts[::2] == ("train", "images") for parts in inputs.folders):
        return Detection.miss("no train/<class>/images/")
    return Detection.match(_LIST)


def read(inputs: LayoutInputs) -> InputTable:
    """Take classes from the folders of `train` and from the list of `val`.

    Raises:
        InputError: a line of the list has no class, or an image comes twice.
    """
    labels = _listed_labels(inputs)
    entries, excluded, unlabelled = [], [], 0
    for parts, file in _images_below(inputs):
        split = inputs.split or _SPLITS.get(parts[0])
        label = labels.get(parts[-1]) if parts[0] == "val" else None
        if parts[0] == "train" and len(parts) == 4:
            label = parts[1]
        if split is None:
            excluded.append(ExcludedInput(file.path, None, "NO_SPLIT", "outside the split folders"))
        elif file.problem is not None:
            excluded.append(ExcludedInput(file.path, split, *file.problem))
        elif label is None and parts[0] != "test":
            excluded.append(ExcludedInput(file.path, split, "NO_LABEL", f"not in {_LIST}"))
        else:
            unlabelled += label is None
            entries.append(Entry(file.path, split, (Blob(file.path, file.size),), (label,)))
    if unlabelled:
        logging.warning("%d images of the split 'test' have no label", unlabelled)
    return InputTable.of(entries, excluded, (Column("label", "label"),))


def _listed_labels(inputs: LayoutInputs) -> dict[str, str]:
    path = posixpath.join(inputs.root, _LIST)
    labels: dict[str, str] = {}
    for number, line in enumerate(inputs.read_text(path).splitlines(), 1):
        fields = line.split("\t")
        if not line.strip():
            continue
        if len(fields) < 2 or not fields[1].strip() or fields[0] in labels:
            rule = "an image, a tab and its class on each line, and each image once"
            raise InputError.at(path, expected=rule, got=f"{line!r} (line {number})")
        labels[fields[0]] = fields[1].strip()
    return labels


def _images_below(inputs: LayoutInputs) -> Iterator[tuple[tuple[str, ...], InputFile]]:
    for file in inputs.files.ending(EXTENSIONS["image"]).below(inputs.root).rows():
        yield inputs.parts_of(file.path), file


register(
    Layout(
        name="tiny-imagenet",
        kinds=("image",),
        rank=12,
        tree="""\
train/n01443537/images/n01443537_0.JPEG
val/images/val_0.JPEG
val/val_annotations.txt
test/images/test_0.JPEG""",
        features="label; missing in test",
        splits="train, val, test",
        refused="a list that names an image twice",
        detect=detect,
        read=read,
        known=("wnids.txt", "words.txt", "train/*/*_boxes.txt"),
    )
)
