"""What Datum says of its features, held against the first records.

features = checked_features(features, ["datum/train_0000.tfrecord"])

Datum describes features by the last example that it wrote, unless they were named as sparse. Of
boxes of objects that is how many that one image has, and Datum's own reader refuses the others.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Mapping

from trainer_utils.dataset.shards import read_shard_blocks
from trainer_utils.format import DatasetError, Feature
from trainer_utils.format.example_decoding import decode_example

__all__ = ["checked_features"]

_MOST_RECORDS = 256  # of each file
_BLOCK_BYTES = 1 << 20


def checked_features(
    features: Mapping[str, Feature], paths: Iterable[str]
) -> Mapping[str, Feature]:
    """The same features, of which lists that differ in length are no longer called dense.

    Args:
        features: as Datum's JSON has them.
        paths: of files whose first records are looked at; where they cannot be read, whoever reads
            them says so.
    """
    lists = {n: f.shape[0] for n, f in features.items() if f.dense and len(f.shape) == 1}
    if not lists:
        return features
    counts = {name: {length} for name, length in lists.items()}
    for path in paths:
        with contextlib.suppress(DatasetError, OSError):
            blocks = read_shard_blocks(path, block_bytes=_BLOCK_BYTES)
            records = itertools.chain.from_iterable(block.records() for block in blocks)
            for record in itertools.islice(records, _MOST_RECORDS):
                found = decode_example(record, lists)
                for name in lists:
                    counts[name].add(len(found.get(name, ())))
    return {
        name: feature
        if len(counts.get(name, ())) < 2
        else dataclasses.replace(feature, dense=False, shape=(max(counts[name]),))
        for name, feature in features.items()
    }
