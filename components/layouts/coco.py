"""Read object detection data in COCO's format: `annotations/instances_*.json` and image folders.

It supports the folders of COCO 2017, of Roboflow's exports (a JSON file next to the images of each
split), and similar ones. Feature names are Datum's. `area` is the area of the box relative to the
image, whereas COCO's `area` is the area of the outline in pixels. Source: "Data format",
cocodataset.org.
"""

import collections
import dataclasses
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.input_table import (
    Blob,
    Column,
    Entry,
    ExcludedInput,
    InputTable,
    Value,
    join_inputs,
    with_excluded,
)
from components.inputs.listing import LayoutInputs, select_readable
from components.inputs.rejects import RejectedInputError, reject_errors
from components.layouts import boxes
from components.layouts.boxes import BOX_COLUMNS, SIZE_COLUMNS, claimed_size, relative_box
from components.layouts.junk import is_clutter
from components.layouts.list_files import MISSING, FileFinder
from components.layouts.list_splits import splits_of_files
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.format import canonical_split
from trainer_utils.storage import display_path, retry_transient
from trainer_utils.storage.paths import encode_path

_KEYS = ("images", "annotations", "categories")
_FOLDER, _INSTANCES, _CAPTIONS = "annotations", "instances_", "captions_"
_NAME = re.compile(r"instances_.*\.json|(.*[._])?annotations(\.coco)?\.json|.*coco.*\.json")
_HEAD = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[|^\W*"(info|licenses)"')
# The beginning of a COCO file with any name: an image with its file name, or an annotation.
_IMAGES = re.compile(rb'"images"\s*:\s*\[\s*\{[^}]*"file_name"\s*:')
_ANNOTATIONS = re.compile(rb'"annotations"\s*:\s*\[\s*\{.{0,4096}?"image_id"\s*:', re.DOTALL)
_HEAD_BYTES = 64 << 10
_HEADS = 8  # limits the files to open: a folder may have 100,000 JSON files, one per image
_DEPTH = 3  # maximum number of parts in the path of a JSON file with any name
_MOST = 1e9  # pixels; no image has a longer edge
# Files of COCO's other tasks, which name the same images again.
_OTHER_TASKS = (_CAPTIONS, "image_info_", "panoptic_", "person_keypoints_", "stuff_")
_COUNTS = "keypoint_counts"


@dataclasses.dataclass(frozen=True)
class _Content:
    """The entries of one JSON file, each with its values by name."""

    path: str
    entries: list[tuple[str, str | None, Blob, dict[str, Value]]]
    excluded: list[ExcludedInput]

    @property
    def names(self) -> set[str]:
        """Names of all values."""
        return {name for *_, values in self.entries for name in values}


def read(inputs: LayoutInputs) -> InputTable:
    """Read every file of instances, or else the files of keypoints or captions.

    Raises:
        InputError: there are no such files, one is malformed, or an image is named twice.
    """
    paths, excluded = select_readable(inputs, coco_files(inputs), "a JSON file")
    if not paths:
        return InputTable.of(())
    named_by: dict[str, tuple[str, int | str]] = {}
    others = [path for path in paths if posixpath.basename(path).startswith(_OTHER_TASKS)]

    def read_some(chunk: Sequence[str]) -> list[_Content]:
        contents = (_read_file(inputs, path, named_by) for path in chunk)
        return [content for content in contents if content is not None]

    contents = read_some([path for path in paths if path not in others])
    if not contents:  # files of keypoints have boxes as well
        contents = read_some([p for p in others if not _is_captions(p)]) or read_some(others)
    unread = sorted({*paths} - {content.path for content in contents})
    shown = ", ".join(map(repr, map(display_path, unread[:_HEADS])))
    if not contents:
        raise InputError.at(
            inputs.base,
            expected=f"a JSON file with {', '.join(_KEYS)}, and a `bbox` or a `caption` for each "
            "annotation",
            got=shown,
            advice="Other tasks, such as panoptic segmentation, are not read: add COCO's "
            "instances_*.json for boxes. To leave these files out, which loses their annotations: "
            f"{how_to_set(ignore=unread)}",
        )
    if unread:
        logging.warning(
            "%s are not read: an example has the annotations of one task, here those of %r",
            *(shown, contents[0].path),
        )
    return with_excluded(join_inputs(_tables(contents)), excluded)


def _is_captions(path: str) -> bool:
    return posixpath.basename(path).startswith(_CAPTIONS)


def _tables(contents: Sequence[_Content]) -> list[InputTable]:
    """Return tables with the same columns. If one id is a string, all ids become strings."""
    names = set[str]().union(*(content.names for content in contents))
    ids = (v["image_id"] for content in contents for *_, v in content.entries)
    has_strings = any(isinstance(image_id, str) for image_id in ids)
    columns: list[Column] = []
    if "xmin" in names:
        columns += [*BOX_COLUMNS, Column("is_crowd", "int", is_list=True)]
    if "keypoints" in names:
        columns.append(Column("keypoints", "float", is_list=True))
        columns.append(Column(_COUNTS, "int", is_list=True))
    if "caption" in names:
        columns.append(Column("caption", "string", is_list=True))
    columns.append(Column("image_id", "string" if has_strings else "int"))
    if "xmin" in names:
        columns += SIZE_COLUMNS
    tables = []
    for content in contents:
        entries = []
        for name, split, blob, values in content.entries:
            if has_strings:
                values["image_id"] = str(values["image_id"])
            row = tuple(values.get(c.name, () if c.is_list else None) for c in columns)
            entries.append(Entry(name, split, (blob,), row))
        tables.append(InputTable.of(entries, content.excluded, tuple(columns)))
    return tables


def _read_file(
    inputs: LayoutInputs, path: str, named_by: dict[str, tuple[str, int | str]]
) -> _Content | None:
    """Read one file, or return None if it has no boxes or captions. Update `named_by`."""
    content = _parse(inputs.read_text(path), path=path)
    if content is None:
        return None
    images = _by_id(path, "image", content["images"], "file_name")
    names = _names(path, content.get("categories") or ())
    by_image = _by_image(path, content["annotations"], images)
    folders = _folders(inputs, path)
    has_captions = _has_captions(content["annotations"])
    entries, excluded, missing = [], [], []
    uris = [uri for image in images.values() if _is_text(uri := image.get("file_name"))]
    finder = FileFinder(inputs, folders=folders, uris=uris)
    split_of_file = inputs.split or _split(path)
    for image_id, image in images.items():
        name = f"{path}/{image_id}"
        try:
            with reject_errors():
                if not _is_text(uri := image.get("file_name")):
                    raise _bad({}, "file_name", "a text", uri)
                name = uri
                name, blob = finder.find(uri)
            other_path, other_id = named_by.setdefault(name, (path, image_id))
            if other_path != path:
                got, advice = f"{other_path} and {path}", "Move one of them away."
                rule = "one JSON file that lists this image"
                raise InputError.at(name, expected=rule, got=got, advice=advice)
            if other_id != image_id:
                got = f"{name!r} as the ids {other_id} and {image_id}"
                raise InputError.at(path, expected="each image once", got=got)
            with reject_errors():
                image_annotations = by_image.get(image_id, ())
                read_values = _captions if has_captions else _values
                values = retry_transient(
                    path, read_values, image_id, image, image_annotations, names
                )
            entries.append((name, split_of_file, blob, values))
        except RejectedInputError as error:
            if error.code in MISSING:
                missing.append(name)
            excluded.append(ExcludedInput(name, split_of_file, error.code, error.detail))
    if missing and not entries and (advice := finder.advice(missing)):
        raise InputError(
            f"{path!r}: {len(missing)} of its images are not found, such as {missing[0]!r}: "
            f"{advice}.",
            path=path,
        )
    for how, count in finder.found_by.items():
        logging.warning("%r: %d images are found %s", path, count, how)
    if split_of_file is None:
        splits = splits_of_files([name for name, *_ in entries], source=path)
        entries = [(e[0], split, *e[2:]) for e, split in zip(entries, splits, strict=True)]
    return _Content(path, entries, excluded)


def _folders(inputs: LayoutInputs, path: str) -> list[str]:
    """Return the folders that may have a file's images, the likeliest first, its own last."""
    json_folder = posixpath.dirname(path)
    stem = posixpath.splitext(posixpath.basename(path))[0]
    for task in (_INSTANCES, *_OTHER_TASKS):
        stem = stem.removeprefix(task)
    names = [stem]
    if (split := _split(path)) is not None:  # folders with the name of the split in any spelling
        tops = {parts[0] for parts in inputs.folders}
        tops |= {parts[1] for parts in inputs.folders if len(parts) > 1 and parts[0] == "images"}
        names += sorted(name for name in tops if canonical_split(name) == split)
    inner = [name for each in names for name in (each, f"images/{each}")]
    if posixpath.basename(json_folder) != _FOLDER and json_folder != inputs.root:
        inner.append(posixpath.relpath(json_folder, inputs.root or "."))
    inner += ["images", "JPEGImages", ""]
    folders = (posixpath.join(inputs.root, name).rstrip("/") for name in inner)
    return list(dict.fromkeys((*folders, json_folder)))


def _split(path: str) -> str | None:
    """Return the split that a word of the file's name, or its folder, names."""
    words = [word for word in re.split(r"[^A-Za-z]+", posixpath.basename(path)) if word]
    words.append(posixpath.basename(posixpath.dirname(path)))
    return next((split for split in map(canonical_split, words) if split), None)


def _values(
    image_id: int | str,
    image: JsonObject,
    annotations: Sequence[JsonObject],
    names: Mapping[int | str, str],
) -> dict[str, Value]:
    """Return an image's values by name. An image without annotations needs no size."""
    width, height = image.get("width"), image.get("height")
    box_list, crowds = [], []
    points: list[float] = []
    counts: list[int] = []
    size: tuple[Value, Value] = None, None
    for annotation in annotations:
        if not _is_number(width) or not _is_number(height):
            raise _bad({}, "width, height", "those of the image", (width, height))
        category, is_crowd = annotation.get("category_id"), annotation.get("iscrowd", 0)
        if isinstance(category, float) and category.is_integer():
            category = int(category)
        if not isinstance(category, (int, str)) or category not in names:
            raise _bad(annotation, "category_id", "one of its categories", category)
        if is_crowd not in (0, 1):
            raise _bad(annotation, "iscrowd", "0 or 1", is_crowd)
        bbox = annotation.get("bbox")
        if not isinstance(bbox, list) or len(bbox) != 4 or not all(map(_is_number, bbox)):
            raise _bad(annotation, "bbox", "[x, y, width, height]", bbox)
        x, y, box_width, box_height = bbox
        edges, label = (x, x + box_width, y, y + box_height), names[category]
        box_list.append(
            relative_box(*edges, width=width, height=height, label=label, may_be_turned=True)
        )
        crowds.append(int(is_crowd))
        keypoints = _keypoints(annotation, width, height)
        points += keypoints
        counts.append(len(keypoints) // 3)
        size = claimed_size(width=width, height=height)
    values: dict[str, Value] = {"image_id": image_id, "is_crowd": tuple(crowds)}
    values |= dict(zip((c.name for c in BOX_COLUMNS), boxes.box_values(box_list), strict=True))
    values |= dict(zip((c.name for c in SIZE_COLUMNS), size, strict=True))
    if points:
        values |= {"keypoints": tuple(points), _COUNTS: tuple(counts)}
    return values


def _has_captions(annotations: Sequence[JsonObject]) -> bool:
    are_captions = any("caption" in annotation for annotation in annotations)
    return are_captions and not any("bbox" in annotation for annotation in annotations)


def _captions(
    image_id: int | str, image: JsonObject, annotations: Sequence[JsonObject], names: object
) -> dict[str, Value]:
    """Return the id and captions of an image, for a file without boxes."""
    return {"image_id": image_id, "caption": tuple(map(_caption, annotations))}


def _caption(annotation: JsonObject) -> str:
    caption = annotation.get("caption")
    if not isinstance(caption, str) or not _is_text(caption):
        raise _bad(annotation, "caption", "a text", caption)
    return caption


def _keypoints(annotation: JsonObject, width: float, height: float) -> list[float]:
    """Return x, y and visibility of each keypoint, relative to the image."""
    points = annotation.get("keypoints") or []
    if not isinstance(points, list) or len(points) % 3 or not all(map(_is_number, points)):
        raise _bad(annotation, "keypoints", "[x, y, visibility, …]", points)
    triples = zip(points[::3], points[1::3], points[2::3], strict=True)
    return [part for x, y, v in triples for part in (x / width, y / height, float(v))]


def _parse(text: str, *, path: str) -> JsonObject | None:
    """Parse a file of instances, keypoints or captions; return None for any other JSON.

    Outlines are dropped during parsing, since they are most of a file. This reduces the memory for
    a file of 420 MB from 2.8 to 1.1 GB, and the time from 14 to 6 s.
    """
    try:
        value = json.loads(text, object_hook=_without_outlines)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path!r}: expected JSON: {error}", path=path) from error
    keys = ("images", "annotations")
    if not isinstance(value, dict) or not all(isinstance(value.get(key), list) for key in keys):
        return None
    annotations = value["annotations"]
    has_captions = _has_captions(
        [annotation for annotation in annotations if isinstance(annotation, dict)]
    )
    if not has_captions and not isinstance(value.get("categories"), list):
        return None
    for key in keys if has_captions else _KEYS:
        for number, part in enumerate(value[key]):
            if not isinstance(part, dict):
                raise InputError.at(path, expected="objects", got=f"{part!a:.50} ({key}[{number}])")
    has_boxes = not annotations or any("bbox" in annotation for annotation in annotations)
    return value if has_boxes or has_captions else None


def _without_outlines(value: JsonObject) -> JsonObject:
    value.pop("segmentation", None)
    return value


def _by_id(
    path: str, what: str, parts: Sequence[JsonObject], shown: str
) -> dict[int | str, JsonObject]:
    """Return objects by id; raise an InputError for a wrong or duplicate id."""
    by_id: dict[int | str, JsonObject] = {}
    for part in parts:
        number = part.get("id")
        if isinstance(number, float) and number.is_integer():
            number = int(number)  # pandas may write ids as floats
        name = f"{part.get(shown)!a:.99}"
        if not _is_id(number):
            rule = f"a 64-bit integer or a string as the id of each {what}"
            raise InputError.at(path, expected=rule, got=f"{number!a:.50} ({name})")
        other = by_id.setdefault(number, part)
        if other is not part:
            got = f"{number} for {other.get(shown)!a:.99} and {name}"
            raise InputError.at(path, expected=f"a different id for each {what}", got=got)
    return by_id


def _is_id(value: object) -> TypeGuard[int | str]:
    """Return whether a value is a 64-bit integer or a string."""
    return _is_text(value) or (type(value) is int and -(2**63) <= value < 2**63)


def _names(path: str, categories: Sequence[JsonObject]) -> dict[int | str, str]:
    """Return the category names by id. Two categories with the same name are one label."""
    names: dict[int | str, str] = {}
    for number, category in _by_id(path, "category", categories, "name").items():
        name = category.get("name")
        if not _is_text(name):
            raise InputError.at(path, expected=f"a name for category {number}", got=f"{name!a}")
        names[number] = name
    return names


def _by_image(
    path: str, annotations: Sequence[JsonObject], images: Mapping[int | str, Mapping[str, Json]]
) -> dict[Any, list[JsonObject]]:
    """Group annotations by image. Raise an InputError for one without an image.

    It cannot be a reject, since there is no input to reject.
    """
    annotations_by_image: dict[Any, list[JsonObject]] = collections.defaultdict(list)
    for number, annotation in enumerate(annotations):
        image_id = annotation.get("image_id")
        if not isinstance(image_id, (int, float, str)) or image_id not in images:
            got = f"{image_id!a:.50} (annotations[{number}])"
            rule = "the id of one of its images as `image_id`"
            raise InputError.at(path, expected=rule, got=got)
        annotations_by_image[image_id].append(annotation)
    return annotations_by_image


def _bad(part: Mapping[str, Json], key: str, expected: str, got: object) -> RejectedInputError:
    place = f"annotation {part['id']!a:.50}: " if "id" in part else ""
    detail = f"{place}{key}: expected {expected}, got {got!a:.99}"
    return RejectedInputError("BAD_ANNOTATION", detail)


def _is_number(value: Json) -> TypeGuard[float]:
    """Return whether a value can be a coordinate or length in an image; NaN is not."""
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and -_MOST <= value <= _MOST


def _is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is a non-empty string without lone surrogates, which JSON allows."""
    try:
        return isinstance(value, str) and bool(encode_path(value))
    except UnicodeEncodeError:
        return False


def coco_files(inputs: LayoutInputs) -> list[str]:
    """Return the JSON files with usual names, and some others that begin like COCO files."""
    usual, others = [], []
    for parts, path in inputs.paths_below_root(endings=(".json",)):
        if is_clutter(parts) or (inputs.files[path].problem is not None and len(parts) > 2):
            continue
        if len(parts) <= 2 and (parts[0] == _FOLDER or _NAME.fullmatch(parts[-1])):
            usual.append(path)
        elif len(parts) <= _DEPTH:
            others.append((len(parts), path))
    if inputs.layout == "coco" and not usual:
        return [path for depth, path in others if depth <= 2]
    # Files at the top come first: folders below may have a file per image.
    unusual = [path for _, path in sorted(others)[:_HEADS] if _begins_as_coco(inputs, path)]
    return sorted([*usual, *unusual])


def _begins_as_coco(inputs: LayoutInputs, path: str) -> bool:
    head = inputs.head(path, _HEAD_BYTES)
    return bool(_IMAGES.search(head) or _ANNOTATIONS.search(head))


def detect(inputs: LayoutInputs) -> Detection:
    """Look for JSON files with any name that begin like COCO files."""
    usual = []
    for path in coco_files(inputs):
        folder, name = posixpath.split(path)
        if inputs.files[path].problem is not None:
            continue
        if name.startswith(_INSTANCES):
            return Detection.match(path)
        if _NAME.fullmatch(name) or posixpath.basename(folder) == _FOLDER:
            usual.append(path)
        else:
            return Detection.match(path)
    for path in usual[:_HEADS]:
        if _HEAD.search(inputs.head(path, _HEAD_BYTES)):
            return Detection.match(path)
    return Detection.miss("no JSON file with images and annotations")


register(
    Layout(
        name="coco",
        kinds=("image",),
        rank=40,
        tree="""\
annotations/instances_train2017.json
annotations/instances_val2017.json
train2017/1.jpg
val2017/2.jpg""",
        features="xmin, xmax, ymin, ymax, area, labels, is_crowd, image_id, keypoints, caption",
        splits="words in the name of the JSON file or its folder",
        refused="an image in two files; duplicate ids; annotations without an image",
        detect=detect,
        read=read,
        keeps_sizes=True,
        known=("annotations/*.json", "*/annotations/*.json"),
    )
)
