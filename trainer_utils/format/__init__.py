"""Define the on-disk format of a dataset: framing, manifest, Datum's JSON, names, slices, plans.

Only this package contains file names, JSON keys and framing constants. It works on bytes and
streams of any file system, and imports neither tensorflow, tfx nor beam.
"""

from trainer_utils.format.accounting import Accounting
from trainer_utils.format.datum import Feature, parse_shard_info
from trainer_utils.format.example import encode_example
from trainer_utils.format.hashing import keyed_hash, keyed_hashes
from trainer_utils.format.index import RecordIndex, ShardWriter
from trainer_utils.format.manifest import Manifest, Shard
from trainer_utils.format.naming import ShardName, canonical_split
from trainer_utils.format.shard_counts import num_shards_for, shard_bounds
from trainer_utils.format.slices import SplitRange, resolve_slices
from trainer_utils.format.split_words import split_of_name, split_of_path, splits_of_paths
from trainer_utils.format.tfrecord import (
    RecordBlock,
    combine_checksums,
    multiset_checksum,
    read_blocks,
    scan_lengths,
)
