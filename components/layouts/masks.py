"""Pair images and masks in separate folders by name: `images/1.jpg` and `masks/1.png`.

The folders may be in split folders (`train/images`, `train/masks`), contain split folders
(`images/train`, `masks/train`), or name the split (`train_images`, `train_masks`; `train`,
`train_masks`; `train`, `trainannot`). A mask may add a word to the image's name: `1_mask.png`.
"""

import collections
import posixpath
from collections.abc import Mapping
from typing import NamedTuple

from components.inputs.arrow_columns import bytes_of
from components.inputs.input_table import Blob, BlobColumn, Entry, ExcludedInput, InputTable
from components.inputs.listing import LayoutInputs
from components.layouts.mask_names import MASK_SUFFIX
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.format import canonical_split, splits_of_paths
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.format.split_words import words_of
from trainer_utils.storage import InputFile, display_path
from trainer_utils.storage.paths import decode_path

_IMAGES = frozenset(
    (
        *("image", "images", "img", "imgs", "photo", "photos", "picture", "pictures", "rgb"),
        "jpegimages",
    )
)
_MASKS = frozenset(
    (
        *("mask", "masks", "label", "labels", "labelmap", "labelmaps", "annotation", "annotations"),
        *("annot", "annots", "segmentation", "segmentations", "segmentationclass", "seg", "gt"),
        *("groundtruth", "target", "targets"),
    )
)
_MIN_SHARED = 0.5  # minimum fraction of images with a mask for two folders to be a pair


class _Pair(NamedTuple):
    images: Mapping[str, InputFile]  # by stem
    masks: Mapping[str, InputFile]
    image_folder: str
    mask_folder: str


def detect(inputs: LayoutInputs) -> Detection:
    """Look for folders of images. Each must have a folder of masks with the same names."""
    pairs, others = _find_pairs(inputs)
    if not pairs:
        return Detection.miss("no folders such as images/ and masks/ with images in both")
    if others:
        return Detection.miss(f"there are images in {others[0]}/ too")
    for pair in pairs:
        shared = sum(stem in pair.masks for stem in pair.images)
        if shared < _MIN_SHARED * len(pair.images):
            return Detection.miss(
                f"the names in {pair.mask_folder}/ differ from {pair.image_folder}/"
            )
    return Detection.match(f"{pairs[0].image_folder}/ and {pairs[0].mask_folder}/")


def read(inputs: LayoutInputs) -> InputTable:
    """Pair images and masks by name.

    Raises:
        InputError: two files of a folder have the same name, or only some folders name a split.
    """
    pairs, _ = _find_pairs(inputs)
    names = {pair.image_folder: "/".join(inputs.parts_of(pair.image_folder)) for pair in pairs}
    split_of = splits_of_paths(names.values(), unit="folder")
    entries, excluded = [], []
    for pair in pairs:
        split = inputs.split or split_of[names[pair.image_folder]]
        for stem, file in pair.images.items():
            mask = pair.masks.get(stem)
            problem = file.problem or (mask and mask.problem)
            if mask is None:
                detail = f"no label map {pair.mask_folder}/{display_path(stem)}.*"
                excluded.append(ExcludedInput(file.path, split, "NO_LABEL_MAP", detail))
            elif problem:
                excluded.append(ExcludedInput(file.path, split, *problem))
            else:
                blobs = (Blob(file.path, file.size), Blob(mask.path, mask.size))
                entries.append(Entry(file.path, split, blobs))
        for stem, mask in pair.masks.items():
            if stem not in pair.images:
                detail = f"a label map without its image in {pair.image_folder}"
                excluded.append(ExcludedInput(mask.path, split, "FILE_NOT_FOUND", detail))
    columns = (BlobColumn("image", "image"), BlobColumn("label", "label_map"))
    return InputTable.of(entries, excluded, blobs=columns)


def _find_pairs(inputs: LayoutInputs) -> tuple[list[_Pair], list[str]]:
    """Return the pairs of folders, and the image folders without a pair."""
    images = inputs.files.ending(EXTENSIONS["image"]).below(inputs.root)
    names = [*map(decode_path, bytes_of(images.folders().dictionary))]
    roles = {n: _role(inputs.parts_of(n)) if n != inputs.root else None for n in names}
    if any(role and role[0] == "masks" for role in roles.values()):
        # Next to train_masks, a folder train has the images.
        roles = {n: r or _role_of_split(inputs.parts_of(n)) for n, r in roles.items()}
    if not all(roles.values()):  # skip the slow part, which reads the names of all files
        return [], [name for name, role in roles.items() if role is None]
    files: dict[str, list[InputFile]] = collections.defaultdict(list)
    for file in images.rows():
        files[posixpath.dirname(file.path)].append(file)
    by_key: dict[tuple[str, ...], dict[str, str]] = collections.defaultdict(dict)
    others = []
    for folder, folder_role in roles.items():
        if (
            folder_role is None
            or by_key[folder_role[1]].setdefault(folder_role[0], folder) != folder
        ):
            others.append(folder)
    pairs = []
    for sides in by_key.values():
        if len(sides) < 2:
            others += sides.values()
            continue
        stems = _by_stem(files[sides["images"]])
        masks = _by_stem(files[sides["masks"]], known=stems)
        pairs.append(_Pair(stems, masks, sides["images"], sides["masks"]))
    return pairs, others


def _role(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Return `images` or `masks` for a folder, and the key that both folders of a pair share."""
    for place, part in enumerate(parts):
        words = words_of(part)
        words = [part for word in words for part in _without_mask_word(word)]
        rest = tuple(word for word in words if canonical_split(word) is not None)
        kinds = {word for word in words if canonical_split(word) is None}
        for side, names in (("images", _IMAGES), ("masks", _MASKS)):
            if kinds and kinds <= names:
                return side, (*parts[:place], *rest, *parts[place + 1 :])
    return None


def _without_mask_word(word: str) -> tuple[str, ...]:
    """Return `("train", "annot")` for `trainannot`, and any other word alone."""
    for mask in _MASKS:
        if word.endswith(mask) and canonical_split(word[: -len(mask)]) is not None:
            return word[: -len(mask)], mask
    return (word,)


def _role_of_split(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Return the role of images and its key for a folder whose last name is just a split."""
    words = tuple(words_of(parts[-1]))
    if words and all(canonical_split(word) is not None for word in words):
        return "images", (*parts[:-1], *words)
    return None


def _by_stem(
    files: list[InputFile], *, known: Mapping[str, InputFile] | None = None
) -> dict[str, InputFile]:
    """Return files by stem; remove a word such as `_mask` if `known` then has the stem."""
    by_stem: dict[str, InputFile] = {}
    for file in files:
        stem = posixpath.splitext(posixpath.basename(file.path))[0]
        if known is not None and stem not in known and MASK_SUFFIX.sub("", stem) in known:
            stem = MASK_SUFFIX.sub("", stem)
        if (other := by_stem.setdefault(stem, file)) is not file:
            got = f"{display_path(other.path)!r} and {display_path(file.path)!r}"
            raise InputError(f"{stem!r}: expected one file with that name, got {got}. Rename one.")
    return by_stem


register(
    Layout(
        name="masks",
        kinds=("image",),
        rank=48,
        tree="""\
train/images/1.jpg
train/masks/1.png
val/images/2.jpg
val/masks/2.png""",
        features="label: the map of class ids",
        splits="words in the names of the folders",
        refused="images in other folders; masks in colours",
        detect=detect,
        read=read,
        keeps_sizes=True,
    )
)
