"""A dataset, opened wherever it is and whoever wrote it: `open_dataset("gs://bucket/examples/5")`."""

from trainer_utils.dataset.location import newest_dataset, split_of, uri_of
from trainer_utils.dataset.opening import Dataset, ShardFile, open_dataset
from trainer_utils.dataset.record_index import read_index
from trainer_utils.dataset.shards import open_records, read_shard_blocks
