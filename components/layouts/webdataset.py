"""Archives as WebDataset writes them: files of one key make one example.

    key.jpg  key.cls  key.json  key.txt     # image, label, columns, text

An archive of archives, as ImageNet's training images come, has a class in each of the inner ones,
by the name of which it is called. Only headers and small files are read; images stay where they
are. Source: the file format of
github.com/webdataset/webdataset, `tariterators.base_plus_ext`: a key ends at the first dot after
the last slash.
"""

import collections
import dataclasses
import posixpath
import re
import tarfile
from typing import BinaryIO, cast

from absl import logging

from components.common.entry import Blob, Entry, ExcludedInput
from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs, select_readable
from components.example_gen.folder import is_clutter
from components.layouts.sidecars import SIDECARS, make_columns, read_sidecar
from components.layouts.tar_headers import read_headers
from trainer_utils.format import InputError, canonical_split
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.media_formats import COMPRESSIONS
from trainer_utils.storage import display_path

LOOKED_FOR = "*.tar (tar)"
_IMAGES = ("jpg", "jpeg", "png", "gif", "bmp", "webp", "tif", "tiff", "ppm")
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_ARCHIVES = (".tar", *_COMPRESSED)
_MAX_SIDECAR_BYTES = 16 << 20
_META = re.compile(r"__[^/]*__($|/)")  # WebDataset's own, which its readers pass by


@dataclasses.dataclass(slots=True)
class _Sample:
    """What belongs to one key.

    Args:
        members: the names of its members, by what they are: `image`, `cls`, …
        sidecars: the values of the others.
        is_counted: whether its image is already excluded, as a link or as sparse.
        problem: why one of the others cannot be read.
    """

    archive: str
    key: str
    split: str | None
    members: dict[str, str] = dataclasses.field(default_factory=dict)
    image: Blob | None = None
    sidecars: JsonObject = dataclasses.field(default_factory=dict)
    is_counted: bool = False
    problem: str | None = None

    @property
    def name(self) -> str:
        """What it is known by in messages."""
        return f"{self.archive}/{self.key}"

    @property
    def entry_name(self) -> str:
        """What its example is known by."""
        return f"{self.archive}/{self.members['image']}"


@dataclasses.dataclass
class _Found:
    """What all archives hold: samples by split and key, and files that are no part of one."""

    samples: dict[tuple[str | None, str], _Sample] = dataclasses.field(default_factory=dict)
    excluded: list[ExcludedInput] = dataclasses.field(default_factory=list)
    ignored: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


def is_here(inputs: LayoutInputs) -> bool:
    """Whether there are archives at the root or right below it, and no images beside them."""
    if inputs.root in inputs.files:
        return is_archive(inputs.root)
    return bool(_archives(inputs)) and not any(
        posixpath.splitext(parts[-1])[1].lower()[1:] in _IMAGES and not is_clutter(parts)
        for parts, _ in inputs.below_root()
    )


def is_archive(path: str) -> bool:
    """Whether a file is an archive by its name."""
    return path.lower().endswith(_ARCHIVES)


def read(inputs: LayoutInputs) -> InputTable:
    """Reads the headers of every archive.

    Raises:
        InputError: an archive is compressed, cut short or malformed, or a key comes twice. A class,
            text or JSON that cannot be read rejects its own sample alone.
        ConfigError: `columns` names one that is not there.
    """
    archives, unread = select_readable(inputs, _archives(inputs), "a tar archive")
    found = _Found(excluded=unread)
    for path in archives:
        _read_archive(inputs, path, found)
    for extension, number in sorted(found.ignored.items()):
        logging.info("%d files %r in archives are not used", number, f".{extension}")
    samples, excluded = [], found.excluded
    for sample in found.samples.values():
        if sample.image is not None and sample.problem is not None:
            excluded.append(
                ExcludedInput(sample.entry_name, sample.split, "BAD_ANNOTATION", sample.problem)
            )
        elif sample.image is not None:
            samples.append(sample)
        elif not sample.is_counted:
            detail = "a key without an image"
            excluded.append(ExcludedInput(sample.name, sample.split, "NO_IMAGE", detail))
    columns, rows = make_columns(
        [sample.sidecars for sample in samples],
        given=inputs.columns,
        place=lambda number: samples[number].name,
    )
    entries = (
        Entry(sample.entry_name, sample.split, (sample.image,), row)
        for sample, row in zip(samples, rows, strict=True)
        if sample.image is not None
    )
    return InputTable.of(entries, excluded, columns)


def _archives(inputs: LayoutInputs) -> list[str]:
    if inputs.root in inputs.files:
        return [inputs.root] if is_archive(inputs.root) else []
    return [
        path
        for parts, path in inputs.paths_below_root(endings=_ARCHIVES)
        if len(parts) <= 2 and not is_clutter(parts)
    ]


def _read_archive(inputs: LayoutInputs, path: str, found: _Found) -> None:
    file = inputs.files[path]
    split = inputs.split or _split(path)
    with inputs.open(path) as stream:
        is_compressed = stream.read(8).startswith(tuple(COMPRESSIONS))
        if is_compressed or path.lower().endswith(_COMPRESSED):
            raise InputError(
                f"{path!r}: expected an archive that is not compressed, since its images are read "
                "at random. Unpack it with gunzip or the like.",
                path=path,
            )
        stream.seek(0)
        for member in read_headers(stream, path=path, size=file.size):
            if not member.isdir():
                _add(inputs, stream, member, path, split, found)


class _Part:
    """A part of a stream, as a stream of its own."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        self._stream, self._start, self._size, self._at = stream, start, size, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        assert whence == 0
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        self._stream.seek(self._start + self._at)
        data = self._stream.read(max(0, min(size, self._size - self._at)))
        self._at += len(data)
        return data


def _add_archive(
    inputs: LayoutInputs,
    stream: BinaryIO,
    archive: tarfile.TarInfo,
    path: str,
    split: str | None,
    found: _Found,
) -> None:
    """Adds the members of an archive in an archive, whose name is their class."""
    part = cast(BinaryIO, _Part(stream, archive.offset_data, archive.size))
    label = display_path(posixpath.splitext(posixpath.basename(archive.name))[0])
    for member in read_headers(part, path=f"{path}/{archive.name}", size=archive.size):
        if not member.isdir():
            member.name = f"{label}/{member.name.lstrip('/')}"
            member.offset_data += archive.offset_data
            _add(inputs, stream, member, path, split, found, label=label)


def _add(
    inputs: LayoutInputs,
    stream: BinaryIO,
    member: tarfile.TarInfo,
    path: str,
    split: str | None,
    found: _Found,
    *,
    label: str | None = None,
) -> None:
    """Adds a member to its sample, or to the excluded inputs; `label`: of an inner archive."""
    if ".." in member.name.split("/"):
        _leave_out(found, path, member.name, split, "NOT_A_FILE", "a path upwards")
        return
    name = posixpath.normpath(member.name.lstrip("/"))
    parts = name.split("/")
    key, dot, extension = parts[-1].partition(".")
    extension = extension.lower()
    if is_clutter(parts) or _META.match(name):
        _leave_out(found, path, name, split, None, "hidden or system file")
        return
    if not dot:
        _leave_out(found, path, name, split, None, "no key, since there is no extension")
        return
    if extension == "tar" and label is None and member.isreg() and not member.issparse():
        _add_archive(inputs, stream, member, path, split, found)
        return
    sample = _sample(found, path, posixpath.join(*parts[:-1], key), split)
    kind = "image" if extension in _IMAGES else extension
    if not member.isreg() or member.issparse():
        if member.isreg():
            detail = "expected its bytes in one piece, got holes. Pack it without -S"
            _leave_out(found, path, name, split, "SPARSE_MEMBER", detail)
        else:
            _leave_out(found, path, name, split, "NOT_A_FILE", "a link or a device")
        sample.is_counted |= kind == "image"
    elif kind != "image" and kind not in SIDECARS:
        found.ignored[extension] += 1
    elif kind in sample.members:
        raise InputError.at(
            path,
            expected=f"one {kind} of key {sample.key!r}",
            got=f"{sample.members[kind]!r} and {name!r}",
            offset=member.offset,
        )
    else:
        sample.members[kind] = name
        if kind == "image":
            sample.image = Blob(path, member.size, offset=member.offset_data)
            if label is not None:
                sample.sidecars.setdefault("cls", label)
        else:
            try:
                content = _content(stream, member, path)
                inputs.contents[f"{path}/{name}"] = extend_crc32c(0, content)
                sample.sidecars[kind] = read_sidecar(kind, content, place=f"{path}/{member.name}")
            except InputError as error:
                sample.problem = sample.problem or str(error)


def _leave_out(
    found: _Found, path: str, name: str, split: str | None, code: str | None, detail: str
) -> None:
    found.excluded.append(ExcludedInput(f"{path}/{name}", split, code, detail))


def _sample(found: _Found, path: str, key: str, split: str | None) -> _Sample:
    """The sample of a key, which no other archive of its split may have."""
    sample = found.samples.setdefault((split, key), _Sample(path, key, split))
    if sample.archive != path:
        of_split = f" of split {split!r}" if split else ""
        raise InputError(
            f"key {key!r}: expected it in one archive{of_split}, got it in {sample.archive!r} "
            f"and {path!r}"
        )
    return sample


def _content(stream: BinaryIO, member: tarfile.TarInfo, path: str) -> bytes:
    if member.size > _MAX_SIDECAR_BYTES:
        raise InputError.at(
            path,
            expected=f"{member.name!r} of at most {_MAX_SIDECAR_BYTES} bytes",
            got=str(member.size),
        )
    stream.seek(member.offset_data)
    return stream.read(member.size)


def _split(path: str) -> str | None:
    """The split that the leading word of an archive's name is, or its folder, or its last word."""
    words = re.split(r"[^A-Za-z]", posixpath.basename(path).split(".")[0])
    folder = posixpath.basename(posixpath.dirname(path))
    return canonical_split(words[0]) or canonical_split(folder) or canonical_split(words[-1])
