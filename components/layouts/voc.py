"""Object detection as Pascal VOC keeps it: JPEGImages, Annotations, ImageSets.

    read(inputs).columns       # xmin, xmax, ymin, ymax, area, labels, pose, …

Names of features and arithmetic are Datum's. Source: `datum/generator/image.py`
(DetDatumGenerator); the VOC2012 development kit, section 7.
"""

import dataclasses
import math
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from components.common.entry import Blob, Column, Entry, ExcludedInput, Value
from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs
from components.common.rejects import RejectedInputError, reject_errors
from components.example_gen import boxes
from components.example_gen.boxes import BOX_COLUMNS, SIZE_COLUMNS, claimed_size, relative_box
from components.layouts.image_sets import (
    by_stem,
    has_folders,
    listed_images,
    read_image_sets,
)
from trainer_utils.format import InputError
from trainer_utils.storage import InputFile, display_path, persist, problem_of

LOOKED_FOR = "JPEGImages/ beside Annotations/ (voc)"
_COLUMNS = (
    *BOX_COLUMNS,
    Column("pose", "string", is_list=True),
    Column("is_truncated", "int", is_list=True),
    Column("labels_difficult", "int", is_list=True),
    *SIZE_COLUMNS,
)
_NOTHING: tuple[Value, ...] = tuple(() if column.is_list else None for column in _COLUMNS)
_SETS = ("ImageSets/Main", "ImageSets")
_MAX_XML_BYTES = 16 << 20  # 16 MiB: some 50,000 objects


def is_here(inputs: LayoutInputs) -> bool:
    """Whether the folders are there."""
    return has_folders(inputs, *_folders(inputs))


def _folders(inputs: LayoutInputs) -> tuple[str, str]:
    """Those of the images and of the annotations."""
    names = inputs.names
    return names.get("image_dir", "JPEGImages"), names.get("annotation_dir", "Annotations")


def read(inputs: LayoutInputs) -> InputTable:
    """Reads every annotation. Images of the split `test` may do without one.

    Ids are in the order of the lines of `classes.names`, where there is one, as Datum has it.

    Raises:
        InputError: two files have one name, or an image is named twice in the image sets.
    """
    image_dir, annotation_dir = _folders(inputs)
    own_sets = inputs.names.get("image_set_dir")
    images = by_stem(inputs, image_dir)
    annotations = by_stem(inputs, annotation_dir, extension=".xml")
    sets = read_image_sets(inputs, [own_sets] if own_sets else _SETS, images)
    taken, excluded = listed_images(inputs, image_dir, images, sets)
    known = [annotations[stem] for stem, _, _ in taken if stem in annotations]
    texts = _texts(inputs, [file.path for file in known if _is_readable(file)])
    entries = []
    for stem, split, file in taken:
        values = _NOTHING
        try:
            if stem in annotations:
                _check(annotations[stem])
                text = next(texts)
                with reject_errors():
                    path = annotations[stem].path
                    values = persist(path, _parse, text, path)
            elif split != "test":
                detail = f"no {annotation_dir}/{display_path(stem)}.xml"
                raise RejectedInputError("NO_ANNOTATION", detail)
        except RejectedInputError as error:
            excluded.append(ExcludedInput(file.path, split, error.code, error.detail))
        else:
            entries.append(Entry(file.path, split, (Blob(file.path, file.size),), values))
    for stem, file in annotations.items():
        if not sets and stem not in images:
            detail = f"an annotation without its image in {image_dir}"
            excluded.append(ExcludedInput(file.path, inputs.split, "FILE_NOT_FOUND", detail))
    listing = InputTable.of(entries, excluded, _COLUMNS)
    return dataclasses.replace(listing, vocabularies=_classes(inputs))


def _classes(inputs: LayoutInputs) -> dict[str, tuple[str, ...]]:
    """The classes in the order of their ids, by feature; of no file none, and they are sorted."""
    path = posixpath.join(inputs.root, "classes.names")
    if path not in inputs.files:
        return {}
    lines = [line.strip().lower() for line in inputs.read_text(path).splitlines()]
    names = tuple(line for line in lines if line)
    if not names or len(set(names)) < len(names):
        raise InputError.at(path, expected="the name of a class a line, each once", got=str(lines))
    return {"labels": names}


def _is_readable(file: InputFile) -> bool:
    return file.problem is None and file.size <= _MAX_XML_BYTES


def _check(file: InputFile) -> None:
    """Refuses an annotation that is not to be opened."""
    if file.problem is not None:
        code, detail = file.problem
        raise RejectedInputError(code, f"its annotation: {detail}")
    if not _is_readable(file):
        raise RejectedInputError(
            "BAD_ANNOTATION", f"expected at most {_MAX_XML_BYTES} bytes, got {file.size}"
        )


def _texts(inputs: LayoutInputs, paths: Sequence[str]) -> Iterator[bytes | OSError]:
    """Each file's bytes, or why it cannot be read: it may vanish, or be another user's."""
    done = 0
    while done < len(paths):
        try:
            for text in inputs.read_many(paths[done:]):
                done += 1
                yield text
        except OSError as error:
            done += 1
            yield error


def _parse(text: bytes | OSError, path: str) -> tuple[Value, ...]:
    """The values of `_COLUMNS`."""
    if isinstance(text, OSError):
        raise RejectedInputError("UNREADABLE", f"its annotation: {problem_of(text, path)[1]}")
    try:
        root = SafeElementTree.fromstring(text)
    except (SafeElementTree.ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise RejectedInputError("BAD_ANNOTATION", f"no XML: {error}") from error
    size = root.find("size")
    if size is None:
        raise RejectedInputError("BAD_ANNOTATION", "no <size>")
    width, height = _number(size, "width"), _number(size, "height")
    found, poses, truncated, difficult = [], [], [], []
    for thing in root.findall("object"):  # not the <part>s within
        box = thing.find("bndbox")
        name = (thing.findtext("name") or "").strip().lower()
        if box is None or not name:
            raise RejectedInputError("BAD_ANNOTATION", "an <object> without <name> or <bndbox>")
        edges = [_number(box, edge) for edge in ("xmin", "xmax", "ymin", "ymax")]
        found.append(relative_box(*edges, width=width, height=height, label=name))
        poses.append((thing.findtext("pose") or "unspecified").lower())
        truncated.append(int(thing.findtext("truncated") == "1"))
        difficult.append(int(thing.findtext("difficult") == "1"))
    if not found:
        return _NOTHING
    lists = (tuple(poses), tuple(truncated), tuple(difficult))
    return (*boxes.box_values(found), *lists, *claimed_size(width=width, height=height))


def _number(element: Any, name: str) -> float:
    text = element.findtext(name)
    try:
        number = float(text)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        shown = repr(text if text is None else text[:50])
        raise RejectedInputError("BAD_ANNOTATION", f"<{name}>: expected a number, got {shown}")
    return number
