"""Open a dataset from any writer, at any place: `open_dataset("gs://…/examples/5")`."""

from trainer_utils.dataset.compression import open_records, read_shard_blocks
from trainer_utils.dataset.location import newest_dataset, uri_of
from trainer_utils.dataset.opening import Dataset, open_dataset, read_index
from trainer_utils.format.layouts import ShardFile
