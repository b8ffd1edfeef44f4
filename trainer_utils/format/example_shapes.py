"""What features serialized examples have and how many values, without decoding most of them.

    columns = scan_examples(block)
    columns.features[b"label", INTS].counts      # [1, 1, …]: values in each example that has it

Examples are written alike by all that write them, so they are walked on the assumption that they
are: some 1 µs a feature, where a general decoder in Python takes five times that. What is written
otherwise, and `tf.train.SequenceExample`, goes the general way.

Source: `tensorflow/core/example/{example,feature}.proto` and the protocol buffers' encoding guide.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from trainer_utils.format.errors import DatasetError
from trainer_utils.format.example_decoding import read_fields
from trainer_utils.format.framing import HEADER_BYTES
from trainer_utils.format.tfrecord import RecordBlock

__all__ = ["KINDS", "Column", "ExampleColumns", "scan_examples"]

_DELIMITED = 2  # wire type
_FIRST, _SECOND = 0x0A, 0x12  # tags of fields 1 and 2 with a length
_BYTES, _FLOATS, _INTS = 0x0A, 0x12, 0x1A  # tags of the kinds of a Feature
KINDS = {_BYTES: "string", _FLOATS: "float", _INTS: "int"}
_CONTINUED = bytes(range(0x80, 0x100))  # all bytes of a varint but its last
_MOST_SHORT = 0x7F


@dataclasses.dataclass(slots=True)
class Column:
    """One feature of some examples, or one feature list.

    Args:
        counts: how many values each example has that has the feature; of a list, each step.
        values: those of a feature of bytes.
        example: the last that has it.
    """

    counts: list[int] = dataclasses.field(default_factory=list)
    values: list[bytes] = dataclasses.field(default_factory=list)
    example: int = -1

    def undo(self) -> None:
        """Forgets the last example."""
        if count := self.counts.pop():
            del self.values[-count:]


_Columns = dict[tuple[bytes, int], Column]


@dataclasses.dataclass
class ExampleColumns:
    """The features and the feature lists of some examples, by name and kind (see `KINDS`)."""

    features: _Columns = dataclasses.field(default_factory=dict)
    lists: _Columns = dataclasses.field(default_factory=dict)


def scan_examples(block: RecordBlock) -> ExampleColumns:
    """The features of a block's examples.

    Raises:
        DatasetError: a record is neither a `tf.train.Example` nor a `tf.train.SequenceExample`;
            the message has its byte offset.
    """
    found = ExampleColumns()
    begins = block.starts + HEADER_BYTES
    ends = (begins + block.lengths).tolist()
    for number, (start, stop) in enumerate(zip(begins.tolist(), ends, strict=True)):
        try:
            is_usual = start == stop or _scan(block.data, start, stop, number, found.features)
        except IndexError:  # it ends too early
            is_usual = False
        if is_usual:
            continue
        for column in found.features.values():
            if column.example == number:
                column.undo()
                column.example = -1
        try:
            _scan_any(block.data[start:stop], number, found)
        except ValueError as error:
            raise DatasetError(
                f"record: expected a tf.train.Example, got another: {error} "
                f"(byte {block.file_offset + start - HEADER_BYTES})"
            ) from error
    return found


def _scan(data: bytes, position: int, stop: int, number: int, columns: _Columns) -> bool:
    """Walks one example; False where it is written in another way than usual."""
    # Inlined, since calls would take as long as all the rest.
    length = data[position + 1]
    tag, position = data[position], position + 2
    if length > _MOST_SHORT:
        length, position = _varint(data, position - 1)
    if tag != _FIRST or position + length != stop:
        return False
    while position < stop:
        tag, length = data[position], data[position + 1]
        position += 2
        if length > _MOST_SHORT:
            length, position = _varint(data, position - 1)
        end = position + length
        if tag != _FIRST or end > stop:
            return False
        tag, length = data[position], data[position + 1]
        position += 2
        if length > _MOST_SHORT:
            length, position = _varint(data, position - 1)
        name = data[position : position + length]
        position += length
        if tag != _FIRST or position >= end:
            return False
        tag, length = data[position], data[position + 1]
        position += 2
        if length > _MOST_SHORT:
            length, position = _varint(data, position - 1)
        if tag != _SECOND or position + length != end:
            return False
        if not length:
            continue  # a feature without a kind: as if it were not there
        kind, length = data[position], data[position + 1]
        position += 2
        if length > _MOST_SHORT:
            length, position = _varint(data, position - 1)
        if position + length != end:
            return False
        column = columns.get((name, kind))
        if column is None:
            if kind not in KINDS:
                return False
            column = columns[name, kind] = Column()
        elif column.example == number:  # the last of several counts
            return False
        if not length or kind == _BYTES:
            count = 0
            column.counts.append(0)
            column.example = number
            while position < end:
                tag, length = data[position], data[position + 1]
                position += 2
                if length > _MOST_SHORT:
                    length, position = _varint(data, position - 1)
                if tag != _FIRST or position + length > end:
                    return False
                column.values.append(data[position : position + length])
                position += length
                count += 1
                column.counts[-1] = count
            continue
        tag, length = data[position], data[position + 1]
        position += 2
        if length > _MOST_SHORT:
            length, position = _varint(data, position - 1)
        if tag != _FIRST or position + length != end:
            return False
        if kind == _FLOATS:
            count, is_cut = length >> 2, length & 3
        else:
            count = 1 if length == 1 else len(data[position:end].translate(None, _CONTINUED))
            is_cut = data[end - 1] > _MOST_SHORT
        if is_cut:
            return False
        column.counts.append(count)
        column.example = number
        position = end
    return True


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while (group := data[position]) > _MOST_SHORT:
        number |= (group & _MOST_SHORT) << shift
        shift, position = shift + 7, position + 1
    return number | group << shift, position + 1


def _scan_any(record: bytes, number: int, found: ExampleColumns) -> None:
    """The general way: any order of fields, packed or not, and feature lists."""
    features: dict[bytes, tuple[int, int]] = {}
    lists: dict[bytes, tuple[int, int]] = {}
    for field, wire, start, stop in read_fields(record, 0, len(record)):
        if wire == _DELIMITED and field in (1, 2):
            (features if field == 1 else lists).update(_entries(record, start, stop))
    for name, bounds in features.items():
        name.decode()
        for kind, values in _feature(record, *bounds):
            column = found.features.setdefault((name, kind), Column())
            column.counts.append(len(values))
            column.values += values if kind == _BYTES else []
            column.example = number
    for name, bounds in lists.items():
        name.decode()
        steps = [next(_feature(record, *step), None) for step in _parts(record, *bounds)]
        kinds = {kind for kind, _ in filter(None, steps)}
        for kind in kinds:
            column = found.lists.setdefault((name, kind), Column())
            column.counts += [len(step[1]) if step else 0 for step in steps]


def _entries(record: bytes, start: int, stop: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """The entries of a map: names, and where their values are."""
    for begin, end in _parts(record, start, stop):
        name, bounds = b"", (end, end)
        for field, wire, first, last in read_fields(record, begin, end):
            if wire == _DELIMITED and field == 1:
                name = record[first:last]
            elif wire == _DELIMITED and field == 2:
                bounds = first, last
        yield name, bounds


def _parts(record: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where the parts of a message are that is a repeated field 1 with a length."""
    for field, wire, begin, end in read_fields(record, start, stop):
        if field == 1 and wire == _DELIMITED:
            yield begin, end


def _feature(record: bytes, start: int, stop: int) -> Iterator[tuple[int, list[Any]]]:
    """The kind of a feature and its values, once; nothing where it has no kind."""
    last = None
    for field, wire, begin, end in read_fields(record, start, stop):
        kind = field << 3 | _DELIMITED
        if wire == _DELIMITED and kind in KINDS:
            last = kind, begin, end
    if last is None:
        return
    kind, begin, end = last
    values: list[Any] = []
    for field, wire, first, after in read_fields(record, begin, end):
        if field != 1:
            continue
        if wire != _DELIMITED:
            values.append(None)
        elif kind == _BYTES:
            values.append(record[first:after])
        elif kind == _FLOATS:
            if (after - first) % 4:
                raise ValueError(f"{after - first} bytes of floats of 4 bytes")
            values += [None] * ((after - first) // 4)
        else:
            values += [None] * len(record[first:after].translate(None, _CONTINUED))
    yield kind, values
