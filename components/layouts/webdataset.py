"""Read tar archives in WebDataset's format: all files with the same key are one example.

    key.jpg  key.cls  key.json  key.txt     # image, label, columns, text
    key.mask.png  key.flac  key.npy         # named by suffix: an image, audio, bytes

`cls` becomes `label` (ids or words), and `txt` becomes `text`. The fields of `json` keep their
names, with nested names joined by dots. A field with the name of another file's feature becomes
`json.label`, for example. The image with a plain suffix is `image`. If a key has several, the first
in the order of `FORMATS` is taken. Every other file that all keys have is a feature, named by its
suffix. A warning counts the remaining files. Keys are per archive, since writers restart them.

In an archive of archives, such as ImageNet's training images, each inner archive is a class, named
after the archive. Only headers and small files are read here; images are read later.

`tarfile` parses the headers, but is not trusted. It ignores a truncated archive, data after the
end, and a damaged header in the middle, which it treats as the end. These are errors here. A header
may also claim any size: one that points backwards would cause an infinite loop, and a name of a
terabyte would be read into memory.

Source: the file format of github.com/webdataset/webdataset, `tariterators.base_plus_ext`: a
key ends at the first dot after the last slash. POSIX.1-2001 pax, `tarfile` of Python 3.10.
"""

import collections
import dataclasses
import itertools
import posixpath
import re
import shlex
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.input_table import (
    Blob,
    BlobColumn,
    Column,
    Entry,
    ExcludedInput,
    InputTable,
    Value,
)
from components.inputs.listing import LayoutInputs, select_readable
from components.layouts.archives import COMPRESSED_ARCHIVES, tar_files
from components.layouts.junk import is_clutter
from components.layouts.list_table import typed_values
from components.layouts.registry import Detection, Layout, register
from components.media.options import DESCRIPTIONS
from components.tables.column_types import check_columns
from components.tables.json_rows import columns_of_objects, parse_object
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.core.json_text import Json
from trainer_utils.format.media_formats import COMPRESSIONS, EXTENSIONS, FORMATS
from trainer_utils.format.split_words import splits_of_paths
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage import display_path, join

_MAX_SIDECAR_BYTES = 16 << 20
_META = re.compile(r"__[^/]*__($|/)")  # WebDataset's metadata, which its readers skip
_COLUMN_OF = {"cls": "label", "txt": "text"}
_SIDECARS = (*_COLUMN_OF, "json")
# The plain suffixes of images, in order of preference.
_IMAGES = {
    ending[1:]: number
    for number, ending in enumerate(e for f in FORMATS if f.kind == "image" for e in f.extensions)
}
_KINDS = ("int", "float", "string", "label", "ignore")
_BLOCK_BYTES = 512  # block size of a tar, see `tarfile.BLOCKSIZE`
_MAX_HEADER_BYTES = 1 << 20  # paths have at most 4 KiB, but pax headers may have attributes
_CHUNK_BYTES = 1 << 20
# Errors that tarfile raises for hostile headers.
_ERRORS = (tarfile.TarError, OSError, ValueError, ArithmeticError, LookupError, RecursionError)


@dataclasses.dataclass
class _Sample:
    """The files with the same key."""

    archive: str
    split: str | None
    key: str
    # Name and place of each file that is read later, by suffix.
    files: dict[str, tuple[str, Blob]] = dataclasses.field(default_factory=dict)
    label: str | None = None  # the name of the inner archive, if the files are in one
    # Contents of the other files, by suffix; None for files that cannot be read.
    sidecars: dict[str, Any] = dataclasses.field(default_factory=dict)
    problem: str | None = None  # the reason why a sidecar cannot be read
    is_counted: bool = False  # whether its image is already counted as excluded, such as a link

    @property
    def image(self) -> str | None:
        """Suffix of the file that becomes the feature `image`."""
        return min(self.files.keys() & _IMAGES.keys(), key=_IMAGES.__getitem__, default=None)

    @property
    def others(self) -> set[str]:
        """Suffixes of the other files."""
        return {*self.files} - {self.image}

    @property
    def place(self) -> str:
        """Name of the key in messages."""
        return f"{self.archive}/{self.key}"


def read(inputs: LayoutInputs) -> InputTable:
    """Read the headers and sidecars of every archive.

    A class, text or JSON file that cannot be read rejects only its sample.

    Raises:
        InputError: an archive is compressed, truncated or malformed, has a duplicate file, or some
            keys have more images than others.
        ConfigError: `columns` names a column that does not exist.
    """
    archives, excluded = select_readable(inputs, tar_files(inputs), "a tar archive")
    samples: list[_Sample] = []
    for path, split in _splits(inputs, archives).items():
        samples += _read_archive(inputs, path, split, excluded).values()
    ignored = {name for name, kind in inputs.columns.items() if kind == "ignore"}
    ignored &= {ending for sample in samples for ending in sample.files}
    for sample in samples:
        sample.files = {e: file for e, file in sample.files.items() if e not in ignored}
    has_images = any(sample.image for sample in samples)
    if inputs.layout == "auto":
        _refuse_folders(inputs, samples)
    kept, left = _kept_samples(samples, has_images=has_images)
    excluded += left
    endings = _common_endings(kept)
    sidecars = [
        ({} if sample.label is None else {"cls": sample.label}) | sample.sidecars for sample in kept
    ]
    own_columns = {
        _COLUMN_OF[kind] for sample in sidecars for kind in sample.keys() & _COLUMN_OF.keys()
    }
    names = _feature_names(endings, {*own_columns, *(["image"] if has_images else [])})
    columns, rows = _make_columns(
        sidecars,
        kinds={n: kind for n, kind in inputs.columns.items() if n not in ignored},
        own=own_columns,
        taken={*names.values()},
        place=lambda number: kept[number].place,
    )
    blobs = [BlobColumn(names[e], _kind_of(e) or "bytes") for e in endings]
    if has_images or not endings:
        blobs.insert(0, BlobColumn("image", "image"))
    entries = (_entry(sample, endings, row) for sample, row in zip(kept, rows, strict=True))
    return InputTable.of(entries, excluded, columns, tuple(blobs))


def _refuse_folders(inputs: LayoutInputs, samples: Sequence[_Sample]) -> None:
    """Raise an InputError if an archive has nothing but images in folders, which may be classes."""
    folders: dict[str, set[str]] = collections.defaultdict(set)
    for sample in samples:
        if sample.label is not None or sample.sidecars or len(sample.files) > 1:
            return
        folders[sample.archive].add(posixpath.dirname(sample.key))
    for archive, names in folders.items():
        if len(names) < 2:
            continue
        whole = display_path(join(inputs.base, archive))
        folder = whole.removesuffix(".tar")
        commands = (["mkdir", folder], ["tar", "-xf", whole, "-C", folder])
        unpack = " && ".join(map(shlex.join, commands))
        shown = ", ".join(map(repr, sorted(names)[:3]))
        raise InputError(
            f"{archive!r}: expected the files of each key, such as 1.jpg and 1.cls, got images "
            f"alone, in {len(names):,} folders, such as {shown}. If these are classes or splits, "
            f"unpack the archive, and pass the new folder: {unpack}. If the images have no class: "
            f"{how_to_set(layout='tar')}.",
            path=archive,
        )


def _kept_samples(
    samples: Sequence[_Sample], *, has_images: bool
) -> tuple[list[_Sample], list[ExcludedInput]]:
    """Return the samples that become examples, and the excluded samples."""
    kept, left = list[_Sample](), list[ExcludedInput]()
    for sample in samples:
        is_usable = bool(sample.image) if has_images else any(map(_kind_of, sample.files))
        if not is_usable and not sample.is_counted:
            detail = "a key without an image"
            left.append(ExcludedInput(sample.place, sample.split, "NO_IMAGE", detail))
        elif is_usable and sample.problem is not None:
            name, _ = sample.files[sample.image or min(sample.files)]
            name = f"{sample.archive}/{name}"
            left.append(ExcludedInput(name, sample.split, "BAD_ANNOTATION", sample.problem))
        elif is_usable:
            kept.append(sample)
    return kept, left


def _entry(sample: _Sample, endings: Sequence[str], row: tuple[Value, ...]) -> Entry:
    taken = endings if sample.image is None else [sample.image, *endings]
    files = [sample.files[ending] for ending in taken]
    name = f"{sample.archive}/{files[0][0]}"
    return Entry(name, sample.split, tuple(blob for _, blob in files), row)


def _kind_of(ending: str) -> str | None:
    """Return `image` or `audio` by the last part of a suffix, or None for any other file."""
    last = f".{ending.rpartition('.')[2]}"
    return next((kind for kind, known in EXTENSIONS.items() if last in known), None)


def _common_endings(samples: Sequence[_Sample]) -> list[str]:
    """Return the suffixes of the files, in addition to the main image, that all samples have.

    Raises:
        InputError: some samples have an image that others lack.
    """
    counts = collections.Counter(ending for sample in samples for ending in sample.others)
    for ending, count in sorted(counts.items()):
        if count == len(samples):
            continue
        first = next(sample for sample in samples if ending in sample.others)
        if ending in _IMAGES:
            other = next(sample for sample in samples if ending not in sample.others)
            raise InputError(
                f"{first.archive!r}: {first.key!r} has an image {ending!r} next to its "
                f"{first.image!r}, but {other.place!r} has none. Pack all keys alike, or leave "
                f"these images out: {how_to_set(columns={ending: 'ignore'})}.",
                path=first.archive,
            )
        logging.warning(
            "%d files %r in archives are left out, since %d of %d keys have none: the first is of "
            "%r",
            *(count, f".{ending}", len(samples) - count, len(samples), first.place),
        )
    return sorted(ending for ending, count in counts.items() if count == len(samples))


def _feature_names(endings: Sequence[str], others: Collection[str]) -> dict[str, str]:
    """Return the feature name of each suffix: the suffix, or `file.<suffix>` if it is taken."""
    taken = {*others, "filename", *itertools.chain.from_iterable(DESCRIPTIONS.values())}
    return {ending: f"file.{ending}" if ending in taken else ending for ending in endings}


def _splits(inputs: LayoutInputs, archives: Sequence[str]) -> dict[str, str | None]:
    """Return the split of each archive, by a word of its path, or None."""
    if inputs.split is not None:
        return dict.fromkeys(archives, inputs.split)
    by_place = {"/".join(inputs.parts_of(path)): path for path in archives}
    splits = splits_of_paths(by_place, unit="archive")
    return {by_place[place]: split for place, split in splits.items()}


def _read_archive(
    inputs: LayoutInputs,
    path: str,
    split: str | None,
    excluded: list[ExcludedInput],
) -> dict[str, _Sample]:
    """Return the files of each key, and add to `excluded`."""
    samples: dict[str, _Sample] = {}
    with inputs.open(path) as stream:
        for member, label in _members(stream, path, inputs.files[path].size):
            name = _name(member)
            folder, last = posixpath.split(name)
            stem, _, extension = last.partition(".")
            key, kind, place = posixpath.join(folder, stem), extension.lower(), f"{path}/{name}"
            is_image = f".{kind}" in EXTENSIONS["image"]
            if (exclusion := _exclusion(member, name)) is not None:
                excluded.append(ExcludedInput(place, split, *exclusion))
                if exclusion[0] is not None and ".." not in name.split("/"):
                    sample = samples.setdefault(key, _Sample(path, split, key))
                    sample.is_counted |= is_image
                continue
            sample = samples.setdefault(key, _Sample(path, split, key))
            if kind in sample.sidecars or kind in sample.files:
                rule, got = f"one {kind} per key", f"another, {place!r}"
                raise InputError.at(path, expected=rule, got=got, offset=member.offset)
            if kind in _SIDECARS:
                said, problem = _read_sidecar(inputs, stream, kind, place, member)
                sample.sidecars[kind], sample.problem = said, sample.problem or problem
            else:
                blob = Blob(path, member.size, offset=member.offset_data)
                sample.files[kind] = (name, blob)
                sample.label = label
    return samples


def _members(
    stream: BinaryIO, path: str, size: int
) -> Iterator[tuple[tarfile.TarInfo, str | None]]:
    """Yield the files of an archive; for files of an inner archive, also its name as the class."""
    is_compressed = stream.read(8).startswith(tuple(COMPRESSIONS))
    if is_compressed or path.lower().endswith(COMPRESSED_ARCHIVES):
        raise InputError.at(
            path,
            expected="an uncompressed archive",
            got="a compressed one, whose members cannot be read in any order",
            advice="Unpack it, for example with gunzip.",
        )
    for member in read_headers(stream, path=path, size=size):
        stem, _, extension = posixpath.basename(member.name).partition(".")
        if member.isdir():
            continue
        if extension.lower() != "tar" or _exclusion(member, _name(member)) is not None:
            yield member, None
            continue
        label, start = display_path(stem), member.offset_data
        place, end = f"{path}/{member.name}", start + member.size
        for inner in read_headers(stream, path=place, start=start, size=end):
            inner.name = f"{label}/{inner.name.lstrip('/')}"
            if not inner.isdir():
                yield inner, label


def _name(member: tarfile.TarInfo) -> str:
    name: str = member.name.lstrip("/")
    return name if ".." in name.split("/") else posixpath.normpath(name)


def _exclusion(member: tarfile.TarInfo, name: str) -> tuple[str | None, str] | None:
    """Return the code (None: skipped) and detail for a member that is in no sample, or None."""
    parts = name.split("/")
    if ".." in parts:
        return "NOT_A_FILE", "a path upwards"
    if is_clutter(parts) or _META.match(name):
        return None, "hidden or system file"
    if "." not in parts[-1]:
        return None, "no key, since there is no extension"
    if member.issparse():
        return "SPARSE_MEMBER", "expected its bytes in one piece, got holes. Pack it without -S"
    return None if member.isreg() else ("NOT_A_FILE", "a link or a device")


def _read_sidecar(
    inputs: LayoutInputs, stream: BinaryIO, kind: str, place: str, member: tarfile.TarInfo
) -> tuple[Json, str | None]:
    """Return the content of a sidecar, and the problem if it cannot be read.

    The content is a string (None for an empty class), or the fields of a JSON object.
    """
    if member.size > _MAX_SIDECAR_BYTES:
        rule = f"expected at most {_MAX_SIDECAR_BYTES} bytes, got {member.size}"
        return None, f"{place!r}: {rule}"
    stream.seek(member.offset_data)
    data = stream.read(member.size)
    inputs.contents[place] = extend_crc32c(0, data)
    try:
        text = data.decode("utf-8-sig")
        if kind != "json":
            return (text.strip() or None) if kind == "cls" else text, None
        return parse_object(text), None
    except (ValueError, RecursionError) as error:
        return None, f"{place!r}: expected {kind} in UTF-8: {error}"


def _make_columns(
    samples: Sequence[Mapping[str, Json]],
    *,
    kinds: Mapping[str, str],
    own: Collection[str],
    taken: Collection[str],
    place: Callable[[int], str],
) -> tuple[tuple[Column, ...], list[tuple[Value, ...]]]:
    """Return the columns, with types from the settings or all samples, and each sample's values.

    Args:
        samples: the sidecars of each sample.
        kinds: the kinds of columns, as set by the user.
        own: the columns that come from separate files.
        taken: other names that a JSON field cannot have.
        place: returns the place of the n-th sample, for messages.
    """
    rows = []
    for sample in samples:
        fields = sample.get("json", {}).items()
        row = {
            f"json.{name}" if name in own or name in taken else name: value
            for name, value in fields
        }
        rows.append(row | {_COLUMN_OF[kind]: sample[kind] for kind in _COLUMN_OF if kind in sample})
    check_columns(kinds, dict.fromkeys(name for row in rows for name in row), of="the archives")
    for name, asked in kinds.items():
        if asked not in _KINDS:
            raise ConfigError.of(f"columns[{name!r}]", asked, allowed=f"one of {', '.join(_KINDS)}")
    ignored = [name for name, kind in kinds.items() if kind == "ignore"]
    arrays, mixed = columns_of_objects(rows, place=place, ignored=ignored)
    columns, by_column = [], []
    for name, array in arrays.items():
        kind = kinds.get(name, "string" if name == "text" and "text" in own else None)
        are_texts = name in mixed or (name == "label" and name in own)
        if (typed := typed_values(name, [(array, are_texts)], kind=kind, place=place)) is not None:
            columns.append(typed[0])
            by_column.append(typed[1])
    return tuple(columns), list(zip(*by_column, strict=True)) if columns else [()] * len(rows)


# Headers of tar -----------------------------------------------------------------------------------


class _HeaderStream:
    """A stream that raises an error for reads larger than a header may be."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_HEADER_BYTES:
            claim = f"a header that claims {size} bytes, of at most {_MAX_HEADER_BYTES}"
            raise tarfile.ReadError(claim)
        return self._stream.read(size)


def read_headers(
    stream: BinaryIO, *, path: str, size: int, start: int = 0
) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an uncompressed archive. The caller may seek the stream in between.

    Args:
        stream: the stream.
        path: the path of the archive, for messages.
        size: the offset of the archive's end in the stream.
        start: the offset of the archive's first byte.

    Raises:
        InputError: the archive is truncated, damaged, or followed by data. The message has the
            offset.
    """
    stream.seek(start)
    if stream.read(_BLOCK_BYTES) == bytes(_BLOCK_BYTES):  # an empty, but complete archive
        _check_end(stream, path, start, size)
        return
    stream.seek(start)
    headers, position = cast(BinaryIO, _HeaderStream(stream)), start
    archive: Any = None
    while True:
        try:
            # A fixed encoding makes names independent of the machine's locale.
            archive = archive or tarfile.TarFile(
                fileobj=headers, encoding="utf-8", errors="surrogateescape"
            )
            member = archive.next()
        except _ERRORS as error:
            raise _bad_tar(path, f"{error}", position) from error
        if member is None:
            break
        archive.members = []  # tarfile would keep all of them in memory
        if archive.offset > size:
            raise _bad_tar(path, f"{member.name!r}, which ends at byte {archive.offset}", size)
        is_whole = member.isreg() and not member.issparse()
        past = is_whole and member.offset_data + member.size > archive.offset
        if member.size < 0 or past or archive.offset <= position:
            raise _bad_tar(path, f"{member.name!r} of {member.size} bytes", position)
        position = archive.offset
        yield member
    if archive.offset != position:  # newer versions of tarfile skip a bad member silently
        raise _bad_tar(path, "a damaged header", position)
    _check_end(stream, path, position, size)


def _check_end(stream: BinaryIO, path: str, end: int, size: int) -> None:
    """Raise an InputError unless a block of zeros, and only zeros, follow the last member."""
    if end + _BLOCK_BYTES > size:
        raise _bad_tar(path, "no end-of-archive mark", size)
    stream.seek(end)
    position = end
    while chunk := stream.read(min(_CHUNK_BYTES, size - position)):
        if chunk.count(0) < len(chunk):
            place = position + len(chunk) - len(chunk.lstrip(b"\0"))
            if place < end + _BLOCK_BYTES:
                raise _bad_tar(path, "a damaged header", end)
            raise _bad_tar(path, "more data after its end, as in two concatenated archives", place)
        position += len(chunk)


def _bad_tar(path: str, got: str, position: int) -> InputError:
    return InputError.at(path, expected="a complete tar archive", got=got, offset=position)


def detect(inputs: LayoutInputs) -> Detection:
    """Look for archives without images next to them."""
    if not (archives := tar_files(inputs)):
        return Detection.miss("no tar archive at the top or right below it")
    for path in inputs.files.ending(EXTENSIONS["image"]).below(inputs.root):
        if not is_clutter(path.split("/")):
            return Detection.miss(f"images next to {archives[0]}")
    return Detection.match(archives[0])


register(
    Layout(
        name="tar",
        kinds=("image",),
        rank=50,
        tree="""\
train-0000.tar: 000.jpg, 000.cls, 000.json, 001.jpg, …
val-0000.tar: …""",
        features="label, text, the fields of the JSON; other files of a key, by their extensions",
        splits="words in the name of the archive or its folder",
        refused="compressed archives; splits in the names of only some archives; images that only "
        "some keys have; nothing but images in folders",
        detect=detect,
        read=read,
        takes_columns=True,
        known=("*.tar",),
    )
)
