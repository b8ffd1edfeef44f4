"""The files below a folder as columns: some hundred bytes each, however many there are.

files = FileTable.of(walk_files("photos/"))
files["cat/1.jpg"].size          # a mapping by path; nothing is kept of what it gives
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, ValuesView

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainer_utils.storage import InputFile

__all__ = ["FileTable", "decode_path", "encode_path"]

_CHUNK = 1 << 15  # files that are Python objects at a time
_SCHEMA = pa.schema(
    [
        ("path", pa.large_binary()),
        ("size", pa.int64()),
        ("version", pa.string()),
        ("code", pa.string()),
        ("detail", pa.large_binary()),
        ("is_folder", pa.bool_()),
    ]
)


def encode_path(path: str) -> bytes:
    """A path's own bytes, of which those that are not UTF-8 are surrogates."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(path: bytes) -> str:
    """What `encode_path` took."""
    return path.decode("utf-8", "surrogateescape")


class FileTable(Mapping[str, InputFile]):
    """Files by path, in the order of their paths' bytes.

    Args:
        table: a row a file; `code` and `detail` say why one cannot be read.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @classmethod
    def of(cls, files: Iterable[InputFile]) -> "FileTable":
        """The table of files that come in any order, of which few are held at a time."""
        source, parts = iter(files), [_SCHEMA.empty_table()]
        while some := list(itertools.islice(source, _CHUNK)):
            problems = [file.problem or (None, None) for file in some]
            columns = [
                [encode_path(file.path) for file in some],
                [file.size for file in some],
                [file.version for file in some],
                [code for code, _ in problems],
                [None if detail is None else encode_path(detail) for _, detail in problems],
                [file.is_folder for file in some],
            ]
            arrays = map(pa.array, columns, _SCHEMA.types)
            parts.append(pa.Table.from_arrays([*arrays], schema=_SCHEMA))
        table = pa.concat_tables(parts).combine_chunks()
        return cls(table.take(pc.sort_indices(table.column("path"))))

    def unlisted_folders(self) -> list[InputFile]:
        """The folders that cannot be looked into."""
        return [*_files_of(self.table.filter(self.table.column("is_folder")))]

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        for batch in self.table.to_batches(max_chunksize=_CHUNK):
            yield from map(decode_path, batch.column(0).to_pylist())

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {path: place for place, path in enumerate(self)}

    def __contains__(self, path: object) -> bool:
        return path in self._places

    def __getitem__(self, path: str) -> InputFile:
        place = self._places[path]
        size, version, code, detail, is_folder = (a[place].as_py() for a in self._arrays)
        problem = None if code is None else (code, decode_path(detail))
        return InputFile(path, size, version, problem, is_folder)

    @functools.cached_property
    def _arrays(self) -> list[pa.Array]:
        return [column.combine_chunks() for column in self.table.columns[1:]]

    def values(self) -> ValuesView[InputFile]:
        """The files in order, each made when it is asked for."""
        return _Files(self)

    def select(self, mask: npt.NDArray[np.bool_]) -> "FileTable":
        """Those files that a mask `(n,)` takes."""
        return self if mask.all() else FileTable(self.table.filter(pa.array(mask)))


class _Files(ValuesView[InputFile]):
    def __iter__(self) -> Iterator[InputFile]:
        return _files_of(self._mapping.table)  # type: ignore[attr-defined]


def _files_of(table: pa.Table) -> Iterator[InputFile]:
    for batch in table.to_batches(max_chunksize=_CHUNK):
        paths, sizes, versions, codes, details, are_folders = (c.to_pylist() for c in batch.columns)
        problems = (
            None if code is None else (code, decode_path(detail))
            for code, detail in zip(codes, details, strict=True)
        )
        yield from map(InputFile, map(decode_path, paths), sizes, versions, problems, are_folders)
