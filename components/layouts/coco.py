"""Object detection as COCO keeps it: `annotations/instances_*.json` and folders of images.

    read(inputs).columns       # xmin, xmax, ymin, ymax, area, labels, is_crowd, image_id

The folders are those of COCO 2017, of Roboflow's exports (a JSON file beside the images of each
split) and a few between. Source: "Data format", cocodataset.org.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence

from absl import logging

from components.common.entry import Blob, Entry, ExcludedInput
from components.common.input_table import InputTable, join_inputs, with_excluded
from components.common.layout_inputs import LayoutInputs, select_readable
from components.common.rejects import RejectedInputError, reject_errors
from components.example_gen.folder import is_clutter
from components.layouts.coco_instances import COLUMNS, KEYS, parse_instances
from trainer_utils.format import InputError, canonical_split
from trainer_utils.storage import persist, problem_of

LOOKED_FOR = "annotations/instances_*.json (coco)"
_FOLDER = "annotations"
_INSTANCES = "instances_"
_USUAL_NAME = re.compile(r"instances_.*\.json|(.*[._])?annotations(\.coco)?\.json|.*coco.*\.json")
# COCO's other tasks name the same images again.
_OTHER_TASKS = ("captions_", "image_info_", "panoptic_", "person_keypoints_", "stuff_")
_HEAD = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[|^\W*"(info|licenses)"')
_HEAD_BYTES = 64 << 10
_HEADS = 8  # looked into: a folder may hold 100,000 files of JSON, one an image


def is_here(inputs: LayoutInputs) -> bool:
    """Whether a file has one of the usual names, and begins as such a file does."""
    paths = [path for path in _candidates(inputs) if inputs.files[path].problem is None]
    if any(posixpath.basename(path).startswith(_INSTANCES) for path in paths):
        return True
    usual = [
        path
        for path in paths
        if _USUAL_NAME.fullmatch(posixpath.basename(path))
        or posixpath.basename(posixpath.dirname(path)) == _FOLDER
    ]
    return any(_HEAD.search(_head(inputs, path)) for path in usual[:_HEADS])


def _head(inputs: LayoutInputs, path: str) -> bytes:
    try:
        with inputs.open(path) as stream:
            return stream.read(_HEAD_BYTES)
    except OSError as error:  # what it holds is then nobody's to say
        problem_of(error, path)
        return b""


def read(inputs: LayoutInputs) -> InputTable:
    """Reads every file of instances; captions, keypoints and the like are passed by.

    Files of keypoints have boxes as well: where no file holds instances alone, they are taken.

    Raises:
        InputError: there is none, one is malformed, or an image is named twice.
    """
    paths, excluded = select_readable(inputs, _candidates(inputs), "a JSON file")
    if not paths:
        return InputTable.of(())
    others = [path for path in paths if posixpath.basename(path).startswith(_OTHER_TASKS)]
    named_by: dict[str, tuple[str, int]] = {}
    listings = []
    for path in paths:
        listing = None if path in others else _read_file(inputs, path, named_by)
        if listing is None:
            logging.info("%r holds no instances: passed by", path)
        else:
            listings.append(listing)
    if not listings:
        found = (_read_file(inputs, path, named_by, keypoints=True) for path in paths)
        listings = [listing for listing in found if listing is not None]
    if not listings:
        raise InputError(
            f"input_base {inputs.base!r}: expected a JSON file with {', '.join(KEYS)}, found none",
            path=inputs.base,
        )
    return with_excluded(join_inputs(listings), excluded)


def _candidates(inputs: LayoutInputs) -> list[str]:
    """JSON files at the root and in `annotations`; in other folders those of the usual names."""
    return [
        path
        for parts, path in inputs.paths_below_root(endings=(".json",))
        if not is_clutter(parts)
        and (
            len(parts) == 1
            or (len(parts) == 2 and (parts[0] == _FOLDER or _USUAL_NAME.fullmatch(parts[1])))
        )
    ]


def _read_file(
    inputs: LayoutInputs,
    path: str,
    named_by: dict[str, tuple[str, int]],
    *,
    keypoints: bool = False,
) -> InputTable | None:
    """A file's instances; None where it holds something else.

    Args:
        named_by: the file and the id that name an image, by the image's path; added to.
        keypoints: whether boxes of keypoints will do.
    """
    instances = parse_instances(inputs.read_text(path), path=path)
    if instances is None or (instances.has_keypoints and not keypoints):
        return None
    split = inputs.split or _split(path)
    folders = _folders(inputs, path)
    entries, excluded = [], []
    for image_id in instances.images:
        name = f"{path}/{image_id}"
        try:
            with reject_errors():
                name = instances.file_name(image_id)
                name, blob = _find(inputs, name, folders)
            _check_once(name, path, image_id, named_by)
            with reject_errors():
                values = persist(path, instances.values, image_id)
            entries.append(Entry(name, split, (blob,), values))
        except RejectedInputError as error:
            excluded.append(ExcludedInput(name, split, error.code, error.detail))
    return InputTable.of(entries, excluded, COLUMNS)


def _check_once(name: str, path: str, image_id: int, named_by: dict[str, tuple[str, int]]) -> None:
    other_path, other_id = named_by.setdefault(name, (path, image_id))
    if other_path != path:
        raise InputError.at(
            name,
            expected="one file to name it",
            got=f"{other_path} and {path}",
            advice="Move the other away.",
        )
    if other_id != image_id:
        raise InputError.at(
            path, expected="each image once", got=f"{name!r} as the ids {other_id} and {image_id}"
        )


def _find(inputs: LayoutInputs, name: str, folders: Sequence[str]) -> tuple[str, Blob]:
    """The image of a name, in the first of these folders that has it."""
    for folder in folders:
        if posixpath.normpath(posixpath.join(folder, name)) in inputs.files:
            return inputs.resolve(name, folder=folder)
    return inputs.resolve(name, folder=folders[-1])


def _folders(inputs: LayoutInputs, path: str) -> list[str]:
    """Where people put the images of a file, the likeliest first; its own folder at the end."""
    own = posixpath.dirname(path)
    stem = posixpath.splitext(posixpath.basename(path))[0]
    for task in (_INSTANCES, *_OTHER_TASKS):
        stem = stem.removeprefix(task)
    names = [stem, *_folders_of_split(inputs, _split(path))]
    inner = [name for each in names for name in (each, f"images/{each}")]
    if posixpath.basename(own) != _FOLDER and own != inputs.root:
        inner.append(posixpath.relpath(own, inputs.root or "."))
    inner += ["images", "JPEGImages", ""]
    folders = (posixpath.join(inputs.root, name).rstrip("/") for name in inner)
    return list(dict.fromkeys((*folders, own)))


def _folders_of_split(inputs: LayoutInputs, split: str | None) -> Iterator[str]:
    """The folders called after a split, in any spelling, at the root or in `images`."""
    if split is None:
        return
    tops = {parts[0] for parts in inputs.folders}
    tops |= {parts[1] for parts in inputs.folders if len(parts) > 1 and parts[0] == "images"}
    yield from sorted(name for name in tops if canonical_split(name) == split)


def _split(path: str) -> str | None:
    """The split that a word of the file's name is, or its folder."""
    words = [word for word in re.split(r"[^A-Za-z]+", posixpath.basename(path)) if word]
    words.append(posixpath.basename(posixpath.dirname(path)))
    return next((split for split in map(canonical_split, words) if split), None)
