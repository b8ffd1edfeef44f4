"""Compare the paths of many files, or take them apart, at once.

    is_path(paths, "cats/1.jpg")
    folders_of(paths)       # of b"cats/1.jpg": b"cats"
    names_of(paths)         # b"1.jpg"
    stems_of(paths)         # b"1"
    extensions_of(paths)    # b".jpg"

They take about 0.15 µs per file, half the time of regular expressions. Paths are `large_binary`.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.arrow_columns import BINARY, bounds_and_bytes, bytes_scalar, to_numpy
from trainer_utils.storage.paths import encode_path

_Places = npt.NDArray[np.int64]
_EXTENSION_BYTES = 16  # longer endings of a name are not extensions


def is_path(paths: pa.Array, path: str) -> npt.NDArray[np.bool_]:
    """Return whether each path is the given one, `(n,) bool`."""
    return to_numpy(pc.equal(paths, bytes_scalar(encode_path(path))))


def folders_of(paths: pa.Array) -> pa.Array:
    """Return the folder of each path; of a path without one, the empty string."""
    bounds, data = bounds_and_bytes(paths)
    last = _last(b"/", bounds, data)
    return _parts(bounds, data, bounds[:-1], np.where(last < 0, bounds[:-1], last))


def names_of(paths: pa.Array) -> pa.Array:
    """Return the name of each file, without its folders."""
    bounds, data = bounds_and_bytes(paths)
    return _parts(bounds, data, _starts_of_names(bounds, data), bounds[1:])


def stems_of(paths: pa.Array) -> pa.Array:
    """Return the name of each file up to its last dot."""
    bounds, data = bounds_and_bytes(paths)
    starts, dots = _starts_of_names(bounds, data), _last(b".", bounds, data)
    return _parts(bounds, data, starts, np.where(dots < starts, bounds[1:], dots))


def extensions_of(paths: pa.Array) -> pa.Array:
    """Return the extension of each file, from the last dot; longer ones are empty."""
    bounds, data = bounds_and_bytes(paths)
    starts, dots = _starts_of_names(bounds, data), _last(b".", bounds, data)
    has_one = (dots >= starts) & (bounds[1:] - dots <= _EXTENSION_BYTES)
    return _parts(bounds, data, np.where(has_one, dots, bounds[1:]), bounds[1:])


def _starts_of_names(bounds: _Places, data: npt.NDArray[np.uint8]) -> _Places:
    last = _last(b"/", bounds, data)
    starts: _Places = np.where(last < 0, bounds[:-1], last + 1)
    return starts


def _last(byte: bytes, bounds: _Places, data: npt.NDArray[np.uint8]) -> _Places:
    """Return the last place of a byte in each value, or -1, `(n,)`."""
    places = np.flatnonzero(data == ord(byte))
    last = np.concatenate([[-1], places])[np.searchsorted(places, bounds[1:])]
    return np.where(last < bounds[:-1], -1, last)


def _parts(
    bounds: _Places, data: npt.NDArray[np.uint8], starts: _Places, stops: _Places
) -> pa.Array:
    """Return a part of each value, from `starts` to `stops`."""
    lengths = stops - starts
    runs = np.stack([starts - bounds[:-1], lengths, bounds[1:] - stops], axis=1).ravel()
    is_part = np.repeat(np.tile([False, True, False], len(lengths)), runs)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[is_part])]
    return pa.Array.from_buffers(BINARY, len(lengths), buffers)
