"""Archives as WebDataset writes them: files of one key make one example.

    key.jpg  key.cls  key.json  key.txt     # image, label, columns, text

Only headers and small files are read; images stay where they are. Source: the file format of
github.com/webdataset/webdataset; a key ends at the first dot after the last slash.
"""

import collections
import json
import posixpath
import re
import tarfile
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from components.common.layout_inputs import LayoutInputs
from components.common.listing import Blob, Column, Entry, LeftOut, Listing, Value
from components.image_example_gen.layouts.column_types import typed_column
from components.image_example_gen.layouts.tables import flattened
from trainer_utils.format import InputError, canonical_split

__all__ = ["LOOKED_FOR", "is_archive", "is_here", "read"]

LOOKED_FOR = "*.tar (tar)"
_IMAGES = ("jpg", "jpeg", "png", "gif", "bmp", "webp", "tif", "tiff")
_SIDECARS = ("cls", "json", "txt")
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_MAX_SIDECAR_BYTES = 16 << 20
_BLOCK = 512  # bytes of tar


def is_here(inputs: LayoutInputs) -> bool:
    """Whether there are archives at the root or right below it."""
    return bool(_archives(inputs))


def read(inputs: LayoutInputs) -> Listing:
    """Reads the headers of every archive.

    Raises:
        InputError: an archive is compressed, cut short or malformed, or a key comes twice.
    """
    samples: dict[str, dict[str, Any]] = {}
    left_out: list[LeftOut] = []
    ignored: collections.Counter[str] = collections.Counter()
    for path in _archives(inputs):
        if path.lower().endswith(_COMPRESSED):
            raise InputError(
                f"{path!r}: expected an archive that is not compressed, since its images are read "
                "at random. Unpack it with gunzip or the like."
            )
        _read_archive(inputs, path, samples, left_out, ignored)
    for extension, number in sorted(ignored.items()):
        logging.info("%d files .%s in archives are not used", number, extension)
    entries = []
    columns, values = _columns(samples)
    for name, sample in samples.items():
        if "image" not in sample:
            left_out.append(LeftOut(name, sample["split"], "NO_IMAGE", "a key without an image"))
        else:
            full_name = f"{name}.{sample['extension']}"
            entries.append(Entry(full_name, sample["split"], (sample["image"],), values[name]))
    return Listing(tuple(entries), tuple(left_out), columns)


def is_archive(path: str) -> bool:
    """Whether a file is an archive by its name."""
    return path.lower().endswith((".tar", *_COMPRESSED))


def _archives(inputs: LayoutInputs) -> list[str]:
    if inputs.root in inputs.files:
        return [inputs.root] if is_archive(inputs.root) else []
    return [
        file.path
        for parts, file in inputs.below_root()
        if len(parts) <= 2 and is_archive(parts[-1])
    ]


def _read_archive(
    inputs: LayoutInputs,
    path: str,
    samples: dict[str, dict[str, Any]],
    left_out: list[LeftOut],
    ignored: collections.Counter[str],
) -> None:
    split = inputs.split or _split(path)
    size = inputs.files[path].size
    try:
        with inputs.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                if member.offset_data + member.size > size:
                    raise tarfile.ReadError(f"{member.name!r} reaches past the end (byte {size})")
                if not member.isreg() or ".." in member.name.split("/"):
                    name = f"{path}/{member.name}"
                    left_out.append(LeftOut(name, split, "NOT_A_FILE", "a link or a path upwards"))
                    continue
                _add(archive, member, path, split, samples, ignored)
            stream.seek(max(0, size - _BLOCK))
            if stream.read(_BLOCK).strip(b"\0"):
                raise tarfile.ReadError(f"no end marker (byte {size})")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"{path!r}: expected a whole tar archive: {error}") from error


def _add(
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    path: str,
    split: str | None,
    samples: dict[str, dict[str, Any]],
    ignored: collections.Counter[str],
) -> None:
    folder, file_name = posixpath.split(member.name)
    key, _, extension = file_name.partition(".")
    extension = extension.lower()
    name = posixpath.join(path, folder, key)
    if extension not in (*_IMAGES, *_SIDECARS):
        ignored[extension] += 1
        return
    sample = samples.setdefault(name, {"split": split})
    kind = "image" if extension in _IMAGES else extension
    if kind in sample:
        raise InputError(f"{path!r}: expected one {kind} for {key!r}, got {member.name!r} too")
    if kind == "image":
        sample["image"] = Blob(path, member.size, offset=member.offset_data)
        sample["extension"] = extension
        return
    if member.size > _MAX_SIDECAR_BYTES:
        raise InputError(
            f"{path!r}: expected {member.name!r} of at most {_MAX_SIDECAR_BYTES} bytes, "
            f"got {member.size}"
        )
    content = archive.extractfile(member)
    sample[kind] = _parse(kind, content.read() if content else b"", f"{path}/{member.name}")


def _parse(kind: str, data: bytes, place: str) -> Any:
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text) if kind == "json" else text
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place!r}: expected {kind} in UTF-8: {error}") from error
    if kind == "json" and not isinstance(value, dict):
        raise InputError(f"{place!r}: expected a JSON object, got {type(value).__name__}")
    return value.strip() if kind == "cls" else value


def _columns(
    samples: Mapping[str, Mapping[str, Any]],
) -> tuple[tuple[Column, ...], dict[str, tuple[Value, ...]]]:
    """The columns that sidecars make, typed by all examples, and each example's values."""
    fields: dict[str, dict[str, Any]] = {
        name: dict(flattened(sample.get("json", {}))) for name, sample in samples.items()
    }
    texts = {"label"} if any("cls" in sample for sample in samples.values()) else set()
    for name, sample in samples.items():
        fields[name] |= {
            n: sample[k] for n, k in (("label", "cls"), ("text", "txt")) if k in sample
        }
    order = dict.fromkeys(field for values in fields.values() for field in values)
    columns, by_column = [], []
    names = list(samples)
    place: Callable[[int], str] = lambda row: names[row]  # noqa: E731
    for field in order:
        values = [fields[name].get(field) for name in names]
        kind = "string" if field == "text" else None
        are_texts = field in texts and all(isinstance(v, (str, type(None))) for v in values)
        column, typed = typed_column(field, values, are_texts=are_texts, kind=kind, place=place)
        columns.append(column)
        by_column.append(typed)
    rows = zip(*by_column, strict=True) if by_column else iter([()] * len(names))
    return tuple(columns), dict(zip(names, rows, strict=True))


def _split(path: str) -> str | None:
    """The split that the leading word of an archive's name is, or its folder."""
    word = re.split(r"[^A-Za-z]", posixpath.basename(path))[0]
    folder = posixpath.basename(posixpath.dirname(path))
    return canonical_split(word) or canonical_split(folder)
