"""Archives as WebDataset writes them: files of one key make one example.

    key.jpg  key.cls  key.json  key.txt     # image, label, columns, text

`cls` becomes `label`, ids or words; `txt` becomes `text`; the fields of `json` keep their names,
nested ones joined by dots. A field called as `cls` or `txt` are, beside these, is `json.label`.

An archive of archives, as ImageNet's training images come, has a class in each of the inner ones,
by the name of which it is called. Only headers and small files are read; images stay where they
are. Source: the file format of github.com/webdataset/webdataset, `tariterators.base_plus_ext`: a
key ends at the first dot after the last slash.
"""

import collections
import dataclasses
import functools
import json
import posixpath
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from absl import logging

from components.common.entry import Blob, Column, Entry, ExcludedInput, Value
from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs, select_readable
from components.example_gen.folder import is_clutter
from components.example_gen.list_table import typed_values
from components.layouts.tar_headers import read_headers
from components.tables.json_lines import columns_of_objects, flatten_object
from components.tables.kinds import check_columns
from trainer_utils.format import ConfigError, InputError, canonical_split
from trainer_utils.format.checksums import extend_crc32c
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.format.media_formats import COMPRESSIONS
from trainer_utils.storage import display_path

LOOKED_FOR = "*.tar (tar)"
_IMAGES = ("jpg", "jpeg", "png", "gif", "bmp", "webp", "tif", "tiff", "ppm")
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_ARCHIVES = (".tar", *_COMPRESSED)
_MAX_SIDECAR_BYTES = 16 << 20
_META = re.compile(r"__[^/]*__($|/)")  # WebDataset's own, which its readers pass by
_COLUMN_OF = {"cls": "label", "txt": "text"}
_SIDECARS = (*_COLUMN_OF, "json")
_KINDS = ("int", "float", "string", "label", "ignore")


@dataclasses.dataclass(slots=True)
class _Sample:
    """What belongs to one key."""

    archive: str
    name: str  # what it is known by in messages
    split: str | None
    # the names of its members, by what they are: `image`, `cls`, …
    members: dict[str, str] = dataclasses.field(default_factory=dict)
    image: Blob | None = None
    sidecars: JsonObject = dataclasses.field(default_factory=dict)  # the values of the others
    is_counted: bool = False  # whether its image is already excluded, as a link or as sparse
    problem: str | None = None  # why one of the others cannot be read

    @property
    def entry_name(self) -> str:
        """What its example is known by."""
        return f"{self.archive}/{self.members['image']}"


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


def _archives(inputs: LayoutInputs) -> list[str]:
    if inputs.root in inputs.files:
        return [inputs.root] if is_archive(inputs.root) else []
    return [
        path
        for parts, path in inputs.paths_below_root(endings=_ARCHIVES)
        if len(parts) <= 2 and not is_clutter(parts)
    ]


def read(inputs: LayoutInputs) -> InputTable:
    """Reads the headers of every archive.

    Raises:
        InputError: an archive is compressed, cut short or malformed, or a key comes twice. A class,
            text or JSON that cannot be read rejects its own sample alone.
        ConfigError: `columns` names one that is not there.
    """
    archives, excluded = select_readable(inputs, _archives(inputs), "a tar archive")
    found: dict[tuple[str | None, str], _Sample] = {}
    ignored: collections.Counter[str] = collections.Counter()
    for path in archives:
        with inputs.open(path) as stream:
            _Archive(inputs, path, stream, found, excluded, ignored).read()
    for extension, number in sorted(ignored.items()):
        logging.info("%d files %r in archives are not used", number, f".{extension}")
    samples = []
    for sample in found.values():
        if sample.image is None and not sample.is_counted:
            detail = "a key without an image"
            excluded.append(ExcludedInput(sample.name, sample.split, "NO_IMAGE", detail))
        elif sample.image is not None and sample.problem is not None:
            name, problem = sample.entry_name, sample.problem
            excluded.append(ExcludedInput(name, sample.split, "BAD_ANNOTATION", problem))
        elif sample.image is not None:
            samples.append(sample)
    columns, rows = _make_columns(
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


@dataclasses.dataclass(frozen=True)
class _Archive:
    """One archive, whose members are added to what all of them hold."""

    inputs: LayoutInputs
    path: str
    stream: BinaryIO
    samples: dict[tuple[str | None, str], _Sample]
    excluded: list[ExcludedInput]
    ignored: collections.Counter[str]

    def read(self) -> None:
        path = self.path
        is_compressed = self.stream.read(8).startswith(tuple(COMPRESSIONS))
        if is_compressed or path.lower().endswith(_COMPRESSED):
            raise InputError.at(
                path,
                expected="an archive that is not compressed",
                got="one whose images cannot be read at random",
                advice="Unpack it with gunzip or the like.",
            )
        for member in read_headers(self.stream, path=path, size=self.inputs.files[path].size):
            self._add(member)

    @functools.cached_property
    def _split(self) -> str | None:
        """The split that the leading word of its name is, or its folder, or its last word."""
        words = re.split(r"[^A-Za-z]", posixpath.basename(self.path).split(".")[0])
        words.insert(1, posixpath.basename(posixpath.dirname(self.path)))
        found = (canonical_split(word) for word in (words[0], words[1], words[-1]))
        return self.inputs.split or next(filter(None, found), None)

    def _add(self, member: tarfile.TarInfo, label: str | None = None) -> None:
        """Adds a member to its sample, or to the excluded inputs; `label`: of an inner archive."""
        if member.isdir():
            return
        if ".." in member.name.split("/"):
            self._exclude(member.name, "NOT_A_FILE", "a path upwards")
            return
        name = posixpath.normpath(member.name.lstrip("/"))
        folder, last = posixpath.split(name)
        key, dot, extension = last.partition(".")
        kind = "image" if extension.lower() in _IMAGES else extension.lower()
        is_whole = member.isreg() and not member.issparse()
        if is_clutter(name.split("/")) or _META.match(name):
            self._exclude(name, None, "hidden or system file")
        elif not dot:
            self._exclude(name, None, "no key, since there is no extension")
        elif kind == "tar" and label is None and is_whole:
            self._add_archive(member)
        else:
            sample = self._sample(posixpath.join(folder, key))
            if not is_whole:
                sample.is_counted |= kind == "image"
                if member.isreg():
                    detail = "expected its bytes in one piece, got holes. Pack it without -S"
                    self._exclude(name, "SPARSE_MEMBER", detail)
                else:
                    self._exclude(name, "NOT_A_FILE", "a link or a device")
            elif kind != "image" and kind not in _SIDECARS:
                self.ignored[kind] += 1
            else:
                self._add_to_sample(sample, kind, name, member, label)

    def _add_archive(self, archive: tarfile.TarInfo) -> None:
        """Adds the members of an archive in the archive, whose name is their class."""
        label = display_path(posixpath.splitext(posixpath.basename(archive.name))[0])
        place, start = f"{self.path}/{archive.name}", archive.offset_data
        for member in read_headers(self.stream, path=place, start=start, size=start + archive.size):
            member.name = f"{label}/{member.name.lstrip('/')}"
            self._add(member, label)

    def _add_to_sample(
        self, sample: _Sample, kind: str, name: str, member: tarfile.TarInfo, label: str | None
    ) -> None:
        if kind in sample.members:
            raise InputError.at(
                self.path,
                expected=f"one {kind} of the key of {sample.name!r}",
                got=f"{sample.members[kind]!r} and {name!r}",
                offset=member.offset,
            )
        sample.members[kind] = name
        if kind == "image":
            sample.image = Blob(self.path, member.size, offset=member.offset_data)
            if label is not None:
                sample.sidecars.setdefault("cls", label)
            return
        place = f"{self.path}/{name}"
        if member.size > _MAX_SIDECAR_BYTES:
            detail = f"{place!r}: expected at most {_MAX_SIDECAR_BYTES} bytes, got {member.size}"
            sample.problem = sample.problem or detail
            return
        self.stream.seek(member.offset_data)
        content = self.stream.read(member.size)
        self.inputs.contents[place] = extend_crc32c(0, content)
        try:
            sample.sidecars[kind] = _read_sidecar(kind, content)
        except (ValueError, RecursionError) as error:
            detail = f"{place!r}: expected {kind} in UTF-8: {error}"
            sample.problem = sample.problem or detail

    def _exclude(self, name: str, code: str | None, detail: str) -> None:
        self.excluded.append(ExcludedInput(f"{self.path}/{name}", self._split, code, detail))

    def _sample(self, key: str) -> _Sample:
        """The sample of a key, which no other archive of its split may have."""
        made = _Sample(self.path, f"{self.path}/{key}", self._split)
        sample = self.samples.setdefault((made.split, key), made)
        if sample.archive != self.path:
            of_split = f" of split {made.split!r}" if made.split else ""
            raise InputError(
                f"key {key!r}: expected it in one archive{of_split}, got it in {sample.archive!r} "
                f"and {self.path!r}"
            )
        return sample


def _read_sidecar(kind: str, data: bytes) -> Json:
    """A file's text, None for an empty class, or the fields of its JSON object by name."""
    text = data.decode("utf-8-sig")
    if kind != "json":
        return (text.strip() or None) if kind == "cls" else text
    value = json.loads(text)
    if "\\u" in text:  # JSON can spell halves of characters, which UTF-8 cannot
        json.dumps(value, ensure_ascii=False).encode()
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    return dict(flatten_object(value))


def _make_columns(
    samples: Sequence[Mapping[str, Json]], *, given: Mapping[str, str], place: Callable[[int], str]
) -> tuple[tuple[Column, ...], list[tuple[Value, ...]]]:
    """The columns, typed by all samples, and each sample's values.

    Refuses a value that is not what `given` says, and a column that is not there.
    """
    own = {_COLUMN_OF[kind] for sample in samples for kind in sample.keys() & _COLUMN_OF.keys()}
    rows = [_fields(sample, own) for sample in samples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    check_columns(given, names, of="the archives")
    for name, asked in given.items():
        if asked not in _KINDS:
            raise ConfigError.of(f"columns[{name!r}]", asked, allowed=f"one of {', '.join(_KINDS)}")
    ignored = [name for name, kind in given.items() if kind == "ignore"]
    arrays, mixed = columns_of_objects(rows, place=place, ignored=ignored)
    columns, by_column = [], []
    for name, array in arrays.items():
        kind = given.get(name, "string" if name == "text" and "text" in own else None)
        are_texts = name in mixed or (name == "label" and name in own)
        if (found := typed_values(name, [(array, are_texts)], kind=kind, place=place)) is not None:
            columns.append(found[0])
            by_column.append(found[1])
    return tuple(columns), list(zip(*by_column, strict=True)) if columns else [()] * len(rows)


def _fields(sample: Mapping[str, Json], own: set[str]) -> JsonObject:
    """A sample's values by column; `own` are those of `cls` and `txt`."""
    fields = {
        f"json.{name}" if name in own else name: value
        for name, value in sample.get("json", {}).items()
    }
    return fields | {_COLUMN_OF[kind]: sample[kind] for kind in _COLUMN_OF if kind in sample}
