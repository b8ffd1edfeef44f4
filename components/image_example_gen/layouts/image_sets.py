"""What VOC's layouts share: images known by their names without extension, and sets of them.

sets = read_image_sets(inputs, ["ImageSets/Main", "ImageSets"])
sets["2007_000032"]       # ImageSet(split='train', path='ImageSets/Main/train.txt')

Source: the VOC2012 development kit, section 4.
"""

import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from components.common.files import InputFile
from components.common.layout_inputs import LayoutInputs
from components.common.listing import LeftOut
from trainer_utils.format import InputError, canonical_split

__all__ = ["ImageSet", "by_stem", "has_folders", "listed_images", "read_image_sets"]


class ImageSet(NamedTuple):
    """The split that a set is, and its file."""

    split: str
    path: str


def has_folders(inputs: LayoutInputs, *names: str) -> bool:
    """Whether there are files in each of these folders below the root."""
    return set(names) <= {parts[0] for parts, _ in inputs.below_root() if len(parts) > 1}


def by_stem(inputs: LayoutInputs, folder: str) -> dict[str, InputFile]:
    """The files right in a folder below the root, by name without extension.

    Raises:
        InputError: two files have one name.
    """
    files: dict[str, InputFile] = {}
    for parts, file in inputs.below_root():
        if posixpath.join(*parts[:-1], "") != f"{folder}/" or parts[-1].startswith("."):
            continue
        stem = posixpath.splitext(parts[-1])[0]
        if stem in files:
            raise InputError(
                f"image {stem!r}: expected one file, got {files[stem].path} and {file.path}"
            )
        files[stem] = file
    return files


def read_image_sets(inputs: LayoutInputs, folders: Sequence[str]) -> dict[str, ImageSet]:
    """The set of each image, from the first of these folders that has `train.txt` or the like.

    Files that are called after no split, such as `trainval.txt` or `dog_train.txt`, are passed by.

    Raises:
        InputError: an image is in two sets.
    """
    sets: dict[str, ImageSet] = {}
    for folder in folders:
        for parts, file in inputs.below_root():
            stem, extension = posixpath.splitext(parts[-1])
            split = canonical_split(stem)
            if "/".join(parts[:-1]) != folder or extension != ".txt" or split is None:
                continue
            for line in inputs.read_text(file.path).splitlines():
                name = line.strip()
                known = sets.setdefault(name, ImageSet(split, file.path)) if name else None
                if known is not None and known.split != split:
                    raise InputError(
                        f"image {name!r}: expected it in one set, got it in {known.path} "
                        f"and {file.path}"
                    )
        if sets:
            break
    return sets


def listed_images(
    inputs: LayoutInputs, images: dict[str, InputFile], sets: dict[str, ImageSet]
) -> tuple[list[tuple[str, str | None, InputFile]], list[LeftOut]]:
    """The images to take, as name, split and file, and those that are left out."""
    taken, left_out = [], []
    for stem, file in images.items():
        split = sets[stem].split if stem in sets else None
        if inputs.split is not None:
            split = inputs.split
        if sets and stem not in sets:
            left_out.append(LeftOut(file.path, split, None, "in no image set"))
        elif file.problem is not None:
            left_out.append(LeftOut(file.path, split, *file.problem))
        else:
            taken.append((stem, split, file))
    for stem, image_set in sets.items():
        if stem not in images:
            detail = f"named in {image_set.path}"
            left_out.append(LeftOut(stem, image_set.split, "FILE_NOT_FOUND", detail))
    return taken, left_out
