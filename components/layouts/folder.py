"""Read class folders: `<split>/<class>/…`, `<class>/…`, or just files.

Hidden files and operating system files are skipped and counted.
"""

import collections
import dataclasses
import functools
import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import (
    bool_array,
    bytes_array,
    bytes_of,
    int_array,
    path_array,
    string_array,
    to_numpy,
)
from components.inputs.input_table import BlobColumn, ExcludedInput, InputTable
from components.inputs.listing import FileTable, LayoutInputs
from components.inputs.path_columns import folders_of, is_path, names_of, stems_of
from components.layouts.class_tree import (
    OBEY,
    Parts,
    Role,
    check_classes,
    read_obeyed,
    read_tree,
    same_stems,
)
from components.layouts.file_kinds import kind_of_bytes, kind_of_name
from components.layouts.junk import is_clutter
from components.layouts.mask_names import refuse_masks_among_images
from components.layouts.meaningful import refuse_foreign_files
from components.layouts.name_patterns import (
    LABEL,
    SPLIT,
    features_of_groups,
    groups_of_pattern,
    match_names,
    splits_of_groups,
    warn_of_labels_in_names,
)
from components.layouts.registry import Detection, Layout, register
from components.layouts.table_files import is_document
from trainer_utils.core.errors import InputError
from trainer_utils.format import split_of_name
from trainer_utils.format.split_words import SPLIT_WORD_PATTERN
from trainer_utils.storage import display_path, is_remote, join, list_folder
from trainer_utils.storage.paths import decode_path, encode_path

_MASK_MODES = ("1", "L", "P", "I", "I;16")  # Pillow's modes with one channel
_MAX_PAIRS = 4  # images that are compared with their possible masks
_MAX_STEMS, _FEW_STEMS = 200_000, 20  # names to compare: in total, but at least 20 per class
_MAX_FOLDERS = 20  # folders without classes, whose files are compared
_PLAIN_LISTS, _MAX_LISTS, _LINE_BYTES = (".txt", ".lst"), 10, 4096


def read(inputs: LayoutInputs) -> InputTable:
    """Take splits and classes from folder names, and splits from file names.

    With `layout="folder"`, the top folders are classes or splits in any case. With a group `label`
    in `name_pattern`, folders are not classes.

    Raises:
        InputError: the layout is not named, and the tree does not look like classes. Or files of
            another kind are among the inputs.
    """
    groups = groups_of_pattern(inputs.name_pattern or "")
    # The user says what folders are: classes, or nothing if names have the labels.
    is_obeyed = inputs.layout == "folder" or LABEL in groups
    if inputs.layout != "folder":
        _refuse_plain_list(inputs)
    refuse_foreign_files(inputs)
    tree = _Tree.of(inputs)
    roles = _roles_of_folders(inputs, tree, is_obeyed=is_obeyed)
    if LABEL in groups:
        roles = [Role(role.split, None) for role in roles]
    _warn_of_empty_classes(inputs, dict(zip(tree.folders, roles, strict=True)))
    labels = _labels_of_files(inputs, tree, roles)
    splits = tree.of_files(string_array(role.split for role in roles))
    is_readable = to_numpy(pc.is_null(tree.files.table.column("code")))
    named = match_names(inputs, tree.paths, is_readable) if groups else {}
    if LABEL in named:
        labels = path_array(named.pop(LABEL))
    if SPLIT in named:
        splits = splits_of_groups(inputs, named.pop(SPLIT), is_readable)
    elif inputs.layout != "folder" and splits.null_count == len(splits):
        splits = _splits_of_file_names(inputs, tree.paths)
    is_list = is_path(tree.paths, inputs.label_list or "")
    is_text = inputs.media == "text"
    reasons = _reasons_to_exclude(tree, roles, labels, is_obeyed=is_obeyed, is_text=is_text)
    excluded = [
        ExcludedInput(decode_path(tree.paths[place].as_py()), splits[place].as_py(), *reason)
        for place, reason in reasons.items()
        if not is_list[place]
    ]
    is_taken = ~is_list
    is_taken[[*reasons]] = False
    taken = bool_array(is_taken)
    has_labels = labels.null_count < len(labels)
    labels, paths = pc.filter(labels, taken), pc.filter(tree.paths, taken)
    if not is_obeyed and inputs.media == "image":
        refuse_masks_among_images(inputs.base, inputs.root, paths)
        if has_labels:
            _refuse_pairs(inputs, paths, labels, are_classes=True)
        elif 1 < len(pc.unique(folders := folders_of(paths))) <= _MAX_FOLDERS:
            _refuse_pairs(inputs, paths, folders, are_classes=False)
    if inputs.layout == "folder" and has_labels and LABEL not in groups:
        _warn_of_single_class(inputs, labels)
    if not has_labels and not groups:
        warn_of_labels_in_names(paths, pc.filter(splits, taken))
    return InputTable.of_files(
        paths,
        pc.filter(tree.files.table.column("size"), taken),
        pc.filter(splits, taken),
        excluded,
        blob=BlobColumn(inputs.media, inputs.media),
        labels=labels if has_labels else None,
        features=features_of_groups(named, paths, is_taken),
    )


@dataclasses.dataclass(frozen=True)
class _Tree:
    """The files of a tree, and the folder of each."""

    files: FileTable
    folders: list[Parts]  # the names on the way from the root to each folder
    folder_of: npt.NDArray[np.int64]  # `(files,)`, the index of each file's folder

    @classmethod
    def of(cls, inputs: LayoutInputs) -> "_Tree":
        files = inputs.files.below(inputs.root)
        folders = files.folders()
        names = map(decode_path, bytes_of(folders.dictionary))
        parts = [() if name == inputs.root else inputs.parts_of(name) for name in names]
        return cls(files, parts, to_numpy(folders.indices))

    @property
    def paths(self) -> pa.Array:
        """The path of each file."""
        return self.files.paths

    def of_files(self, of_folders: pa.Array) -> pa.Array:
        """Return the value of each file's folder."""
        return pc.take(of_folders, int_array(self.folder_of))

    def mask(self, of_folders: Iterable[bool]) -> npt.NDArray[np.bool_]:
        """Return whether a condition holds for each file's folder, `(files,) bool`."""
        mask: npt.NDArray[np.bool_] = np.array([*of_folders], np.bool_)[self.folder_of]
        return mask


def _roles_of_folders(inputs: LayoutInputs, tree: _Tree, *, is_obeyed: bool) -> list[Role]:
    """Return the split and the class of each folder."""
    if is_obeyed:
        obeyed = read_obeyed(tree.folders, base=inputs.base)
        if inputs.split is None:
            return obeyed
        # The pattern gives the split, so the top folders are classes.
        return [Role(inputs.split, folder[0] if folder else None) for folder in tree.folders]
    is_file = ~to_numpy(tree.files.table.column("is_folder"))
    seen = [tree.folders[place] for place in np.unique(tree.folder_of[is_file]).tolist()]
    base = join(inputs.base, inputs.root) if inputs.root else inputs.base
    roles = read_tree(seen, base=base, named=inputs.split)
    check_classes(roles, base=base, named=inputs.split)
    return [roles.get(folder, Role(None, None)) for folder in tree.folders]


def _labels_of_files(inputs: LayoutInputs, tree: _Tree, roles: Sequence[Role]) -> pa.Array:
    """Return the class of each file: that of its folder, or of its line in `label_list`."""
    labels = tree.of_files(path_array(role.label for role in roles))
    is_flat = tree.mask(role.label is None for role in roles)
    listed_paths, listed_labels = _listed_labels(inputs, pc.filter(tree.paths, bool_array(is_flat)))
    if not listed_paths:
        return labels
    lines = pc.index_in(tree.paths, value_set=bytes_array(listed_paths))
    return pc.coalesce(pc.take(bytes_array(listed_labels), lines), labels)


def _reasons_to_exclude(
    tree: _Tree, roles: Sequence[Role], labels: pa.Array, *, is_obeyed: bool, is_text: bool
) -> dict[int, tuple[str | None, str]]:
    """Return the reject code and the detail of each file that cannot be taken, by its index.

    Files without a code are skipped: a `README` among texts.
    """
    table = tree.files.table
    is_bad = to_numpy(pc.is_valid(table.column("code")))
    has_splits, has_labels = any(role.split for role in roles), labels.null_count < len(labels)
    lacks_split = tree.mask(has_splits and role.split is None for role in roles)
    # A split without class folders, next to splits with class folders, is unlabelled.
    unlabelled = _unlabelled_splits(roles) if has_labels and not is_obeyed else set()
    lacks_label = to_numpy(pc.is_null(labels)) & has_labels
    lacks_label &= ~tree.mask(role.split in unlabelled for role in roles)
    reasons: dict[int, tuple[str | None, str]] = {}
    for place in np.flatnonzero(is_bad | lacks_split | lacks_label).tolist():
        if is_bad[place]:
            code, detail = (table.column(name)[place].as_py() for name in ("code", "detail"))
            reasons[place] = code, decode_path(detail)
        elif is_text and is_document(decode_path(tree.paths[place].as_py())):
            reasons[place] = None, "a document"
        elif lacks_split[place]:
            reasons[place] = "NO_SPLIT", "next to the split folders"
        else:
            reasons[place] = "NO_LABEL", "next to the class folders"
    return reasons


def _splits_of_file_names(inputs: LayoutInputs, paths: pa.Array) -> pa.Array:
    """Return the split in each file's name. Raise an InputError if only some names have one."""
    names = names_of(paths)
    may_name_split = pc.match_substring_regex(names, pattern=SPLIT_WORD_PATTERN)
    places = np.flatnonzero(to_numpy(may_name_split))
    split_of_place = {
        place: split_of_name(decode_path(names[place].as_py())) for place in places.tolist()
    }
    named = {place: split for place, split in split_of_place.items() if split is not None}
    if not named:
        return string_array([inputs.split] * len(paths))
    if len(named) < len(paths):
        first = next(iter(named))
        other = next(place for place in range(len(paths)) if place not in named)
        shown, strange = (display_path(decode_path(paths[n].as_py())) for n in (first, other))
        raise InputError(
            f"input_base {inputs.base!r}: expected the name of a split in every file's name or in "
            f"none, got {shown!r} ({named[first]}) and {strange!r} (none), {len(named)} of "
            f"{len(paths)} with one. Rename them. If these words are not splits: "
            f"{how_to_set(layout='folder')}.",
            path=inputs.base,
        )
    return string_array(named[place] for place in range(len(paths)))


def _warn_of_empty_classes(inputs: LayoutInputs, roles: Mapping[Parts, Role]) -> None:
    """Warn of folders without files next to class folders, since they become no class."""
    if is_remote(inputs.base):  # a bucket has no empty folders
        return
    above: dict[Parts, set[str]] = collections.defaultdict(set)
    for parts, role in roles.items():
        if role.label is not None:
            above[parts[: parts.index(role.label)]].add(role.label)
    for parts, labels in above.items():
        place = inputs.base
        for part in (inputs.root, *parts):
            place = join(place, part) if part else place
        try:
            names = {entry.name for entry in list_folder(place) if entry.is_folder}
        except FileNotFoundError:  # deleted since the files were listed
            continue
        for name in sorted(names - labels)[:_MAX_LISTS]:
            if not is_clutter([name]):
                logging.warning(
                    "the folder %r has no files to read and does not become a class",
                    display_path(join(place, name)),
                )


def _warn_of_single_class(inputs: LayoutInputs, labels: pa.Array) -> None:
    """Warn if all files have one label: the folder may contain the class folders."""
    classes = pc.unique(labels)
    if len(classes) == 1 and inputs.split is None:
        name = decode_path(classes[0].as_py())
        logging.warning(
            "all files have the label %r. If the folders in it are the classes, convert %r",
            *(display_path(name), display_path(join(join(inputs.base, inputs.root), name))),
        )


def _unlabelled_splits(roles: Sequence[Role]) -> set[str | None]:
    """Return the splits, other than train, without any class folder."""
    labelled = {role.split for role in roles if role.label is not None}
    unlabelled = {role.split for role in roles} - labelled - {None, "train"}
    for split in unlabelled:
        logging.warning("the split %r has no class folders: its examples have no label", split)
    return unlabelled


def _refuse_pairs(
    inputs: LayoutInputs, paths: pa.Array, labels: pa.Array, *, are_classes: bool
) -> None:
    """Raise an InputError if the files of two classes have the same names, like masks do.

    Args:
        inputs: the inputs.
        paths: the paths of the files.
        labels: the class of each file; without classes, its folder.
        are_classes: whether these are classes. Other folders may share names, as splits do, unless
            the files with these names are images and masks.
    """
    encoded = pc.dictionary_encode(labels)
    codes = to_numpy(encoded.indices, null=-1)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    most = max(_FEW_STEMS, _MAX_STEMS // max(1, len(encoded.dictionary)))
    spans = [(start, min(stop, start + most)) for start, stop in itertools.pairwise(starts)]
    compared = np.concatenate([order[start:stop] for start, stop in spans])
    all_stems = stems_of(pc.take(paths, int_array(compared)))
    if len(pc.unique(all_stems)) == len(all_stems):  # as a rule: the rest takes ten times as long
        return
    stems: dict[str, list[str]] = {}
    files: dict[str, pa.Array] = {}
    names, first = [*map(decode_path, bytes_of(all_stems))], 0
    for number, (start, stop) in enumerate(spans):
        label = decode_path(encoded.dictionary[number].as_py())
        files[label] = pc.take(paths, int_array(order[start:stop]))
        stems[label] = names[first : first + stop - start]
        first += stop - start

    @functools.cache
    def image_of(label: str, stem: str) -> _Image | None:
        return _image(inputs, decode_path(files[label][stems[label].index(stem)].as_py()))

    def are_pairs(first: str, other: str, shared: Collection[str]) -> bool:
        """Return whether all files with shared names are an image and its mask."""
        compared = heapq.nsmallest(_MAX_PAIRS, shared)
        return all(_may_be_mask(image_of(first, stem), image_of(other, stem)) for stem in compared)

    pair = same_stems(stems, are_pairs=are_pairs, needs_pairs=not are_classes)
    if pair is None:
        return
    shared = {*stems[pair[0]]} & {*stems[pair[1]]}
    if _is_mask(image_of(pair[0], min(shared)), image_of(pair[1], min(shared))):
        pair = pair[1], pair[0]
    advice = ""
    if len(stems) == 2 and all(inputs.parts_of(name) in inputs.folders for name in pair):
        image_dir, label_dir = ("/".join(inputs.parts_of(name)) for name in pair)
        how = how_to_set(layout="segmentation", image_dir=image_dir, label_dir=label_dir)
        advice = f"For images with masks: {how}. "
    elif not are_classes:
        advice = (
            "To read masks, name the folders `images/train` and `masks/train`, for each split. To "
            f"leave one out: {how_to_set(ignore=[f'{pair[1]}/*'])}. "
        )
    raise InputError(
        f"input_base {inputs.base!r}: expected {'classes' if are_classes else 'folders'} with "
        f"different files, got {display_path(pair[0])!r} and {display_path(pair[1])!r} with files "
        f"of the same names, such as {min(shared)!r}. {advice}{OBEY}",
        path=inputs.base,
    )


class _Image(NamedTuple):
    """The properties of an image that its header has."""

    size: tuple[int, int]
    has_one_channel: bool
    format: str | None


def _image(inputs: LayoutInputs, path: str) -> _Image | None:
    """Read the header of an image; None if it is damaged, which is reported when it is read."""
    from PIL import Image

    try:
        with inputs.open(path) as stream, Image.open(stream) as image:
            return _Image(image.size, image.mode in _MASK_MODES, image.format)
    except OSError:
        return None


def _is_mask(first: _Image | None, other: _Image | None) -> bool:
    """Return whether the first of two images with one name is the mask: one channel, or no JPEG."""
    if first is None or other is None:
        return False
    if first.has_one_channel != other.has_one_channel:
        return first.has_one_channel
    return first.format != "JPEG" and other.format == "JPEG"


def _may_be_mask(first: _Image | None, other: _Image | None) -> bool:
    """Return whether two images have the same size, and one may be a label map of the other."""
    if first is None or other is None or first.size != other.size:
        return False
    return first.has_one_channel != other.has_one_channel or first.format != other.format


def _listed_labels(inputs: LayoutInputs, flat: pa.Array) -> tuple[list[bytes], list[bytes]]:
    """Return the files outside class folders, and their classes from the lines of `label_list`.

    `flat` has the paths of the files outside class folders.
    """
    if inputs.label_list is None:
        return [], []
    if inputs.label_list not in inputs.files:
        raise InputError(f"label_list {inputs.label_list!r}: expected a text file, found none")
    others = (path for path in bytes_of(flat) if path != encode_path(inputs.label_list))
    paths = [path for path in others if _is_medium(inputs, decode_path(path))]
    labels = [line.strip() for line in inputs.read_text(inputs.label_list).strip().split("\n")]
    if len(labels) != len(paths) or not all(labels):
        got = f"{len(labels)} lines, {labels.count('')} of them empty"
        raise InputError.at(
            inputs.label_list, expected=f"the classes of {len(paths)} files, one per line", got=got
        )
    return paths, [*map(encode_path, labels)]


def _is_medium(inputs: LayoutInputs, path: str) -> bool:
    """Return whether a file is of the media type, by its name or else by its first bytes."""
    kind = kind_of_name(path)
    if kind is not None or inputs.files[path].problem is not None:
        return kind in (None, inputs.media)
    return kind_of_bytes(inputs.head(path, _LINE_BYTES)) != "text"


def _refuse_plain_list(inputs: LayoutInputs) -> None:
    """Raise an InputError for a plain-text list of files, like ImageNet's, which is not read."""
    texts = (
        path
        for parts, path in inputs.paths_below_root(endings=_PLAIN_LISTS)
        if len(parts) == 1 and not is_clutter(parts) and inputs.files[path].problem is None
    )
    for path in itertools.islice(texts, _MAX_LISTS):
        head = inputs.head(path, _LINE_BYTES)
        words = head.decode("utf-8", "replace").split("\n", 1)[0].split()
        if len(words) < 2 or kind_of_name(words[0]) != inputs.media:
            continue
        end = "/" + words[0].removeprefix("./").strip("/")
        listed = next((path for path in inputs.files if f"/{path}".endswith(end)), None)
        if listed is not None:
            parts = inputs.parts_of(listed)
            others = sorted(inputs.folders - {parts[:-1], ()})
            keep = "Convert it to a CSV whose first row is filename,label."
            if others:
                line = f"{display_path('/'.join(parts))} {display_path(others[0][-1])}"
                keep = (
                    "To read its labels, write the path of each file and the name of a class "
                    f"folder, such as {line!r}; or list the files of all folders in a CSV whose "
                    "first row is filename,label."
                )
            raise InputError(
                f"{display_path(path)!r}: expected only folders, or a list in the form of a table, "
                f"got a plain-text list: {' '.join(words)!r} (line 1). {keep} To leave it out, so "
                "that labels come from folders alone: "
                f"{how_to_set(ignore=[path])}.",
                path=path,
            )


def detect(inputs: LayoutInputs) -> Detection:
    """Match everything that no other layout matches."""
    if inputs.root in inputs.files:
        return Detection.miss("a file, not a folder")
    return Detection.match("files in folders")


register(
    Layout(
        name="folder",
        kinds=("image", "audio", "text"),
        rank=100,
        tree="""\
train/cat/1.jpg
train/dog/2.jpg
eval/cat/3.jpg""",
        features="label",
        splits="the top folders, if all are named after splits",
        detect=detect,
        read=read,
    )
)
