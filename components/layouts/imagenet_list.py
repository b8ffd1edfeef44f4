"""Read images outside class folders with a list of their classes: ImageNet's validation images.

    val/ILSVRC2012_val_00000001.JPEG
    val.txt                             ILSVRC2012_val_00000001.JPEG n01751748

Each line of the list is an image and its class. Any other images are in class folders of the same
classes: `train/n01751748/….JPEG`.
"""

import posixpath
from collections.abc import Iterator

from components.inputs.arrow_columns import bytes_of
from components.inputs.input_table import Blob, Column, Entry, ExcludedInput, InputTable
from components.inputs.listing import LayoutInputs
from components.layouts.class_tree import read_tree
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.format import split_of_name
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import InputFile
from trainer_utils.storage.paths import decode_path

_ENDINGS = (".txt", ".lst", ".list")
_HEAD_BYTES = 16 << 10
_LINES, _FIRST = 20, 3  # lines to check, and lines whose images must exist
_MAX_LISTS = 10


def detect(inputs: LayoutInputs) -> Detection:
    """Look for a text file of images and their classes that agrees with the class folders."""
    lists = [
        path
        for parts, path in inputs.paths_below_root(endings=_ENDINGS)
        if len(parts) <= 2 and inputs.files[path].problem is None
    ]
    for path in lists[:_MAX_LISTS]:
        head = inputs.head(path, _HEAD_BYTES)
        lines = head.decode("utf-8", "replace").splitlines()
        rows = [line.split() for line in lines[:_LINES] if line.strip()]
        if not rows or any(len(row) != 2 or not _is_image(row[0]) for row in rows):
            continue
        if any(_find(inputs, path, row[0]) is None for row in rows[:_FIRST]):
            continue
        folders = dict(_class_folders(inputs))
        if folders and not {label for _, label in rows} <= {*folders.values()}:
            return Detection.miss(f"{path}: its classes differ from the folders")
        first_paths = [_find(inputs, path, name) or "" for name, _ in rows[:_FIRST]]
        if any(posixpath.dirname(path) in folders for path in first_paths):
            return Detection.miss(f"{path}: its images are in class folders")
        return Detection.match(path)
    return Detection.miss("no text file with an image and its class on each line")


def read(inputs: LayoutInputs) -> InputTable:
    """Take the classes of listed images from the list, and of other images from their folders.

    Raises:
        InputError: a line of the list is not an image and its class, or an image comes twice.
    """
    path = detect(inputs).reason
    labels = _read_list(inputs, path)
    folders = dict(_class_folders(inputs))
    split_of_list = split_of_name(posixpath.basename(path))
    entries, excluded = [], []
    for parts, file in _images_below(inputs):
        folder = posixpath.dirname(file.path)
        label = labels.pop(file.path, None) or folders.get(folder)
        split = inputs.split or next(filter(None, map(split_of_name, parts)), split_of_list)
        if file.problem is not None:
            excluded.append(ExcludedInput(file.path, split, *file.problem))
        elif label is None:
            excluded.append(ExcludedInput(file.path, split, "NO_LABEL", f"not in {path}"))
        else:
            entries.append(Entry(file.path, split, (Blob(file.path, file.size),), (label,)))
    for name in labels:
        detail = f"named in {path}"
        excluded.append(ExcludedInput(name, split_of_list, "FILE_NOT_FOUND", detail))
    return InputTable.of(entries, excluded, (Column("label", "label"),))


def _read_list(inputs: LayoutInputs, path: str) -> dict[str, str]:
    """Return the class of each listed image, by its path, or by its name if it is missing."""
    labels: dict[str, str] = {}
    for number, line in enumerate(inputs.read_text(path).splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        name = _find(inputs, path, fields[0]) or fields[0]
        if len(fields) != 2 or name in labels:
            rule = "an image and its class on each line, and each image once"
            raise InputError.at(path, expected=rule, got=f"{line!r} (line {number})")
        labels[name] = fields[1]
    return labels


def _find(inputs: LayoutInputs, path: str, name: str) -> str | None:
    """Return the path of a listed image: next to the list, or in the folder of the same name."""
    folder, stem = posixpath.dirname(path), posixpath.splitext(path)[0]
    for start in (folder, stem, inputs.root):
        candidate = posixpath.normpath(posixpath.join(start, name))
        if candidate in inputs.files:
            return candidate
    return None


def _is_image(name: str) -> bool:
    return name.lower().endswith(tuple(EXTENSIONS["image"]))


def _images_below(inputs: LayoutInputs) -> Iterator[tuple[tuple[str, ...], InputFile]]:
    for file in inputs.files.ending(EXTENSIONS["image"]).below(inputs.root).rows():
        yield inputs.parts_of(file.path), file


def _class_folders(inputs: LayoutInputs) -> list[tuple[str, str]]:
    """Return the class folders with images, and their classes."""
    files = inputs.files.ending(EXTENSIONS["image"]).below(inputs.root)
    names = map(decode_path, bytes_of(files.folders().dictionary))
    parts = {() if name == inputs.root else inputs.parts_of(name): name for name in names}
    try:
        roles = read_tree(parts, base=inputs.base, named=inputs.split)
    except InputError:
        return []
    return [(parts[p], role.label) for p, role in roles.items() if role.label is not None]


register(
    Layout(
        name="imagenet",
        kinds=("image",),
        rank=55,
        tree="""\
train/n01440764/n01440764_0.JPEG
val/ILSVRC2012_val_00000001.JPEG
val.txt: ILSVRC2012_val_00000001.JPEG n01440764""",
        features="label",
        splits="words in the names of the folders or the list",
        refused="a list whose classes differ from the folders",
        detect=detect,
        read=read,
    )
)
