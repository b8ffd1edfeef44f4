"""Brings files that are compressed, or in another encoding, into plain UTF-8.

path = in_utf8(inputs, "old.csv", encoding="latin-1", is_utf8=False, folder=working_folder(uri))
"""

import codecs
import gzip
import uuid
import zlib
from typing import BinaryIO, cast

from components.common.layout_inputs import LayoutInputs
from trainer_utils.format import InputError
from trainer_utils.storage import join, make_folder, write_atomically

_BLOCK_BYTES = 4 << 20


def is_compressed(path: str) -> bool:
    """Whether a file is gzip by its name."""
    return path.lower().endswith(".gz")


def in_utf8(inputs: LayoutInputs, path: str, *, encoding: str, is_utf8: bool, folder: str) -> str:
    """The path of a file's text in UTF-8: its own, or that of a copy.

    Args:
        path: relative to the input base.
        folder: for the copy.

    Raises:
        InputError: the file is no whole gzip, or not in that encoding.
    """
    if is_utf8 and not is_compressed(path):
        return path
    copies = join(folder, "texts")
    make_folder(copies)
    copy = join(copies, uuid.uuid4().hex)
    with (
        inputs.open(path) as stream,
        write_atomically(copy, temporary_folder=folder) as target,
    ):
        source = gzip.GzipFile(fileobj=stream) if is_compressed(path) else stream
        try:
            _copy(cast(BinaryIO, source), target, None if is_utf8 else encoding)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{path!r}: expected a whole gzip file: {error}", path=path) from error
        except UnicodeError as error:
            raise InputError.at(
                path, expected=f"text in {encoding}", got=str(error), advice="Name its encoding."
            ) from error
    return copy


def _copy(source: BinaryIO, target: BinaryIO, encoding: str | None) -> None:
    decoder = codecs.getincrementaldecoder(encoding)("strict") if encoding else None
    while block := source.read(_BLOCK_BYTES):
        target.write(decoder.decode(block).encode() if decoder else block)
    if decoder:
        target.write(decoder.decode(b"", final=True).encode())
