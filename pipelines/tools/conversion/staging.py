"""What `convert` is given from Python, as a table on disk, and the options that go with it.

    staged = stage(frame, "out/", kind=None, options={})
    staged.source         # 'out/source/frame.parquet'

A frame of plain columns is kept by pandas itself; everything else goes row by row through a
`RowSpool`, in bounded memory.
"""

import dataclasses
import filecmp
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.tools.conversion.python_sources import is_in_python, rows_of
from pipelines.tools.conversion.recognition import KINDS, recognise
from pipelines.tools.conversion.row_spool import RowSpool
from pipelines.tools.conversion.settings import check_options
from trainer_utils.format import ConfigError, InputError, canonical_split
from trainer_utils.storage import is_folder, is_remote

__all__ = ["Staged", "stage"]

_FOLDER = "source"
_FRAME_FILE = "frame.parquet"
_PATHS = (
    "image_uri",
    "audio_uri",
    "image",
    "audio",
    "clip",
    "filename",
    "file_name",
    "path",
    "uri",
)


@dataclasses.dataclass(frozen=True)
class Staged:
    """A path, the kind of what is there (None: not known yet), and options of `convert`."""

    source: Any
    kind: str | None
    options: Mapping[str, Any]


def stage(source: Any, out: str, *, kind: str | None, options: Mapping[str, Any]) -> Staged:
    """Keeps what is no path below `out`, as a table that an ExampleGen reads.

    Args:
        source, out, kind: as `convert` takes them.
        options: the other arguments of `convert`.

    Raises:
        InputError: it is nothing that rows can be had of, or a value cannot be stored.
        ConfigError: an option does not go with it.
    """
    if not is_in_python(source):
        return Staged(source, kind, options)
    folder = Path(out, _FOLDER)
    chosen = dict(options)
    known = kind if kind in KINDS else None
    check_options({name: value for name, value in options.items() if name != "splits"}, kind=known)
    if hasattr(source, "to_parquet") and hasattr(source, "iloc") and _is_plain(source):
        path = _write_frame(source, folder / _FRAME_FILE)
    else:
        path = _spool(source, folder, chosen)
    kind = kind or recognise(path, chosen).kind
    if kind != "text" and (roots := _roots(path)):
        chosen.setdefault("image_roots", roots)
    return Staged(path, kind, chosen)


def _spool(source: Any, folder: Path, options: dict[str, Any]) -> str:
    if options.get("splits") is None:
        options.pop("splits", None)
    of_names = not isinstance(options.get("splits"), Mapping)
    splits = None if of_names else options.pop("splits")
    rows = rows_of(source, options=options)
    spool = RowSpool(folder, columns=options.get("columns") or {})
    try:
        for split, row in rows:
            spool.add(row, split=None if split is None else _canonical(split))
        table = spool.finish()
    except BaseException:
        spool.discard()
        raise
    options["columns"] = {**table.columns, **(options.get("columns") or {})}
    options["tensors"] = {**table.tensors, **(options.get("tensors") or {})}
    if splits is not None:
        options["splits"] = splits
    return table.path


def _canonical(split: str) -> str:
    found = canonical_split(split)
    if found is None:
        raise ConfigError.of(
            "splits",
            split,
            allowed="train, eval or test, or another spelling of these",
            advice="For other names write the dataset with trainer_utils.DatasetWriter",
        )
    return found


def _is_plain(frame: Any) -> bool:
    """Whether no cell is an array, an image or a list of lists, which Parquet has no form for."""
    objects = (frame.iloc[:, n] for n, kind in enumerate(frame.dtypes) if kind.kind == "O")
    return not any(_is_nested(cell) for column in objects for cell in column)


def _is_nested(cell: Any) -> bool:
    if isinstance(cell, (list, tuple)):
        return any(map(_is_nested, cell)) or any(isinstance(part, (list, tuple)) for part in cell)
    return hasattr(cell, "__array__") and bool(getattr(cell, "shape", True))


def _roots(path: str) -> list[str]:
    """The folders of the files that a table names; the working directory, where not in whole.

    Those that are gone are left out: their files are rejects, as others that are not there.
    """
    file = pq.ParquetFile(path)
    texts = (pa.string(), pa.large_string())
    names = [f.name for f in file.schema_arrow if f.name.lower() in _PATHS and f.type in texts]
    roots: set[str] = set()
    for batch in file.iter_batches(columns=names) if names else ():
        for column in batch.columns:
            roots.update(map(_folder, filter(None, column.to_pylist())))
    roots = set(filter(is_folder, roots))
    real = {root: root if is_remote(root) else os.path.realpath(root) for root in roots}
    inner = {r for r in roots for o in roots if real[r].startswith(real[o].rstrip("/") + "/")}
    return sorted(roots - inner)


def _folder(name: str) -> str:
    name = name.removeprefix("file://")
    is_whole = is_remote(name) or os.path.isabs(name)
    return os.path.dirname(name) if is_whole else os.getcwd()


def _write_frame(frame: Any, path: Path) -> str:
    """Keeps a frame as Parquet; an equal one is left alone, so that the cache holds."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise InputError(
                f"source: expected columns whose names are texts, got {name!r}. Rename them: "
                "frame.columns = frame.columns.map(str)."
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}")
    try:
        frame.to_parquet(temporary, index=False)
        if not path.is_file() or not filecmp.cmp(temporary, path, shallow=False):
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return str(path)
