"""Object detection as COCO keeps it: `annotations/instances_*.json` and folders of images.

    read(inputs).columns       # xmin, xmax, ymin, ymax, area, labels, is_crowd, image_id

Names of features are Datum's, and `area` is the box's, relative to the image. Source: "Data
format", cocodataset.org.
"""

import collections
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from components.common.layout_inputs import LayoutInputs
from components.common.listing import Blob, Column, Entry, LeftOut, Listing, Value, join_listings
from components.common.rejects import RejectedInputError
from components.image_example_gen.layouts import boxes
from components.image_example_gen.layouts.boxes import BOX_COLUMNS, relative_box
from trainer_utils.format import InputError, canonical_split

__all__ = ["LOOKED_FOR", "is_here", "read"]

LOOKED_FOR = "annotations/instances_*.json (coco)"
_COLUMNS = (*BOX_COLUMNS, Column("is_crowd", "int", is_list=True), Column("image_id", "int"))
_KEYS = ("images", "annotations", "categories")
_USUAL_NAME = re.compile(r"instances_.*\.json|(.*[._])?annotations(\.coco)?\.json|.*coco.*\.json")


def is_here(inputs: LayoutInputs) -> bool:
    """Whether a file has one of the usual names."""
    return any(_USUAL_NAME.fullmatch(posixpath.basename(path)) for path in _candidates(inputs))


def read(inputs: LayoutInputs) -> Listing:
    """Reads every file of instances; captions, keypoints and the like are passed by.

    Raises:
        InputError: there is none, one is malformed, or two name one image.
    """
    listings = []
    file_of: dict[str, str] = {}
    for path in _candidates(inputs):
        value = _parse(inputs.read_text(path), path)
        if value is None:
            logging.info("%s holds no instances: passed by", path)
            continue
        listing = _read_instances(inputs, path, value)
        for entry in listing.entries:
            if file_of.setdefault(entry.name, path) != path:
                raise InputError(
                    f"{entry.name!r}: expected one file to name it, got {file_of[entry.name]} "
                    f"and {path}"
                )
        listings.append(listing)
    if not _candidates(inputs):
        return Listing(())
    if not listings:
        raise InputError(
            f"input_base {inputs.base!r}: expected a JSON file with {', '.join(_KEYS)}, found none"
        )
    return join_listings(listings)


def _candidates(inputs: LayoutInputs) -> list[str]:
    return [
        file.path
        for parts, file in inputs.below_root()
        if len(parts) <= 2 and parts[-1].lower().endswith(".json")
    ]


def _parse(text: str, path: str) -> dict[str, Any] | None:
    """The file as an object; None where it holds something else than instances."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path!r}: expected JSON: {error}") from error
    if not isinstance(value, dict) or not all(isinstance(value.get(key), list) for key in _KEYS):
        return None
    annotations = value["annotations"]
    is_other = (
        bool(annotations) and isinstance(annotations[0], dict) and "bbox" not in annotations[0]
    )
    return None if is_other else value


def _read_instances(inputs: LayoutInputs, path: str, value: Mapping[str, Any]) -> Listing:
    try:
        names = {category["id"]: str(category["name"]) for category in value["categories"]}
        images = {image["id"]: image for image in value["images"]}
        found: dict[Any, list[Any]] = collections.defaultdict(list)
        for annotation in value["annotations"]:
            found[annotation["image_id"]].append(annotation)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path!r}: expected COCO's keys: {error!r}") from error
    if len(images) < len(value["images"]):
        raise InputError(f"{path!r}: expected each image's id once")
    if unknown := found.keys() - images.keys():
        raise InputError(f"{path!r}: expected annotations of its images, got {min(unknown)!r}")
    split = inputs.split or _split(path)
    entries, left_out = [], []
    for number, image in images.items():
        name = str(image.get("file_name") or number)
        try:
            file_path, blob = _find(inputs, path, name)
            entry = Entry(file_path, split, (blob,), _values(image, found[number], names))
        except RejectedInputError as error:
            left_out.append(LeftOut(name, split, error.code, error.detail))
        else:
            entries.append(entry)
    return Listing(tuple(entries), tuple(left_out), _COLUMNS)


def _values(
    image: Mapping[str, Any], annotations: list[Any], names: Mapping[Any, str]
) -> tuple[Value, ...]:
    found, crowds = [], []
    try:
        width, height = float(image["width"]), float(image["height"])
        for annotation in annotations:
            x, y, box_width, box_height = map(float, annotation["bbox"])
            label = names[annotation["category_id"]]
            edges = (x, x + box_width, y, y + box_height)
            found.append(relative_box(*edges, width=width, height=height, label=label))
            crowds.append(int(annotation.get("iscrowd", 0)))
        return (*boxes.values(found), tuple(crowds), int(image["id"]))
    except (KeyError, TypeError, ValueError) as error:
        raise RejectedInputError("BAD_ANNOTATION", repr(error)) from error


def _find(inputs: LayoutInputs, path: str, name: str) -> tuple[str, Blob]:
    """The image of a name, in one of the folders where people put them."""
    folder, root = posixpath.dirname(path), inputs.root
    stem = posixpath.splitext(posixpath.basename(path))[0].removeprefix("instances_")
    split = _split(path)
    folders = [folder, root, *(posixpath.join(root, n) for n in _folders(stem, split))]
    for candidate in dict.fromkeys(folders):
        if posixpath.normpath(posixpath.join(candidate, name)) in inputs.files:
            return inputs.resolve(name, folder=candidate)
    return inputs.resolve(name, folder=folder)


def _folders(stem: str, split: str | None) -> Iterator[str]:
    yield from (stem, f"images/{stem}", "images", "JPEGImages")
    if split is not None:
        yield from (split, f"images/{split}")
        if split == "eval":
            yield from ("val", "images/val", "valid", "images/valid")


def _split(path: str) -> str | None:
    """The split that a word of the file's name is, or its folder."""
    words = [word for word in re.split(r"[^A-Za-z]+", posixpath.basename(path)) if word]
    words.append(posixpath.basename(posixpath.dirname(path)))
    return next((split for split in map(canonical_split, words) if split), None)
