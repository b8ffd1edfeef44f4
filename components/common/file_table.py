"""The files below a folder as columns: some hundred bytes each, however many there are.

files = FileTable.of(walk_files("photos/"))
files["cat/1.jpg"].size          # a mapping by path; nothing is kept of what it gives
"""

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainer_utils.storage import InputFile

__all__ = ["FileTable", "PathColumn", "decode_path", "encode_path"]

_CHUNK = 1 << 15  # files that are Python objects at a time

Problem = tuple[tuple[str, str], bool]


def encode_path(path: str) -> bytes:
    """A path's own bytes, of which those that are not UTF-8 are surrogates."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(path: bytes) -> str:
    """What `encode_path` took."""
    return path.decode("utf-8", "surrogateescape")


class PathColumn(Sequence[bytes]):
    """An Arrow array of `large_binary`, without nulls, as a sequence that `bisect` searches."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array
        _, offsets, data = array.buffers()
        # Slices of a memoryview take a tenth of the time of Arrow's scalars.
        self._data = memoryview(b"" if data is None else data)
        self._offsets = memoryview(b"" if offsets is None else offsets).cast("q")[array.offset :]

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self._data[self._offsets[place] : self._offsets[place + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        for data, bounds in self._chunks():
            yield from [data[first:stop] for first, stop in itertools.pairwise(bounds)]

    def texts(self) -> Iterator[str]:
        """What `decode_path` makes of each; most are ASCII, and decoded many at a time."""
        for data, bounds in self._chunks():
            places = itertools.pairwise(bounds)
            if data.isascii():
                text = data.decode("ascii")
                yield from [text[first:stop] for first, stop in places]
            else:
                yield from [decode_path(data[first:stop]) for first, stop in places]

    def _chunks(self) -> Iterator[tuple[bytes, list[int]]]:
        """The bytes of many at a time, and where each of them begins and the last one ends."""
        for start in range(0, len(self), _CHUNK):
            offsets = self._offsets[start : min(start + _CHUNK, len(self)) + 1].tolist()
            begin = offsets[0]
            yield self._data[begin : offsets[-1]].tobytes(), [at - begin for at in offsets]


class FileTable(Mapping[str, InputFile]):
    """Files by path, in the order of their paths' bytes.

    Args:
        paths: `(n,) large_binary`, sorted.
        sizes: `(n,) int64`, in bytes.
        problems: what cannot be read, by place: its problem, and whether it is a folder.
    """

    def __init__(
        self,
        paths: pa.Array,
        sizes: npt.NDArray[np.int64],
        versions: pa.Array,
        problems: Mapping[int, Problem],
    ) -> None:
        self.paths = PathColumn(paths)
        self.sizes = sizes
        self._versions = PathColumn(versions)
        self._arrays = (paths, versions)
        self._problems = problems

    @classmethod
    def of(cls, files: Iterable[InputFile]) -> "FileTable":
        """The table of files that come in any order, of which few are held at a time."""
        source = iter(files)
        sizes = [np.zeros(0, np.int64)]
        problems: dict[int, Problem] = {}
        columns: tuple[list[pa.Array], ...] = ([_binary([])], [_binary([])])
        start = 0
        while some := list(itertools.islice(source, _CHUNK)):
            columns[0].append(_binary([encode_path(file.path) for file in some]))
            columns[1].append(_binary([file.version.encode() for file in some]))
            sizes.append(np.fromiter((file.size for file in some), np.int64, len(some)))
            for place, file in enumerate(some, start):
                if file.problem is not None:
                    problems[place] = file.problem, file.is_folder
            start += len(some)
        paths = _joined(columns[0])
        order = pc.sort_indices(paths)
        paths = paths.take(order)  # which frees those before it, as below
        places = order.to_numpy()
        return cls(
            paths,
            np.concatenate(sizes)[places],
            _joined(columns[1]).take(order),
            _moved(problems, places),
        )

    def unlisted_folders(self) -> list[InputFile]:
        """The folders that cannot be looked into."""
        places = sorted(place for place, (_, is_folder) in self._problems.items() if is_folder)
        return [self[decode_path(self.paths[place])] for place in places]

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[str]:
        return self.paths.texts()

    def __getitem__(self, path: str) -> InputFile:
        try:
            own = encode_path(path)
        except UnicodeEncodeError:  # of halves of characters, which no path has
            raise KeyError(path) from None
        place = bisect.bisect_left(self.paths, own)
        if place == len(self) or self.paths[place] != own:
            raise KeyError(path)
        return self._file(place, path, int(self.sizes[place]), self._versions[place].decode())

    def values(self) -> ValuesView[InputFile]:
        """The files in order, each made when it is asked for."""
        return _Files(self)

    def select(self, mask: npt.NDArray[np.bool_]) -> "FileTable":
        """Those files that a mask `(n,)` takes."""
        if mask.all():
            return self
        paths, versions = (array.filter(pa.array(mask)) for array in self._arrays)
        return FileTable(
            paths, self.sizes[mask], versions, _moved(self._problems, np.flatnonzero(mask))
        )

    def others_than(self, paths: Sequence[pa.Array]) -> Iterator[str]:
        """The paths of the files that are in none of the arrays of `large_binary`."""
        own, _ = self._arrays
        named = np.zeros(len(self), np.bool_)
        for some in paths:
            named |= pc.is_in(own, value_set=some.cast(own.type)).to_numpy(zero_copy_only=False)
        return PathColumn(own.filter(pa.array(~named))).texts()

    def in_order(self) -> Iterator[InputFile]:
        """The files in order."""
        columns = (self.paths.texts(), self._sizes_in_order(), self._versions.texts())
        if not self._problems:
            return map(InputFile, *columns)
        return map(self._file, itertools.count(), *columns)

    def _sizes_in_order(self) -> Iterator[int]:
        for start in range(0, len(self), _CHUNK):
            yield from self.sizes[start : start + _CHUNK].tolist()

    def _file(self, place: int, path: str, size: int, version: str) -> InputFile:
        problem, is_folder = self._problems.get(place, (None, False))
        return InputFile(path, size, version, problem, is_folder)


class _Files(ValuesView[InputFile]):
    def __iter__(self) -> Iterator[InputFile]:
        return cast(FileTable, self._mapping).in_order()  # type: ignore[attr-defined]


def _binary(values: Sequence[bytes]) -> pa.Array:
    return pa.array(values, pa.large_binary())


def _joined(arrays: list[pa.Array]) -> pa.Array:
    """Arrays as one; the list is emptied, so that they do not stay beside it."""
    whole = pa.concat_arrays(arrays)
    arrays.clear()
    return whole


def _moved(problems: Mapping[int, Problem], places: npt.NDArray[np.int64]) -> dict[int, Problem]:
    """Problems by place, once what was at `places[i]` is at `i`."""
    if not problems:
        return {}
    found = np.flatnonzero(np.isin(places, list(problems)))
    return {int(place): problems[int(places[place])] for place in found.tolist()}
