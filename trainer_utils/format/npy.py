"""NumPy's own files of one array (`.npy`), of unsigned integers alone, read strictly.

    data = npy_bytes(np.array([35, 40], np.uint16))
    array, stop = parse_npy(data, path="index/train-00000-of-00001.npy", what="a record index")

Source: the NumPy enhancement proposal 1, format version 1.0.
"""

import io
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format.errors import CorruptShardError

__all__ = ["npy_bytes", "parse_npy"]

_VERSION = (1, 0)
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type>\|u1|<u[248])', 'fortran_order': False, "
    rb"'shape': \((?P<records>\d{1,18}),\), \} *\n",
    re.DOTALL,
)


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    """An array as a file of it has it; the same bytes whatever the version of numpy."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, _VERSION, False)  # type: ignore[no-untyped-call]
    return stream.getvalue()


def parse_npy(
    data: bytes, *, path: str, what: str, start: int = 0
) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int]:
    """Reads what `npy_bytes` made.

    Args:
        data: the file's; something else may follow.
        path: its name, for error messages.
        what: it is, for these: "a record index".
        start: where the array's header begins.

    Returns:
        The array, a view of `data`, and where it ends.

    Raises:
        CorruptShardError: there is no such array, or it is cut short.
    """
    # Not `np.load`: it evaluates the header, and fails in as many ways as Python's parser has.
    header = _HEADER.match(data, start)
    if header is None or int.from_bytes(data[start + 8 : start + 10], "little") + 10 != (
        header.end() - start
    ):
        raise CorruptShardError.at(
            path,
            expected=f"{what}, an array of unsigned integers in .npy",
            got=f"{data[start : start + 80]!r}…",
            offset=start,
            advice="It is damaged: write the dataset again.",
        )
    dtype, count = np.dtype(header["type"].decode()), int(header["records"])
    stop = header.end() + count * dtype.itemsize
    if len(data) < stop:
        raise CorruptShardError.at(
            path,
            expected=f"{what} of {stop} bytes",
            got=str(len(data)),
            offset=len(data),
            advice="It is damaged: write the dataset again.",
        )
    return np.frombuffer(data, dtype, count, offset=header.end()), stop
