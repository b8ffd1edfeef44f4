"""Read Pascal VOC: JPEGImages and ImageSets, with Annotations of boxes or SegmentationClass.

Feature names and arithmetic follow Datum. Source: `datum/generator/image.py`
(DetDatumGenerator, SegDatumGenerator); the VOC2012 development kit, sections 4, 7 and 8.
"""

import collections
import dataclasses
import itertools
import math
import posixpath
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from absl import logging
from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree

from components.inputs.advice import how_to_set
from components.inputs.input_table import Blob, Column, Entry, ExcludedInput, InputTable, Value
from components.inputs.listing import LayoutInputs
from components.inputs.rejects import RejectedInputError, reject_errors
from components.layouts import boxes
from components.layouts.boxes import BOX_COLUMNS, SIZE_COLUMNS, claimed_size, relative_box
from components.layouts.file_kinds import kind_of_name
from components.layouts.junk import is_clutter
from components.layouts.list_splits import splits_of_files
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.format import canonical_split
from trainer_utils.storage import InputFile, display_path, problem_of, retry_transient

_COLUMNS = (
    *BOX_COLUMNS,
    Column("pose", "string", is_list=True),
    Column("is_truncated", "int", is_list=True),
    Column("labels_difficult", "int", is_list=True),
    *SIZE_COLUMNS,
)
_NOTHING: tuple[Value, ...] = tuple(() if column.is_list else None for column in _COLUMNS)
_FOLDERS = {
    "image_dir": "JPEGImages",
    "annotation_dir": "Annotations",
    "label_dir": "SegmentationClass",
}
_HEADS, _HEAD_BYTES = 8, 4096  # XML files to open for detection, and bytes to read of each
_MAX_XML_BYTES = 16 << 20  # 16 MiB: about 50,000 objects


def folder_of(inputs: LayoutInputs, setting: str) -> str:
    """Return the name of one of VOC's folders, or the name in its setting.

    Args:
        inputs: the inputs.
        setting: `image_dir`, `annotation_dir` or `label_dir`.
    """
    return inputs.names.get(setting, _FOLDERS[setting])


def is_in(parts: Sequence[str], folder: str) -> bool:
    """Return whether a path, given in parts, is a folder or inside it."""
    wanted = tuple(folder.split("/"))
    return tuple(parts[: len(wanted)]) == wanted


def find_folders(inputs: LayoutInputs, *settings: str) -> Detection:
    """Detect the folders of settings (see `folder_of`); all of them must exist."""
    names = [folder_of(inputs, setting) for setting in settings]
    for name in names:
        if not any(is_in(parts, name) for parts in inputs.folders):
            return Detection.miss(f"no folder {name}/")
    return Detection.match(" and ".join(f"{name}/" for name in names))


def read(inputs: LayoutInputs) -> InputTable:
    """Read every annotation. Images without one have no objects, and are counted in a warning.

    If there is a `classes.names`, ids are in the order of its lines, as in Datum.

    Raises:
        InputError: two files have the same name, or an image is twice in the image sets.
    """
    has_folders = find_folders(inputs, "image_dir", "annotation_dir").is_match
    pairs, excluded = (_pairs_of_folders if has_folders else _pairs_of_neighbours)(inputs)
    readable = [xml.path for *_, xml in pairs if xml is not None and _problem(xml) is None]
    texts = zip(readable, inputs.read_many(readable), strict=True)
    entries, missing = [], []
    for split, image, annotation in pairs:
        values = _NOTHING
        try:
            if annotation is None:
                missing.append(image.path)
            elif (problem := _problem(annotation)) is not None:
                raise RejectedInputError(*problem)
            else:
                path, text = next(texts)
                assert path == annotation.path, "the readable annotations come in order"
                with reject_errors():
                    values = retry_transient(path, _parse, text, path)
        except RejectedInputError as error:
            excluded.append(ExcludedInput(image.path, split, error.code, error.detail))
        else:
            entries.append(Entry(image.path, split, (Blob(image.path, image.size),), values))
    if missing:
        logging.warning(
            "%d of %d images have no annotation, such as %r: they have no objects",
            *(len(missing), len(pairs), missing[0]),
        )
    listing = InputTable.of(entries, excluded, _COLUMNS)
    return dataclasses.replace(listing, vocabularies=_classes(inputs))


# The split, the image, and its annotation or None.
_Pair = tuple[str | None, InputFile, InputFile | None]


def _pairs_of_folders(inputs: LayoutInputs) -> tuple[list[_Pair], list[ExcludedInput]]:
    """Pair the images in JPEGImages with the files in Annotations, by the image sets."""
    annotations = by_stem(inputs, folder_of(inputs, "annotation_dir"), extension=".xml")
    images = by_stem(inputs, folder_of(inputs, "image_dir"))
    sets = read_image_sets(inputs, ["ImageSets/Main", "ImageSets"], images)
    taken, excluded = listed_images(inputs, images, sets)
    for stem, file in annotations.items():
        if not sets and stem not in images:
            detail = f"an annotation without its image in {folder_of(inputs, 'image_dir')}"
            excluded.append(ExcludedInput(file.path, inputs.split, "FILE_NOT_FOUND", detail))
    return [(split, file, annotations.get(stem)) for stem, split, file in taken], excluded


def _pairs_of_neighbours(inputs: LayoutInputs) -> tuple[list[_Pair], list[ExcludedInput]]:
    """Pair images with the XML file of the same name in their folder, or else in any folder."""
    images: dict[str, InputFile] = {}
    annotations: dict[str, InputFile] = {}
    excluded = []
    _refuse_several_years(inputs)
    for parts, file in inputs.below_root():
        stem, ending = posixpath.splitext(file.path)
        if is_clutter(parts):
            excluded.append(ExcludedInput(file.path, inputs.split, None, "hidden or system file"))
        elif ending.lower() == ".xml" or (not ending and _is_annotation(inputs, file)):
            annotations[stem] = file
        elif kind_of_name(file.path) == "image" and images.setdefault(stem, file) is not file:
            got = f"{display_path(images[stem].path)} and {display_path(file.path)}"
            raise InputError(f"{stem!r}: expected one image with that name, got {got}")
    by_name: dict[str, list[str]] = collections.defaultdict(list)
    for stem in annotations.keys() - images.keys():
        by_name[posixpath.basename(stem)].append(stem)
    annotation_of: dict[str, InputFile] = {}
    used: dict[str, str] = {}
    for stem in images:
        others = [stem] if stem in annotations else by_name.get(posixpath.basename(stem), [])
        if len(others) > 1 or (others and used.setdefault(others[0], stem) != stem):
            raise _refuse_shared(images, annotations, stem, others, used)
        if others:
            annotation_of[stem] = annotations[others[0]]
    for stem, file in annotations.items():
        if stem not in used:
            detail = "an annotation without its image"
            excluded.append(ExcludedInput(file.path, inputs.split, "FILE_NOT_FOUND", detail))
    bad = {stem: file.problem for stem, file in images.items() if file.problem is not None}
    good = [stem for stem in images if stem not in bad]
    paths = ["/".join(inputs.parts_of(images[stem].path)) for stem in good]
    splits = [inputs.split] * len(good)
    if inputs.split is None:
        splits = splits_of_files(paths, source=inputs.root or inputs.base)
    for stem, problem in bad.items():
        excluded.append(ExcludedInput(images[stem].path, inputs.split, *problem))
    pairs = zip(splits, good, strict=True)
    return [(split, images[stem], annotation_of.get(stem)) for split, stem in pairs], excluded


def _refuse_several_years(inputs: LayoutInputs) -> None:
    """Raise an InputError if several folders, such as years, each contain a tree of VOC.

    Two of them may use the same image names, and each has separate image sets.
    """
    image_dir, annotation_dir = (folder_of(inputs, n) for n in ("image_dir", "annotation_dir"))
    by_name = [
        {folder[: -len(name.split("/"))] for folder in inputs.folders if folder_ends(folder, name)}
        for name in (image_dir, annotation_dir)
    ]
    roots = sorted(
        posixpath.join(inputs.root, *above) for above in by_name[0] & by_name[1] if above
    )
    if len(roots) > 1:
        paths = [posixpath.join(inputs.base, place) for place in roots]
        raise InputError.at(
            inputs.base,
            expected=f"one folder with {image_dir}/ and {annotation_dir}/",
            got=", ".join(map(repr, map(display_path, roots))),
            advice=f"Convert each on its own, such as {paths[0]!r}; or leave the others out: "
            f"{how_to_set(ignore=[f'{place}/*' for place in roots[1:]])}",
        )


def folder_ends(parts: Sequence[str], folder: str) -> bool:
    """Return whether a folder in parts ends with a path."""
    wanted = tuple(folder.split("/"))
    return tuple(parts[-len(wanted) :]) == wanted


def _is_annotation(inputs: LayoutInputs, file: InputFile) -> bool:
    """Return whether a file without an ending, as of Stanford Dogs, is XML of an annotation."""
    if file.problem is not None:
        return False
    return b"<annotation" in inputs.head(file.path, _HEAD_BYTES)


def _refuse_shared(
    images: Mapping[str, InputFile],
    annotations: Mapping[str, InputFile],
    stem: str,
    others: Sequence[str],
    used: Mapping[str, str],
) -> InputError:
    """Return the error of an image with two annotations, or of an annotation of two images."""
    if len(others) > 1:
        got = " and ".join(sorted(repr(display_path(annotations[o].path)) for o in others))
        folders = sorted({posixpath.dirname(other) for other in others})
        return InputError(
            f"{images[stem].path!r}: expected one annotation with its name, got {got}. To leave "
            f"some out: {how_to_set(ignore=[f'{folder}/*' for folder in folders[1:]])}."
        )
    first, second = (images[path] for path in sorted((used[others[0]], stem)))
    masks = [i for i in (first, second) if i.path.lower().endswith(".png")] or [second]
    folder = posixpath.dirname(masks[-1].path)
    return InputError(
        f"{annotations[others[0]].path!r}: expected one image with its name, got "
        f"{display_path(first.path)!r} and {display_path(second.path)!r}. To leave one out: "
        f"{how_to_set(ignore=[f'{folder}/*' if folder else masks[-1].path])}."
    )


def detect(inputs: LayoutInputs) -> Detection:
    """Look for VOC's folders, or for XML files with annotations."""
    folders = find_folders(inputs, "image_dir", "annotation_dir")
    if folders.is_match:
        return folders
    if inputs.layout == "auto" and (wrapper := inputs.only_folder) is not None:
        return Detection.miss(f"{folders.reason}; all files are in {wrapper}")
    paths = (path for p, path in inputs.paths_below_root(endings=(".xml",)) if not is_clutter(p))
    for path in itertools.islice(paths, _HEADS):
        head = inputs.head(path, _HEAD_BYTES)
        if b"<annotation" in head and (b"<filename" in head or b"<object" in head):
            return Detection.match(f"{path} for an image")
    return Detection.miss(f"{folders.reason}, and no XML of annotations")


def _classes(inputs: LayoutInputs) -> dict[str, tuple[str, ...]]:
    """Return the vocabulary in `classes.names`, by feature; empty without such a file."""
    path = posixpath.join(inputs.root, "classes.names")
    if path not in inputs.files:
        return {}
    lines = [line.strip().lower() for line in inputs.read_text(path).splitlines()]
    names = tuple(line for line in lines if line)
    if not names or len(set(names)) < len(names):
        raise InputError.at(path, expected="one class name per line, each once", got=str(lines))
    return {"labels": names}


def _problem(annotation: InputFile) -> tuple[str, str] | None:
    """Return the reject code and detail for an annotation that cannot be opened, or None."""
    if annotation.problem is not None:
        code, detail = annotation.problem
        return code, f"its annotation: {detail}"
    if annotation.size > _MAX_XML_BYTES:
        return "BAD_ANNOTATION", f"expected at most {_MAX_XML_BYTES} bytes, got {annotation.size}"
    return None


def _parse(text: bytes | OSError, path: str) -> tuple[Value, ...]:
    """Return the values of an annotation; raise RejectedInputError if it is malformed."""
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
    box_list, poses, truncated, difficult = [], [], [], []
    for thing in root.findall("object"):  # without the nested <part> elements
        box = thing.find("bndbox")
        name = (thing.findtext("name") or "").strip().lower()
        if box is None or not name:
            raise RejectedInputError("BAD_ANNOTATION", "an <object> without <name> or <bndbox>")
        edges = [_number(box, edge) for edge in ("xmin", "xmax", "ymin", "ymax")]
        box_list.append(
            relative_box(*edges, width=width, height=height, label=name, may_be_turned=True)
        )
        poses.append((thing.findtext("pose") or "unspecified").lower())
        truncated.append(int(thing.findtext("truncated") == "1"))
        difficult.append(int(thing.findtext("difficult") == "1"))
    if not box_list:
        return _NOTHING
    lists = (tuple(poses), tuple(truncated), tuple(difficult))
    return (*boxes.box_values(box_list), *lists, *claimed_size(width=width, height=height))


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


_ImageSet = tuple[str, str]  # the split of an image, and the place of its line, for messages


def by_stem(
    inputs: LayoutInputs, folder: str, *, extension: str | None = None
) -> dict[str, InputFile]:
    """Return the files in a folder by their relative path without suffix; skip hidden files.

    Args:
        inputs: the inputs.
        folder: the folder.
        extension: the suffix of the files, or None for all files.

    Raises:
        InputError: two files have the same name.
    """
    files: dict[str, InputFile] = {}
    depth = folder.count("/") + 1
    for parts, file in inputs.below_root():
        if len(parts) <= depth or not is_in(parts, folder) or is_clutter(parts):
            continue
        stem, suffix = posixpath.splitext("/".join(parts[depth:]))
        if extension is not None and suffix.lower() != extension:
            continue
        if files.setdefault(stem, file) is not file:
            got = f"{display_path(files[stem].path)} and {display_path(file.path)}"
            raise InputError(f"{folder} {stem!r}: expected one file with that name, got {got}")
    return files


def read_image_sets(
    inputs: LayoutInputs, folders: Sequence[str], images: Collection[str]
) -> dict[str, _ImageSet]:
    """Return the split of each image, from the first folder with image sets (`train.txt`).

    Args:
        inputs: the inputs.
        folders: the folders to search, unless the setting `image_set_dir` names one.
        images: the names of the images.

    Raises:
        InputError: an image is named twice, or an image set cannot be read.
    """
    set_folder = inputs.names.get("image_set_dir")
    for folder in [set_folder] if set_folder else folders:
        sets: dict[str, _ImageSet] = {}
        for parts, file in inputs.below_root():
            stem, extension = posixpath.splitext(parts[-1])
            split = canonical_split(stem)
            is_here = "/".join(parts[:-1]) == folder and extension.lower() == ".txt"
            if split is None or not is_here:  # skips `trainval.txt` and `dog_train.txt`
                continue
            for number, line in enumerate(_lines(inputs, file), 1):
                # Strip spaces, unless an image has exactly this name.
                if not (name := line if line in images else line.strip()):
                    continue
                place = f"{display_path(file.path)} (line {number})"
                if name in sets:
                    places = f"{sets[name][1]} and in {place}"
                    raise InputError(
                        f"image {name!r} is in {places}. An image may be in one image set."
                    )
                sets[name] = split, place
        if sets:
            return sets
    return {}


def _lines(inputs: LayoutInputs, file: InputFile) -> list[str]:
    """Return the lines of an image set. Invalid UTF-8 is escaped, as in file names."""
    if file.problem is not None:
        raise InputError.at(file.path, expected="an image set", got=file.problem[1])
    data = inputs.read_bytes(file.path)
    if (zero := data.find(0)) >= 0:
        raise InputError.at(
            file.path, expected="one name per line in UTF-8", got="a NUL byte", offset=zero
        )
    # splitlines() would also split at characters that a file name may contain.
    lines = data.decode("utf-8-sig", "surrogateescape").split("\n")
    return [line.removesuffix("\r") for line in lines]


def listed_images(
    inputs: LayoutInputs, images: Mapping[str, InputFile], sets: Mapping[str, _ImageSet]
) -> tuple[list[tuple[str, str | None, InputFile]], list[ExcludedInput]]:
    """Return the images to read, as name, split and file, and the excluded files.

    Args:
        inputs: the inputs.
        images: the images by name.
        sets: the split of each image by name; empty if there are no image sets.
    """
    taken, excluded = [], []
    for stem, file in images.items():
        split = inputs.split or (sets[stem][0] if stem in sets else None)
        if sets and stem not in sets:
            excluded.append(ExcludedInput(file.path, split, None, "in no image set"))
        elif file.problem is not None:
            excluded.append(ExcludedInput(file.path, split, *file.problem))
        else:
            taken.append((stem, split, file))
    for stem, (of_set, place) in sets.items():
        if stem not in images:
            split, detail = inputs.split or of_set, f"named in {place}"
            excluded.append(ExcludedInput(stem, split, "FILE_NOT_FOUND", detail))
    for parts, file in inputs.below_root():
        if is_in(parts, folder_of(inputs, "image_dir")) and is_clutter(parts):
            excluded.append(ExcludedInput(file.path, inputs.split, None, "hidden or system file"))
    return taken, excluded


register(
    Layout(
        name="voc",
        kinds=("image",),
        rank=20,
        tree="""\
JPEGImages/1.jpg
Annotations/1.xml
ImageSets/Main/train.txt
ImageSets/Main/val.txt
or
train/1.jpg
train/1.xml
valid/2.jpg
valid/2.xml""",
        features="xmin, xmax, ymin, ymax, area, labels, pose, is_truncated, labels_difficult",
        splits="ImageSets/Main/*.txt; for XML next to images, their folders",
        refused="two files with the same name; an image in two sets",
        detect=detect,
        read=read,
        keeps_sizes=True,
        known=("ImageSets/*", "SegmentationClass/*", "SegmentationObject/*", "classes.names"),
    )
)
