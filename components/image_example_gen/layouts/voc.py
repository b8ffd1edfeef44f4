"""Object detection as Pascal VOC keeps it: JPEGImages, Annotations, ImageSets.

    read(inputs).columns       # xmin, xmax, ymin, ymax, area, labels, pose, …

Names of features and arithmetic are Datum's. Source: `datum/generator/image.py`
(DetDatumGenerator); the VOC2012 development kit, section 7.
"""

from typing import Any

from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from components.common.layout_inputs import LayoutInputs
from components.common.listing import Blob, Column, Entry, LeftOut, Listing, Value
from components.common.rejects import RejectedInputError
from components.image_example_gen.layouts import boxes
from components.image_example_gen.layouts.boxes import BOX_COLUMNS, relative_box
from components.image_example_gen.layouts.image_sets import (
    by_stem,
    has_folders,
    listed_images,
    read_image_sets,
)

__all__ = ["LOOKED_FOR", "is_here", "read"]

LOOKED_FOR = "JPEGImages/ beside Annotations/ (voc)"
_COLUMNS = (
    *BOX_COLUMNS,
    Column("pose", "string", is_list=True),
    Column("is_truncated", "int", is_list=True),
    Column("labels_difficult", "int", is_list=True),
)
_NOTHING: tuple[Value, ...] = ((),) * len(_COLUMNS)


def is_here(inputs: LayoutInputs) -> bool:
    """Whether the folders are there."""
    return has_folders(inputs, "JPEGImages", "Annotations")


def read(inputs: LayoutInputs) -> Listing:
    """Reads every annotation. Images of the split `test` may do without one."""
    sets = read_image_sets(inputs, ["ImageSets/Main", "ImageSets"])
    taken, left_out = listed_images(inputs, by_stem(inputs, "JPEGImages"), sets)
    annotations = by_stem(inputs, "Annotations")
    known = [annotations[stem].path for stem, _, _ in taken if stem in annotations]
    texts = inputs.read_many(known)
    entries = []
    for stem, split, file in taken:
        values = _NOTHING
        try:
            if stem in annotations:
                values = _parse(next(texts))
            elif split != "test":
                raise RejectedInputError("NO_ANNOTATION", f"no Annotations/{stem}.xml")
        except RejectedInputError as error:
            left_out.append(LeftOut(file.path, split, error.code, error.detail))
        else:
            entries.append(Entry(file.path, split, (Blob(file.path, file.size),), values))
    return Listing(tuple(entries), tuple(left_out), _COLUMNS)


def _parse(text: bytes) -> tuple[Value, ...]:
    try:
        root = SafeElementTree.fromstring(text)
    except (SafeElementTree.ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise RejectedInputError("BAD_ANNOTATION", f"no XML: {error}") from error
    size = root.find("size")
    if size is None:
        raise RejectedInputError("BAD_ANNOTATION", "no <size>")
    width, height = _number(size, "width"), _number(size, "height")
    found, poses, truncated, difficult = [], [], [], []
    for thing in root.findall("object"):
        box = thing.find("bndbox")
        name = (thing.findtext("name") or "").strip().lower()
        if box is None or not name:
            raise RejectedInputError("BAD_ANNOTATION", "an <object> without <name> or <bndbox>")
        edges = [_number(box, edge) for edge in ("xmin", "xmax", "ymin", "ymax")]
        found.append(relative_box(*edges, width=width, height=height, label=name))
        poses.append((thing.findtext("pose") or "unspecified").lower())
        truncated.append(int(thing.findtext("truncated") == "1"))
        difficult.append(int(thing.findtext("difficult") == "1"))
    return (*boxes.values(found), tuple(poses), tuple(truncated), tuple(difficult))


def _number(element: Any, name: str) -> float:
    text = element.findtext(name)
    try:
        return float(text)
    except (TypeError, ValueError) as error:
        raise RejectedInputError(
            "BAD_ANNOTATION", f"<{name}>: expected a number, got {text!r}"
        ) from error
