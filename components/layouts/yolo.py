"""Read object detection data in YOLO's format: a text file of boxes per image, and `data.yaml`.

It supports the folders of Ultralytics (`images/train/`, `labels/train/`), of Roboflow
(`train/images/`, `train/labels/`) and of Darknet (`1.txt` next to `1.jpg`). A line has a class and
the centre, width and height of the box, relative to the image. An image has no objects if its text
file is empty or missing.

Source: "Object Detection Datasets Overview", docs.ultralytics.com.
"""

import collections
import dataclasses
import itertools
import math
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from components.inputs.input_table import Blob, Column, Entry, ExcludedInput, InputTable, Value
from components.inputs.listing import LayoutInputs
from components.inputs.rejects import RejectedInputError
from components.layouts.boxes import BOX_COLUMNS, box_values, check_relative_box
from components.layouts.file_kinds import kind_of_name
from components.layouts.junk import is_clutter
from components.layouts.list_files import as_parts
from components.layouts.list_splits import splits_of_files
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.format import canonical_split
from trainer_utils.format.split_words import split_of_name
from trainer_utils.storage import InputFile, problem_of

_LABELS, _IMAGES = "labels", "images"
_YAML = (".yaml", ".yml")
_NAMES = ("classes.txt", "obj.names", "labels.txt", "_darknet.labels", "classes.names")
_SPLITS = {"train": "train", "val": "eval", "test": "test"}
_LINE = re.compile(rb"\s*\d+(\s+-?\d*\.?\d+([eE][-+]?\d+)?){4,}\s*")
_HEADS, _HEAD_BYTES = 8, 1 << 16
_MAX_BYTES = 16 << 20  # maximum size of a text file: about 400,000 boxes
_HAS_NAMES = re.compile(rb"^(names|nc)\s*:", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class _Config:
    """The contents of `data.yaml`, or of a list of class names."""

    names: Sequence[str] | None = None  # the name of each class
    splits: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    folder: str = ""  # the folder that paths are relative to
    path: str | None = None


def read(inputs: LayoutInputs) -> InputTable:
    """Read the boxes of every image.

    Raises:
        InputError: text files have segments, oriented boxes or keypoints, or `data.yaml` is
            malformed.
    """
    config = _read_config(inputs)
    images, texts, excluded = _find_files(inputs)
    label_of = {path: _label_path(path, texts) for path in images}
    readable_images = [path for path, file in images.items() if file.problem is None]
    for path, file in images.items():
        if file.problem is not None:
            excluded.append(ExcludedInput(path, inputs.split, *file.problem))
    splits = _splits(inputs, config, readable_images, excluded)
    readable = [label for path in splits if (label := label_of[path]) and _is_good(texts[label])]
    contents = zip(readable, inputs.read_many(readable), strict=True)
    kind = "int" if config.names is None else "label"
    columns = (*BOX_COLUMNS[:-1], Column("labels", kind, is_list=True))
    entries, missing = [], []
    for path, split in splits.items():
        label, boxes = label_of[path], list[tuple[Any, ...]]()
        try:
            if label is None:
                missing.append(path)
            elif not _is_good(texts[label]):
                raise RejectedInputError(*_problem(texts[label]))
            else:
                label_path, content = next(contents)
                assert label_path == label, "the readable labels come in order"
                boxes = _parse(inputs, content, label, config)
        except RejectedInputError as error:
            excluded.append(ExcludedInput(path, split, error.code, error.detail))
            continue
        values: tuple[Value, ...] = box_values(boxes)
        entries.append(Entry(path, split, (Blob(path, images[path].size),), values))
    if missing:
        logging.warning(
            "%d of %d images have no label file, such as %r: they have no objects",
            *(len(missing), len(splits), missing[0]),
        )
    used = {label for label in label_of.values() if label is not None}
    for path in texts.keys() - used:
        if _begins_as_labels(inputs, path):
            detail = "a label file without its image"
            excluded.append(ExcludedInput(path, inputs.split, "FILE_NOT_FOUND", detail))
    listing = InputTable.of(entries, excluded, columns)
    if config.names is None:
        return listing
    return dataclasses.replace(listing, vocabularies={"labels": tuple(config.names)})


def _find_files(
    inputs: LayoutInputs,
) -> tuple[dict[str, InputFile], dict[str, InputFile], list[ExcludedInput]]:
    """Return the images and the text files by path, and the excluded files."""
    images, texts, excluded = {}, {}, []
    for parts, file in inputs.below_root():
        if is_clutter(parts):
            excluded.append(ExcludedInput(file.path, inputs.split, None, "hidden or system file"))
        elif file.path.lower().endswith(".txt"):
            texts[file.path] = file
        elif kind_of_name(file.path) == "image":
            images[file.path] = file
    return images, texts, excluded


def _label_path(path: str, texts: Mapping[str, InputFile]) -> str | None:
    """Return the text file of an image: in `labels` instead of the last `images`, or next to it."""
    parts = posixpath.splitext(path)[0].split("/")
    candidates = ["/".join(parts)]
    places = [place for place, part in enumerate(parts[:-1]) if part == _IMAGES]
    if places:
        parts[places[-1]] = _LABELS
        candidates.insert(0, "/".join(parts))
    return next((f"{label}.txt" for label in candidates if f"{label}.txt" in texts), None)


def _is_good(file: InputFile) -> bool:
    return file.problem is None and file.size <= _MAX_BYTES


def _problem(file: InputFile) -> tuple[str, str]:
    if file.problem is not None:
        return file.problem[0], f"its label file: {file.problem[1]}"
    return "BAD_ANNOTATION", f"expected at most {_MAX_BYTES} bytes, got {file.size}"


# data.yaml ----------------------------------------------------------------------------------------


def _config_files(inputs: LayoutInputs) -> list[str]:
    """Return the YAML files with classes, at the top or in folders directly below it."""
    candidates = [
        path
        for parts, path in inputs.paths_below_root(endings=_YAML)
        if len(parts) <= 2 and not is_clutter(parts)
    ]
    return [
        path for path in candidates[:_HEADS] if _HAS_NAMES.search(inputs.head(path, _HEAD_BYTES))
    ]


def _read_config(inputs: LayoutInputs) -> _Config:
    """Read class names, splits and folder from the YAML file, or from Darknet's lists of files."""
    paths = _config_files(inputs)
    if not paths:
        return _config_of_darknet(inputs)
    if len(paths) > 1:
        got = ", ".join(paths)
        raise InputError.at(
            inputs.base,
            expected="one YAML file with the class names",
            got=got,
            advice=f"Leave the others out: ignore=[{paths[-1]!r}] (--ignore {paths[-1]}).",
        )
    import yaml  # takes 15 ms, which other layouts do not need

    (path,) = paths
    try:
        value = yaml.safe_load(inputs.read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"{path!r}: expected YAML: {' '.join(str(error).split())}") from error
    if not isinstance(value, dict):
        raise InputError.at(path, expected="a mapping", got=f"{value!a:.80}")
    if "kpt_shape" in value:
        raise _refused(path, "keypoints (`kpt_shape`), which are not read")
    names = _class_names(value.get("names"), path)
    splits = {}
    for word, split in _SPLITS.items():
        entry = value.get(word)
        places = entry if isinstance(entry, list) else [entry]
        if named_places := [str(place) for place in places if place]:
            splits[split] = named_places
    folder = posixpath.dirname(path)
    root = value.get("path")
    if isinstance(root, str) and not root.startswith("/") and ".." not in root.split("/"):
        folder = posixpath.normpath(posixpath.join(folder, root)).removeprefix("./")
        folder = "" if folder == "." else folder
    return _Config(names, splits, folder, path)


def _config_of_darknet(inputs: LayoutInputs) -> _Config:
    """Return the class names and lists of files of Darknet's files, as far as they exist."""
    lists = _lists_of_darknet(inputs)
    for parts, path in inputs.paths_below_root(endings=_NAMES):
        if parts[-1] in _NAMES and len(parts) <= 2:
            lines = [line.strip() for line in inputs.read_text(path).splitlines()]
            classes = _checked([line for line in lines if line], path)
            return _Config(names=classes, splits=lists, path=path)
    return _Config(splits=lists)


def _class_names(names: Any, path: str) -> Sequence[str] | None:
    """Return the class names of a list, or of a mapping by number; None without any."""
    if isinstance(names, dict):
        try:
            by_class = {int(number): str(name) for number, name in names.items()}
        except (TypeError, ValueError) as error:
            raise InputError.at(
                path, expected="class names by number", got=f"{names!a:.80}"
            ) from error
        names = [by_class.get(n, str(n)) for n in range(max(by_class, default=-1) + 1)]
    if names is None:
        return None
    if not isinstance(names, list):
        raise InputError.at(
            path, expected="class names as a list, or by number", got=f"{names!a:.80}"
        )
    return _checked([str(name) for name in names], path)


def _lists_of_darknet(inputs: LayoutInputs) -> dict[str, Sequence[str]]:
    """Return the lists of images by split, from `obj.data` or from `train.txt` at the top.

    Source: "How to train (to detect your custom objects)", github.com/AlexeyAB/darknet.
    """
    paths_by_split: dict[str, list[str]] = {}
    for parts, path in inputs.paths_below_root(endings=(".data",)):
        if len(parts) == 1 and not is_clutter(parts):
            for line in inputs.read_text(path).splitlines():
                key, _, value = (part.strip() for part in line.partition("="))
                if value.endswith(".txt") and (split := canonical_split(key)):
                    paths_by_split.setdefault(split, []).append(value)
    if not paths_by_split:
        for parts, path in inputs.paths_below_root(endings=(".txt",)):
            split = split_of_name(posixpath.splitext(parts[0])[0]) if len(parts) == 1 else None
            if split is not None and _begins_as_list(inputs, path):
                paths_by_split.setdefault(split, []).append(parts[0])
    return {split: places for split, places in paths_by_split.items()}


def _begins_as_list(inputs: LayoutInputs, path: str) -> bool:
    """Return whether the first line of a text is the path of an image."""
    lines = inputs.head(path, _HEAD_BYTES).decode("utf-8-sig", "replace").split("\n", 1)
    return kind_of_name(lines[0].strip()) == "image"


def _checked(names: Sequence[str], path: str) -> Sequence[str]:
    twice = [name for name, count in collections.Counter(names).items() if count > 1]
    if twice:
        raise InputError.at(path, expected="different class names", got=repr(twice[0]))
    return names


def _splits(
    inputs: LayoutInputs,
    config: _Config,
    paths: Sequence[str],
    excluded: list[ExcludedInput],
) -> dict[str, str | None]:
    """Return the split of each image: by `data.yaml` or lists, or by the names of its folders."""
    if inputs.split is not None:
        return dict.fromkeys(paths, inputs.split)
    split_of: dict[str, str | None] = {}
    for split, places in config.splits.items():
        for place in places:
            for path in _in_place(inputs, config, place, paths, split, excluded):
                if split_of.setdefault(path, split) != split:
                    logging.warning(
                        "%r: %r is in the splits %s and %s; it is read in the first",
                        *(config.path, place, split_of[path], split),
                    )
                    break
    if not split_of:
        below = ["/".join(inputs.parts_of(path)) for path in paths]
        splits = splits_of_files(below, source=inputs.root or inputs.base)
        return dict(zip(paths, splits, strict=True))
    rest = [path for path in paths if path not in split_of]
    for path in rest:
        detail = f"in no split of {config.path or 'the lists'}"
        excluded.append(ExcludedInput(path, None, None, detail))
    if rest:
        logging.warning(
            "%d images are in no split of %r: skipped", len(rest), config.path or inputs.base
        )
    return {path: split_of[path] for path in paths if path in split_of}


def _in_place(
    inputs: LayoutInputs,
    config: _Config,
    place: str,
    paths: Sequence[str],
    split: str,
    excluded: list[ExcludedInput],
) -> Iterable[str]:
    """Return the images in a folder, or in a text file of paths, that `data.yaml` names."""
    parts = as_parts(place)
    while parts and parts[0] == "..":  # Roboflow's paths start one level above data.yaml
        parts = parts[1:]
    for start in range(len(parts)):
        inner = "/".join(parts[start:])
        for folder in dict.fromkeys((config.folder, posixpath.dirname(config.path or ""), "")):
            whole = posixpath.join(folder, inner)
            if whole.endswith(".txt") and whole in inputs.files:
                wanted = [as_parts(line) for line in inputs.read_text(whole).splitlines()]
                ends = {"/".join(line[-2:]) for line in wanted if line}
                listed = [path for path in paths if "/".join(path.split("/")[-2:]) in ends]
                missing = ends - {"/".join(path.split("/")[-2:]) for path in inputs.files}
                for end in sorted(missing):
                    detail = f"listed in {whole}, but there is no such file"
                    excluded.append(ExcludedInput(end, split, "FILE_NOT_FOUND", detail))
                return listed
            inside = [path for path in paths if path.startswith(f"{whole}/")]
            if inside:
                return inside
    return ()


# Texts of boxes -----------------------------------------------------------------------------------


def _parse(
    inputs: LayoutInputs, text: bytes | OSError, path: str, config: _Config
) -> list[tuple[Any, ...]]:
    """Return the boxes of a text file, in the order of `BOX_COLUMNS`."""
    if isinstance(text, OSError):
        raise RejectedInputError("UNREADABLE", f"its label file: {problem_of(text, path)[1]}")
    boxes = []
    for number, line in enumerate(text.decode("utf-8-sig", "replace").splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        place = f"{posixpath.basename(path)}, line {number}"
        try:
            label, *numbers = map(float, fields)
        except ValueError:
            detail = f"{place}: expected numbers, got {line[:60]!r}"
            raise RejectedInputError("BAD_ANNOTATION", detail) from None
        if len(numbers) >= 6 and len(numbers) % 2 == 0:
            if inputs.box_format != "polygon":
                what = "oriented boxes or segments of four points"
                what = what if len(numbers) == 8 else "segments"
                raise _refused(
                    path,
                    f"{what} (line {number} has {len(fields)} numbers). To take the box around "
                    "each: box_format='polygon' (--box-format polygon)",
                )
            xs, ys = numbers[::2], numbers[1::2]
            edges = (min(xs), max(xs), min(ys), max(ys))
        elif len(numbers) == 4:
            x, y, width, height = numbers
            edges = (x - width / 2, x + width / 2, y - height / 2, y + height / 2)
        else:
            detail = f"{place}: expected a class and four numbers, got {len(fields)} numbers"
            raise RejectedInputError("BAD_ANNOTATION", detail)
        most = math.inf if config.names is None else len(config.names)
        if not (label.is_integer() and 0 <= label < most):
            rule = "a class" if config.names is None else f"a class below {most}"
            detail = f"{place}: expected {rule}, got {fields[0]}"
            raise RejectedInputError("BAD_ANNOTATION", detail)
        name = int(label) if config.names is None else config.names[int(label)]
        try:
            boxes.append(check_relative_box(*edges, label=name))
        except RejectedInputError as error:
            raise RejectedInputError(error.code, f"{place}: {error.detail}") from None
    return boxes


def _refused(path: str, what: str) -> InputError:
    return InputError(f"{path!r}: expected boxes of layout 'yolo', got {what}.", path=path)


# Detection ----------------------------------------------------------------------------------------


def _begins_as_labels(inputs: LayoutInputs, path: str) -> bool:
    lines = [line for line in inputs.head(path, _HEAD_BYTES).splitlines()[:_HEADS] if line.strip()]
    return bool(lines) and all(map(_LINE.fullmatch, lines))


def detect(inputs: LayoutInputs) -> Detection:
    """Look for text files of boxes in `labels` or next to images."""
    in_folders = (
        path
        for parts, path in inputs.paths_below_root(endings=(".txt",))
        if not is_clutter(parts) and len(parts) > 1
    )
    at_root = (
        path for parts, path in inputs.paths_below_root(endings=(".txt",)) if len(parts) == 1
    )
    texts = [*itertools.islice(in_folders, 4 * _HEADS), *itertools.islice(at_root, _HEADS)]
    with_boxes = next((path for path in texts if _begins_as_labels(inputs, path)), None)
    configs = _config_files(inputs)
    in_labels = [path for path in texts if _LABELS in path.split("/")[:-1]]
    if configs and (with_boxes or in_labels):
        return Detection.match(f"{configs[0]} and {with_boxes or in_labels[0]}")
    if with_boxes is None:
        return Detection.miss("no text files with a class and four numbers per line")
    stem = posixpath.splitext(with_boxes)[0]
    if with_boxes in in_labels or any(
        kind_of_name(path) == "image" and posixpath.splitext(path)[0] == stem
        for path in inputs.files.below(posixpath.dirname(with_boxes))
    ):
        return Detection.match(with_boxes)
    return Detection.miss(f"{with_boxes} belongs to no image")


register(
    Layout(
        name="yolo",
        kinds=("image",),
        rank=45,
        tree="""\
data.yaml
images/train/1.jpg
labels/train/1.txt
images/val/2.jpg
labels/val/2.txt
or
data.yaml
train/images/1.jpg
train/labels/1.txt
or
1.jpg
1.txt""",
        features="xmin, xmax, ymin, ymax, area, labels",
        splits="train, val and test of data.yaml, lists such as train.txt, or the folders",
        refused="oriented boxes and segments, without box_format='polygon'; keypoints",
        detect=detect,
        read=read,
        keeps_sizes=True,
        known=(
            *("*.yaml", "*.yml", "*.cache", "*.names", "*.data", "classes.txt", "*/classes.txt"),
            *(
                "notes.json",
                "*/notes.json",
                "train.txt",
                "val.txt",
                "test.txt",
                "*/train.txt",
                "*/val.txt",
            ),
            "labels.txt",
        ),
    )
)
