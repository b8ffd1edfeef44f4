"""A file of COCO's instances: its images, the boxes of each, and what they hold.

    instances = parse_instances(text, path="annotations/instances_val2017.json")
    instances.images[139]              # {'file_name': '000000000139.jpg', 'height': 426, …}
    instances.values(139)              # those of `COLUMNS`

Source: "Data format", cocodataset.org. Names of features are Datum's, and `area` is the box's,
relative to the image: COCO's own is the outline's, in pixels.
"""

import collections
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from components.common.entry import Column, Value
from components.common.rejects import RejectedInputError
from components.example_gen import boxes
from components.example_gen.boxes import BOX_COLUMNS, SIZE_COLUMNS, claimed_size, relative_box
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject

COLUMNS = (
    *BOX_COLUMNS,
    Column("is_crowd", "int", is_list=True),
    Column("image_id", "int"),
    *SIZE_COLUMNS,
)
KEYS = ("images", "annotations", "categories")
_MOST = 1e9  # pixels of an edge: beyond is no image


@dataclasses.dataclass(frozen=True)
class Instances:
    """A file's content, as it is written but for the outlines.

    Args:
        annotations: by the id of their image.
        names: of the categories, by id.
        has_keypoints: whether it is of COCO's task of keypoints, whose boxes are of persons.
    """

    images: Mapping[int, Mapping[str, Json]]
    annotations: Mapping[int, Sequence[Mapping[str, Json]]]
    names: Mapping[int, str]
    has_keypoints: bool

    def file_name(self, image_id: int) -> str:
        """The path that an image is given.

        Raises:
            RejectedInputError: BAD_ANNOTATION: it is nothing that a file can be called.
        """
        name = self.images[image_id].get("file_name")
        if not _is_text(name):
            detail = f"file_name: expected a text, got {name!a:.99}"
            raise RejectedInputError("BAD_ANNOTATION", detail)
        return name

    def values(self, image_id: int) -> tuple[Value, ...]:
        """The values of `COLUMNS` for an image. Its size does not matter where it has no boxes.

        Raises:
            RejectedInputError: BAD_ANNOTATION: one of its annotations is malformed.
        """
        width, height = (self.images[image_id].get(edge) for edge in ("width", "height"))
        found, crowds = [], []
        size: tuple[Value, Value] = None, None
        for annotation in self.annotations.get(image_id, ()):
            if not _is_number(width) or not _is_number(height):
                detail = (
                    f"expected width and height of the image, got {width!a:.50}, {height!a:.50}"
                )
                raise RejectedInputError("BAD_ANNOTATION", detail)
            category, is_crowd = annotation.get("category_id"), annotation.get("iscrowd", 0)
            if not isinstance(category, (int, float)) or category not in self.names:
                raise _bad(annotation, "category_id", "one of its categories", category)
            if is_crowd not in (0, 1):
                raise _bad(annotation, "iscrowd", "0 or 1", is_crowd)
            bbox = annotation.get("bbox")
            if not isinstance(bbox, list) or len(bbox) != 4 or not all(map(_is_number, bbox)):
                raise _bad(annotation, "bbox", "[x, y, width, height]", bbox)
            x, y, box_width, box_height = bbox
            edges = (x, x + box_width, y, y + box_height)
            label = self.names[int(category)]
            found.append(relative_box(*edges, width=width, height=height, label=label))
            crowds.append(int(is_crowd))
            size = claimed_size(width=width, height=height)
        return (*boxes.box_values(found), tuple(crowds), image_id, *size)


def parse_instances(text: str, *, path: str) -> Instances | None:
    """A file's instances; None where it holds something else, such as captions.

    Outlines are dropped while it is read: they are the most of a file. For one of 420 MB that
    takes 1.1 GB in place of 2.8, and 6 s in place of 14.

    Raises:
        InputError: it is no JSON, an id comes twice, or an annotation is of no image.
    """
    try:
        value = json.loads(text, object_hook=_without_outlines)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path!r}: expected JSON: {error}", path=path) from error
    if not isinstance(value, dict) or not all(isinstance(value.get(key), list) for key in KEYS):
        return None
    for key in KEYS:
        for number, part in enumerate(value[key]):
            if not isinstance(part, dict):
                raise InputError.at(path, expected="objects", got=f"{part!a:.50} ({key}[{number}])")
    annotations = value["annotations"]
    if annotations and not any("bbox" in annotation for annotation in annotations):
        return None
    images = _by_id(path, "image", value["images"], shown="file_name")
    return Instances(
        images=images,
        annotations=_by_image(path, annotations, images),
        names=_names(path, value["categories"]),
        has_keypoints=any("keypoints" in annotation for annotation in annotations),
    )


def _without_outlines(value: JsonObject) -> JsonObject:
    value.pop("segmentation", None)
    return value


def _by_id(
    path: str, what: str, parts: Sequence[JsonObject], *, shown: str
) -> dict[int, JsonObject]:
    """Images or categories by id."""
    by_id: dict[int, JsonObject] = {}
    for part in parts:
        number = part.get("id")
        if isinstance(number, float) and number.is_integer():
            number = int(number)  # as pandas writes them
        if type(number) is not int or not -(2**63) <= number < 2**63:
            raise InputError.at(
                path,
                expected=f"an id of 64 bits for each {what}",
                got=f"{number!a:.50} ({part.get(shown)!a:.99})",
            )
        other = by_id.setdefault(number, part)
        if other is not part:
            raise InputError.at(
                path,
                expected=f"each {what}'s id once",
                got=f"{number} for {other.get(shown)!a:.99} and {part.get(shown)!a:.99}",
            )
    return by_id


def _names(path: str, categories: Sequence[JsonObject]) -> dict[int, str]:
    """The categories' names by id. Two of one name are one label."""
    names: dict[int, str] = {}
    for number, category in _by_id(path, "category", categories, shown="name").items():
        name = category.get("name")
        if not _is_text(name):
            raise InputError.at(path, expected=f"a name of category {number}", got=f"{name!a}")
        names[number] = name
    return names


def _by_image(
    path: str, annotations: Sequence[JsonObject], images: Mapping[int, Mapping[str, Json]]
) -> dict[Any, list[JsonObject]]:
    """The annotations by image. One of no image is an error: there is no input to leave out."""
    found: dict[Any, list[JsonObject]] = collections.defaultdict(list)
    for number, annotation in enumerate(annotations):
        image_id = annotation.get("image_id")
        if not isinstance(image_id, (int, float)) or image_id not in images:
            raise InputError.at(
                path,
                expected="annotations of its images",
                got=f"{image_id!a:.50} (annotations[{number}])",
            )
        found[image_id].append(annotation)
    return found


def _bad(
    annotation: Mapping[str, Json], key: str, expected: str, got: object
) -> RejectedInputError:
    place = f"annotation {annotation['id']!a:.50}: " if "id" in annotation else ""
    return RejectedInputError(
        "BAD_ANNOTATION", f"{place}{key}: expected {expected}, got {got!a:.99}"
    )


def _is_number(value: Json) -> TypeGuard[float]:
    """Whether it can be a place or length in an image; no nan is."""
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and -_MOST <= value <= _MOST


def _is_text(value: object) -> TypeGuard[str]:
    """Whether it is a text that a file's name can be: JSON knows halves of characters too."""
    try:
        return isinstance(value, str) and bool(os.fsencode(value))
    except UnicodeEncodeError:
        return False
