"""Write a shard, and the index that finds any of its records without a scan.

    writer = ShardWriter(stream)                      # framed records in, blocks out
    writer.write([example.SerializeToString()])
    digest, index = writer.finish(), writer.index     # for the manifest, and for `to_bytes()`

On disk an index consists of four NumPy arrays (`.npy`), one after the other: the lengths of the
payloads in the smallest unsigned integer type, the masked CRC-32C of the payloads as in their
frames, the CRC-32C of the records' names (0 without a name), and the byte offset of every 64th
record. With these offsets, `IndexLayout` finds any record by reads of constant size. Format
version 3 has no offsets, and version 2 has lengths only.
"""

import array
import dataclasses
import functools
import io
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import CorruptShardError, DatasetError
from trainer_utils.format.example import decode_context
from trainer_utils.format.example_columns import parse_examples
from trainer_utils.format.manifest import Shard
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    Buffer,
    Lengths,
    Positions,
    Sums,
    compact,
    extend_crc32c,
    frame_footers,
    frame_headers,
    frame_parts,
    multiset_checksum,
    unframe,
)

STRIDE = 64
"""Records between two offsets in an index."""

_ADVICE = "It is of another shard, or damaged: write the dataset again."
_WRITE_BYTES = 1 << 20  # 1 MiB: few system calls, since each one releases the GIL
_GZIP_CONTAINER = 16 + zlib.MAX_WBITS
# Not `np.load`: it evaluates the header, and raises as many kinds of errors as Python's parser.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?P<size>..)\{'descr': '(?P<type><u[248])', 'fortran_order': False, "
    rb"'shape': \((?P<records>\d{1,18}),\), \} *\n",
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True, eq=False)
class RecordIndex:
    """The location of each record of one shard, in file order.

    Args:
        lengths: `(records,)` of any integer type, each payload's length in bytes.
        payload_crcs: `(records,) uint32`, each payload's masked CRC-32C; None if unknown.
        name_crcs: `(records,) uint32`, each name's CRC-32C (`name_of`); None if unknown.
    """

    lengths: Lengths
    payload_crcs: Sums | None = None
    name_crcs: Sums | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @functools.cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Offset of each record's frame, and the end of the last one: `(records + 1,) int64`.

        These are bytes of the uncompressed file. A gzip shard must be decompressed up to an offset.
        """
        offsets = np.arange(len(self) + 1, dtype=np.int64) * RECORD_OVERHEAD_BYTES
        offsets[1:] += np.cumsum(self.lengths, dtype=np.int64)
        return offsets

    @property
    def starts(self) -> npt.NDArray[np.uint64]:
        """Offsets of every 64th record, `(ceil(records / 64),) uint64`."""
        return self.offsets[:-1:STRIDE].astype(np.uint64)

    @property
    def framed_bytes(self) -> int:
        """Size of the uncompressed file in bytes."""
        return int(self.lengths.sum(dtype=np.int64)) + RECORD_OVERHEAD_BYTES * len(self)

    def read(self, stream: BinaryIO, number: int, *, path: str) -> bytes:
        """Return the verified payload of a record from the uncompressed `stream` of the shard."""
        if not 0 <= number < len(self):
            raise IndexError(f"record {number}: expected 0 <= record < {len(self)} ({path})")
        begin, end = self.offsets[number : number + 2].tolist()
        stream.seek(begin)
        return unframe(stream.read(end - begin), path=path, record=number, offset=begin)

    def to_bytes(self) -> bytes:
        """Return the content of the index file."""
        columns: list[npt.NDArray[Any]] = [compact(self.lengths)]
        if self.payload_crcs is not None and self.name_crcs is not None:
            columns += [self.payload_crcs, self.name_crcs, self.starts]
        return _to_npy(columns)

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str, shard: Shard | None = None) -> "RecordIndex":
        """Parse the content of an index file, and compare it with its shard's manifest entry.

        Raises:
            CorruptShardError: the file is damaged, or belongs to another shard; it names `path`.
        """
        lengths, stop = _parse_npy(data, 0, path)
        others: list[Any] = []
        while stop < len(data) and len(others) < 3:
            array, stop = _parse_npy(data, stop, path)
            others.append(array)
        sums = others[:2]
        is_of_all = all(a.dtype == "<u4" and len(a) == len(lengths) for a in sums)
        if stop != len(data) or len(others) == 1 or not is_of_all:
            got = f"{len(data)} bytes, {len(others)} further arrays"
            raise _error(path, f"an index of {len(lengths)} records, with two sums", got, stop)
        index = cls(lengths, *(array.astype(np.uint32) for array in sums))
        if shard is not None:
            size = shard.bytes if shard.path.endswith(".gz") else index.framed_bytes
            crc = None if shard.index_crc32c is None else extend_crc32c(0, data)
            if (len(index), size, crc) != (shard.records, shard.bytes, shard.index_crc32c):
                said = f"the index of {shard.records} records in {shard.bytes} bytes"
                raise _error(path, f"{said} that the manifest names", f"{len(index)} in {size}")
        if len(others) == 3 and not np.array_equal(others[2], index.starts):
            raise _error(path, f"the offset of every {STRIDE}th record", "other offsets")
        return index


class IndexLayout(NamedTuple):
    """The places of the columns in an index file, to read a few records of a large one.

    Attributes:
        records: the number of records.
        dtype: the type of lengths.
        lengths, payload_crcs, starts: the offset of each column's values, in bytes. A file of
            format version 3 has no starts, and one of `offsets_to_bytes` no checksums.
    """

    records: int
    dtype: np.dtype[Any]
    lengths: int
    payload_crcs: int | None
    starts: int | None

    @classmethod
    def of(cls, head: bytes, size: int) -> "IndexLayout | None":
        """Return the layout of a file, or None if it has lengths only.

        Args:
            head: the first `HEAD_BYTES` of the file.
            size: the size of the file in bytes.
        """
        header = _HEADER.match(head)
        if header is None:
            return None
        head_bytes = header.end()  # the same for each column
        dtype, records = np.dtype(header["type"].decode()), int(header["records"])
        num_starts = -(-records // STRIDE)
        payload_crcs = 2 * head_bytes + records * dtype.itemsize
        if payload_crcs + 8 * num_starts == size:
            return cls(records, dtype, head_bytes, None, payload_crcs)
        end_of_crcs = payload_crcs + head_bytes + 2 * 4 * records
        starts: int | None = end_of_crcs + head_bytes
        if end_of_crcs == size:
            starts = None
        elif end_of_crcs + head_bytes + 8 * -(-records // STRIDE) != size:
            return None
        return cls(records, dtype, head_bytes, payload_crcs, starts)

    def read_lengths(
        self, read: Callable[[int, int], bytes], first: int, stop: int
    ) -> npt.NDArray[Any]:
        """Read the lengths of some records; see `read`."""
        return np.frombuffer(
            self._column(read, self.lengths, self.dtype.itemsize, first, stop), self.dtype
        )

    def read(
        self,
        read: Callable[[int, int], bytes],
        first: int,
        stop: int,
        *,
        path: str,
        start: int | None = None,
    ) -> tuple[Positions, Sums | None]:
        """Read the offsets and checksums of some records.

        Args:
            read: returns the bytes of the file from an offset to another.
            first: the first record, a multiple of 64.
            stop: the record after the last.
            path: the index file, for messages.
            start: the offset of the first record, if the file has no starts.

        Returns:
            `(stop - first + 1,) int64`, the offsets of the frames and the end of the last one;
            `(stop - first,) uint32`, the masked CRC-32C of the payloads, or None if the file has
            none.

        Raises:
            CorruptShardError: the file is damaged.
        """
        starts = np.zeros(0, np.uint64)
        if self.starts is not None:
            groups = first // STRIDE, min(-(-stop // STRIDE) + 1, -(-self.records // STRIDE))
            starts = np.frombuffer(self._column(read, self.starts, 8, *groups), "<u8")
            if len(starts) != groups[1] - groups[0]:
                raise _error(
                    path, f"the offsets of records {first} to {stop}", "the end of the file"
                )
            start = int(starts[0])
        assert start is not None
        lengths = self.read_lengths(read, first, stop)
        count, sums = stop - first, None
        if self.payload_crcs is not None:
            sums = np.frombuffer(self._column(read, self.payload_crcs, 4, first, stop), "<u4")
        if len(lengths) != count or (sums is not None and len(sums) != count):
            raise _error(path, f"records {first} to {stop}", "the end of the file")
        offsets = np.empty(count + 1, np.int64)
        offsets[0] = 0
        np.cumsum(lengths, out=offsets[1:], dtype=np.int64)
        offsets += np.arange(count + 1) * RECORD_OVERHEAD_BYTES + start
        known = offsets[::STRIDE][: len(starts)]
        if not np.array_equal(known, starts[: len(known)].astype(np.int64)):
            rule = f"lengths that add up to the offsets of records from {first}"
            raise _error(path, rule, "others")
        return offsets, None if sums is None else sums.astype(np.uint32)

    def _column(
        self, read: Callable[[int, int], bytes], begin: int, item: int, first: int, stop: int
    ) -> bytes:
        return read(begin + item * first, begin + item * stop)


def offsets_to_bytes(index: RecordIndex) -> bytes:
    """Return an index file without checksums, which `IndexLayout` reads in parts.

    It is for shards of other tools, and stays outside of datasets.
    """
    return _to_npy([compact(index.lengths), index.starts])


def _to_npy(columns: Sequence[npt.NDArray[Any]]) -> bytes:
    """Return arrays in NumPy's format, one after the other."""
    stream = io.BytesIO()
    for column in columns:
        column = column.astype(column.dtype.newbyteorder("<"))
        np.lib.format.write_array(stream, column, (1, 0), False)  # type: ignore[no-untyped-call]
    return stream.getvalue()


HEAD_BYTES = 256
"""Bytes at the beginning of an index file that `IndexLayout.of` looks at."""


def _parse_npy(
    data: bytes, start: int, path: str
) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int]:
    """Parse the array that begins at `start`; return it and the offset after it."""
    header = _HEADER.match(data, start)
    if header is None or int.from_bytes(header["size"], "little") + 10 != header.end() - start:
        raise _error(path, "an array of unsigned integers in .npy", f"{data[start:][:80]!r}", start)
    dtype, count = np.dtype(header["type"].decode()), int(header["records"])
    stop = header.end() + count * dtype.itemsize
    if len(data) < stop:
        raise _error(path, f"a record index of {stop} bytes", str(len(data)), len(data))
    return np.frombuffer(data, dtype, count, offset=header.end()), stop


def _error(path: str, expected: str, got: str, offset: int | None = None) -> CorruptShardError:
    return CorruptShardError.at(path, expected=expected, got=got, offset=offset, advice=_ADVICE)


def name_of(features: Mapping[str, Any]) -> bytes | None:
    """Return the name of an example from the first of `NAME_FEATURES` that has a string, or None.

    `features` may have the types that `encode_example` takes or `decode_example` returns.
    """
    for feature in NAME_FEATURES:
        value = features.get(feature)
        first = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(first, bytes | memoryview):
            return bytes(first)
    return None


def name_crc(name: bytes | None) -> int:
    """Return the CRC-32C of a name as stored in a record index."""
    return 0 if name is None else int(google_crc32c.value(name))


def name_crcs(data: Buffer, begins: Positions, ends: Positions) -> npt.NDArray[np.uint32]:
    """Return the `name_crc` of the records `[begins, ends)` in a buffer: `(records,) uint32`."""
    try:
        columns = parse_examples(data, begins, ends, NAME_FEATURES)
    except DatasetError:  # some records are not examples
        view = memoryview(data)  # type: ignore[arg-type]
        bounds = zip(begins.tolist(), ends.tolist(), strict=True)
        return np.array([name_crc(name_in(view[b:e])) for b, e in bounds], np.uint32)
    crcs = np.zeros(len(begins), np.uint32)
    for kind, counts, values in reversed(columns.values()):  # the first column with a string wins
        rows = np.flatnonzero(counts)
        if kind == "string":
            firsts = values[(np.cumsum(counts) - counts)[rows]]
            crcs[rows] = [google_crc32c.value(value) for value in firsts]
    return crcs


def name_in(record: bytes | memoryview) -> bytes | None:
    """Return the name of a serialized example, or None if it has no name or is not an example."""
    try:
        return name_of(decode_context(record, NAME_FEATURES))
    except DatasetError:
        return None


class ShardDigest(NamedTuple):
    """The totals of a finished shard.

    `bytes` and `crc32c` describe the file. `content` is the checksum of its records in any order.
    """

    records: int
    bytes: int
    crc32c: int
    content: int


class ShardWriter:
    """Appends records to a stream. The caller opens, closes and renames the file.

    Args:
        stream: the binary stream to write to, about a MiB at a time.
        gzip: whether to compress. The gzip header holds no time and no name, so that equal
            records give equal files.
        buffer_bytes: the number of bytes to buffer before a write.
    """

    def __init__(
        self, stream: BinaryIO, *, gzip: bool = False, buffer_bytes: int = _WRITE_BYTES
    ) -> None:
        self._stream = stream
        self._buffer_bytes = buffer_bytes
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, _GZIP_CONTAINER) if gzip else None
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._lengths = array.array("Q")
        self._payload_crcs = array.array("I")
        self._name_crcs = array.array("I")
        self._bytes = self._crc = 0

    def write(self, parts: Sequence[bytes], *, name: bytes | None = None) -> int:
        """Frame and append one record; return its masked CRC-32C.

        Args:
            parts: the parts of the payload.
            name: the record's name (`name_of`). None: look for it in the payload.
        """
        header, footer = frame_parts(parts)
        self._pending += (header, *parts, footer)
        length, crc = sum(map(len, parts)), int.from_bytes(footer, "little")
        self._lengths.append(length)
        self._payload_crcs.append(crc)
        self._name_crcs.append(name_crc(name_in(b"".join(parts)) if name is None else name))
        self._pending_bytes += length + RECORD_OVERHEAD_BYTES
        if self._pending_bytes >= self._buffer_bytes:
            self._flush()
        return crc

    def write_many(self, payloads: Sequence[bytes], names: Sequence[bytes | None]) -> None:
        """Frame and append records in fewer steps than one `write` per record.

        Args:
            payloads: the records.
            names: the name of each record, or None.
        """
        lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
        sums = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(payloads))
        headers, footers = frame_headers(lengths).tobytes(), frame_footers(sums).tobytes()
        frames = bytearray()
        for number, payload in enumerate(payloads):
            frames += headers[HEADER_BYTES * number : HEADER_BYTES * (number + 1)]
            frames += payload
            frames += footers[FOOTER_BYTES * number : FOOTER_BYTES * (number + 1)]
        masked = np.frombuffer(footers, "<u4")
        name_sums = np.fromiter(map(name_crc, names), np.uint32, len(names))
        self.write_framed(bytes(frames), lengths, masked, name_sums)

    def write_framed(
        self,
        frames: bytes | memoryview,
        lengths: Positions,
        payload_crcs: Sums,
        names: Sums | None = None,
    ) -> None:
        """Append records that are framed and verified already.

        Args:
            frames: the framed records, concatenated.
            lengths: `(records,) int64`, each payload's length in bytes.
            payload_crcs: `(records,) uint32`, each payload's masked CRC-32C.
            names: `(records,) uint32`, the CRC-32C of each record's name, 0 without a name. None:
                look for the names in the records.
        """
        self._flush()
        if names is None:
            ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES) - FOOTER_BYTES
            names = name_crcs(np.frombuffer(frames, np.uint8), ends - lengths, ends)
        self._emit(frames if self._gzip is None else self._gzip.compress(frames))
        self._lengths.frombytes(lengths.astype(np.uint64).tobytes())
        self._payload_crcs.frombytes(payload_crcs.astype(np.uint32).tobytes())
        self._name_crcs.frombytes(names.astype(np.uint32).tobytes())

    @property
    def index(self) -> RecordIndex:
        """Index of the records written so far."""
        return RecordIndex(
            np.array(self._lengths, np.int64),
            np.array(self._payload_crcs, np.uint32),
            np.array(self._name_crcs, np.uint32),
        )

    def finish(self) -> ShardDigest:
        """Flush the buffer and return the totals. The stream stays open; write nothing after."""
        self._flush()
        if self._gzip is not None:
            self._emit(self._gzip.flush())
        lengths, crcs = np.array(self._lengths, np.int64), np.array(self._payload_crcs, np.uint32)
        return ShardDigest(len(lengths), self._bytes, self._crc, multiset_checksum(lengths, crcs))

    def _flush(self) -> None:
        block = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        self._emit(block if self._gzip is None else self._gzip.compress(block))

    def _emit(self, block: bytes | memoryview) -> None:
        if block:
            self._stream.write(block)
            summed = block if isinstance(block, bytes) else np.frombuffer(block, np.uint8)
            self._crc = extend_crc32c(self._crc, summed)
            self._bytes += len(block)
