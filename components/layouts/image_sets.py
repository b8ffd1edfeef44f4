"""What VOC's layouts share: images known by their names without extension, and sets of them.

    images = by_stem(inputs, "JPEGImages")
    sets = read_image_sets(inputs, ["ImageSets/Main", "ImageSets"], images)
    sets["2007_000032"]       # ImageSet(split='train', path='ImageSets/Main/train.txt', line=1)

Source: the VOC2012 development kit, section 4.
"""

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from components.common.entry import ExcludedInput
from components.common.layout_inputs import LayoutInputs
from components.example_gen.folder import is_clutter
from trainer_utils.format import InputError, canonical_split
from trainer_utils.storage import InputFile, display_path


class ImageSet(NamedTuple):
    """The split that an image belongs to, and the line that says so."""

    split: str
    path: str
    line: int

    @property
    def place(self) -> str:
        """The line, for messages."""
        return f"{display_path(self.path)} (line {self.line})"


def has_folders(inputs: LayoutInputs, *names: str) -> bool:
    """Whether there are files in each of these folders below the root."""
    return all(any(_is_in(parts, name) for parts in inputs.folders) for name in names)


def _is_in(parts: Sequence[str], folder: str) -> bool:
    """Whether a path, in parts, is that of a folder or of something in it."""
    wanted = tuple(folder.split("/"))
    return tuple(parts[: len(wanted)]) == wanted


def by_stem(
    inputs: LayoutInputs, folder: str, *, extension: str | None = None
) -> dict[str, InputFile]:
    """The files in a folder below the root, by path from there without extension.

    Args:
        extension: of those to take, such as `.xml`; None for all but hidden and system files.

    Raises:
        InputError: two files have one name.
    """
    files: dict[str, InputFile] = {}
    depth = folder.count("/") + 1
    for parts, file in inputs.below_root():
        if len(parts) <= depth or not _is_in(parts, folder) or is_clutter(parts):
            continue
        stem, suffix = posixpath.splitext("/".join(parts[depth:]))
        if extension is not None and suffix.lower() != extension:
            continue
        if stem in files:
            raise InputError(
                f"{folder} {stem!r}: expected one file of that name, got "
                f"{display_path(files[stem].path)} and {display_path(file.path)}"
            )
        files[stem] = file
    return files


def read_image_sets(
    inputs: LayoutInputs, folders: Sequence[str], images: Collection[str]
) -> dict[str, ImageSet]:
    """The set of each image, from the first of these folders that has `train.txt` or the like.

    Files that are called after no split, such as `trainval.txt` or `dog_train.txt`, are passed by.

    Args:
        folders: relative to the root.
        images: the names that there are; a name may end in blanks only if it is one of them.

    Raises:
        InputError: an image is named twice, or a set is no text.
    """
    for folder in folders:
        sets: dict[str, ImageSet] = {}
        for file, split in _set_files(inputs, folder):
            for line, name in _names(inputs, file, images):
                this = ImageSet(split, file.path, line)
                other = sets.setdefault(name, this)
                if other is not this:
                    raise InputError(
                        f"image {name!r}: expected it once in the image sets, "
                        f"got it in {other.place} and {this.place}"
                    )
        if sets:
            return sets
    return {}


def _set_files(inputs: LayoutInputs, folder: str) -> Iterator[tuple[InputFile, str]]:
    for parts, file in inputs.below_root():
        stem, extension = posixpath.splitext(parts[-1])
        split = canonical_split(stem)
        if "/".join(parts[:-1]) == folder and extension.lower() == ".txt" and split is not None:
            yield file, split


def _names(
    inputs: LayoutInputs, file: InputFile, images: Collection[str]
) -> Iterator[tuple[int, str]]:
    """Each line's number and name. Bytes that are not UTF-8 are those of files' names."""
    if file.problem is not None:
        raise InputError.at(file.path, expected="an image set", got=file.problem[1])
    data = inputs.read_bytes(file.path)
    if b"\0" in data:
        raise InputError.at(
            file.path,
            expected="an image's name a line in UTF-8",
            got="a zero",
            offset=data.index(0),
        )
    # Not splitlines(), which also splits at characters that a file's name may hold.
    for number, line in enumerate(data.decode("utf-8-sig", "surrogateescape").split("\n"), 1):
        whole = line.removesuffix("\r")
        name = whole if whole in images else whole.strip()
        if name:
            yield number, name


def listed_images(
    inputs: LayoutInputs,
    folder: str,
    images: Mapping[str, InputFile],
    sets: Mapping[str, ImageSet],
) -> tuple[list[tuple[str, str | None, InputFile]], list[ExcludedInput]]:
    """The images to take, as name, split and file, and the excluded ones."""
    taken, excluded = [], []
    for stem, file in images.items():
        split = inputs.split or (sets[stem].split if stem in sets else None)
        if sets and stem not in sets:
            excluded.append(ExcludedInput(file.path, split, None, "in no image set"))
        elif file.problem is not None:
            excluded.append(ExcludedInput(file.path, split, *file.problem))
        else:
            taken.append((stem, split, file))
    for stem, image_set in sets.items():
        if stem not in images:
            split = inputs.split or image_set.split
            excluded.append(
                ExcludedInput(stem, split, "FILE_NOT_FOUND", f"named in {image_set.place}")
            )
    for parts, file in inputs.below_root():
        if _is_in(parts, folder) and is_clutter(parts):
            excluded.append(ExcludedInput(file.path, inputs.split, None, "hidden or system file"))
    return taken, excluded
