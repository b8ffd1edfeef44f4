"""Reads what is in a tar archive, member by member, without trusting it.

The parsing is `tarfile`'s. What it lets pass in silence is an error here: an archive cut short, a
damaged header in the middle, which it takes for the end, and more after the end. A header may claim
any size: one that leads backwards would be read for ever, and a name of a terabyte into memory.

Source: POSIX.1-2001 pax, `tarfile` of Python 3.10.
"""

import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from trainer_utils.format import InputError

_BLOCK_BYTES = 512  # of a tar, see `tarfile.BLOCKSIZE`
_MAX_HEADER_BYTES = 64 << 10  # 64 KiB: paths end at 4 KiB
_CHUNK_BYTES = 1 << 20
# What tarfile raises on hostile headers.
_ERRORS = (tarfile.TarError, OSError, ValueError, ArithmeticError, LookupError, RecursionError)


class _HeaderStream:
    """A stream that refuses to read more at once than a header may have."""

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
    """Each member of an uncompressed archive from a byte to another. The stream may be moved.

    Raises:
        InputError: the archive is cut short, damaged, or more than one; the message names the byte.
    """
    stream.seek(start)
    if stream.read(_BLOCK_BYTES) == bytes(_BLOCK_BYTES):  # an archive of nothing, but a whole one
        _check_end(stream, path, start, size)
        return
    stream.seek(start)
    headers, position = cast(BinaryIO, _HeaderStream(stream)), start
    archive: Any = None
    while True:
        try:
            # Names are the same bytes whatever the machine's locale.
            archive = archive or tarfile.TarFile(
                fileobj=headers, encoding="utf-8", errors="surrogateescape"
            )
            member = archive.next()
        except _ERRORS as error:
            raise _bad(path, f"{error}", position) from error
        if member is None:
            break
        archive.members = []  # else it would keep them all
        if archive.offset > size:
            raise _bad(path, f"{member.name!r}, which ends at byte {archive.offset}", size)
        is_whole = member.isreg() and not member.issparse()
        past = is_whole and member.offset_data + member.size > archive.offset
        if member.size < 0 or past or archive.offset <= position:
            raise _bad(path, f"{member.name!r} of {member.size} bytes", position)
        position = archive.offset
        yield member
    if archive.offset != position:  # newer ones of tarfile give up on a member in silence
        raise _bad(path, "a damaged header", position)
    _check_end(stream, path, position, size)


def _check_end(stream: BinaryIO, path: str, end: int, size: int) -> None:
    """After the last member there is a block of zeros, and nothing but zeros follows."""
    if end + _BLOCK_BYTES > size:
        raise _bad(path, "no mark of its end", size)
    stream.seek(end)
    position = end
    while chunk := stream.read(min(_CHUNK_BYTES, size - position)):
        if chunk.count(0) < len(chunk):
            place = position + len(chunk) - len(chunk.lstrip(b"\0"))
            if place < end + _BLOCK_BYTES:
                raise _bad(path, "a damaged header", end)
            raise _bad(path, "more after its end, as two archives in one file have", place)
        position += len(chunk)


def _bad(path: str, got: str, position: int) -> InputError:
    return InputError.at(path, expected="a whole tar archive", got=got, offset=position)
