"""What the features of records are that nothing says it of: worked out from the first of them.

    sample_features(shards)      # {'label': Feature(…), 'frames': Feature(…)}

Records are `tf.train.Example`, or `tf.train.SequenceExample`: on the wire the latter is the former,
its context being the features, and a second field of lists, which a parser of examples passes over.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

import tensorflow as tf

from trainer_utils.format import DatasetError, Feature, read_blocks
from trainer_utils.format.example_decoding import has_feature_lists

__all__ = ["sample_features"]

_SAMPLE_RECORDS = 256
_READ_BYTES = 1 << 20
_KINDS = {"bytes_list": "string", "int64_list": "int", "float_list": "float"}
_RAGGED = "ragged"


def sample_features(
    paths: Sequence[str], open_records: Callable[[str], AbstractContextManager[BinaryIO]]
) -> dict[str, Feature]:
    """Features by name, of the first records, and of the first of each file.

    One that has not as many values in each is of variable length. A feature list has the shape of
    one step of it, and `extra["sequence"]`: that shape, or `"ragged"` where steps differ.

    Args:
        paths: of the shards.
        open_records: opens the uncompressed bytes of one.

    Raises:
        DatasetError: a record is none of these; the message names its file.
    """
    values, lists = _Seen(), _Seen()
    for record, path in _sampled(paths, open_records):
        context, sequences = _parsed(record, path)
        values.add({name: [value] for name, value in context.items()})
        lists.add({name: list(steps.feature) for name, steps in sequences.items()})
    if both := sorted(values.types.keys() & lists.types.keys()):
        raise DatasetError(
            f"feature {both[0]!r}: expected it in the context or in the feature lists of a "
            f"tf.train.SequenceExample, got it in both ({os.path.dirname(paths[0])})"
        )
    features = {name: values.plain(name) for name in values.types}
    features |= {name: lists.sequence(name) for name in lists.types}
    return dict(sorted(features.items()))


class _Seen:
    """The types of features, and how many values each record, or step of one, has."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self._lengths: list[dict[str, list[int]]] = []

    def add(self, record: Mapping[str, Sequence[Any]]) -> None:
        lengths: dict[str, list[int]] = {}
        for name, parts in record.items():
            kinds = [part.WhichOneof("kind") for part in parts]
            for kind in filter(None, kinds):
                self.types.setdefault(name, _KINDS[kind])
            lengths[name] = [
                len(getattr(part, kind).value) if kind else 0
                for part, kind in zip(parts, kinds, strict=True)
            ]
        self._lengths.append(lengths)

    def plain(self, name: str) -> Feature:
        """Of features: what is not alike in all records is sparse."""
        sizes = {size for lengths in self._lengths for size in lengths.get(name, [0])}
        shape = () if sizes == {1} else (max(sizes),)
        return Feature(type=self.types[name], shape=shape, dense=len(sizes) == 1)

    def sequence(self, name: str) -> Feature:
        """Of feature lists, whose steps may be as many as they like."""
        sizes = {size for lengths in self._lengths for size in lengths.get(name, [])}
        shape = () if sizes == {1} else (max(sizes),)
        step = list(shape) if len(sizes) == 1 else _RAGGED
        return Feature(type=self.types[name], shape=shape, dense=False, extra={"sequence": step})


def _sampled(
    paths: Sequence[str], open_records: Callable[[str], AbstractContextManager[BinaryIO]]
) -> Iterator[tuple[bytes, str]]:
    left = _SAMPLE_RECORDS
    for path in paths:
        with open_records(path) as stream:
            blocks = read_blocks(stream, path=path, block_bytes=_READ_BYTES)
            records = (record for block in blocks for record in block.records())
            for record in itertools.islice(records, max(left, 1)):
                left -= 1
                yield record, path


def _parsed(record: bytes, path: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The features of a record, and its feature lists."""
    try:
        if has_feature_lists(record):
            sequence = tf.train.SequenceExample.FromString(record)
            return sequence.context.feature, sequence.feature_lists.feature_list
        return tf.train.Example.FromString(record).features.feature, {}
    except Exception as error:
        raise DatasetError(
            f"{os.path.basename(path)!r}: expected serialized tf.train.Example: {error}"
        ) from error
