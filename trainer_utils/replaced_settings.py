"""Settings of Datum, TFRecorder, keras_imagenet and tf.data, and what takes their place here.

REPLACED_SETTINGS["num_parallel_calls"]     # 'Leave it out: …'

Whoever gives one of them to `input_fn` is told so, in place of a list of all settings.
"""

from collections.abc import Mapping

__all__ = ["REPLACED_SETTINGS"]

_PARALLEL = "Leave it out: as many threads as there are cores read, parse and decode"
_ORDERED = "Leave it out: the order follows from seed and epoch, and is the same in every run"
_INTERLEAVED = "Leave it out: which shards are read together follows from the plan (shuffle=)"
_SHUFFLED = "Set shuffle: True, a number of records to hold, or 'global'"
_PADDED = "Leave it out: variable lengths are padded to the longest of the batch (or ragged=True)"
_BUCKETS = "Call trainer_utils.bucket_by_length(dataset, feature, boundaries=, batch_sizes=)"
_ALL_AT_ONCE = (
    "Set batch_size to the number of records (trainer_utils.plan(uri, split).records) and "
    "shuffle=False, and take next(iter(dataset))"
)
_BY_SPLIT = "Call input_fn once for each split, each with its own"
_HOOKS = "Give functions by split: {name}_batching_callback={{'train': f, 'val': g}}"
_CACHED = "Set cache to 'memory', 'disk' or a folder"
_OPTIONS = "Call dataset.with_options(options) on what input_fn returns; the defaults are tuned"
_FILES = "Give it as the first argument: a folder, files, or a pattern such as 'data/train-*'"
_FEATURES = (
    "Leave it out: types and shapes are read from the dataset; features= says which to parse"
)

REPLACED_SETTINGS: Mapping[str, str] = {
    # tf.data: TFRecordDataset, interleave, shuffle, map, batch, cache
    "num_parallel_calls": _PARALLEL,
    "num_parallel_reads": _PARALLEL,
    "synchronous": _PARALLEL,
    "use_unbounded_threadpool": _PARALLEL,
    "cycle_length": _INTERLEAVED,
    "block_length": _INTERLEAVED,
    "deterministic": _ORDERED,
    "buffer_size": _SHUFFLED,
    "shuffle_buffer_size": _SHUFFLED,
    "reshuffle_each_iteration": "Leave it out: each epoch has an order of its own",
    "compression_type": "Leave it out: gzip is known by the file's name, .gz",
    "filenames": _FILES,
    "file_pattern": _FILES,
    "padded_shapes": _PADDED,
    "padding_values": _PADDED,
    "feature_description": _FEATURES,
    "num_epochs": "Set repeat: a number of epochs, or True",
    "count": "Set repeat: a number of epochs, or True",
    # Datum: DatasetConfigs, TFRReadConfigs, train_fn and its like
    "full_dataset": _ALL_AT_ONCE,
    "batch_size_train": _BY_SPLIT.replace("its own", "its own batch_size"),
    "batch_size_val": _BY_SPLIT.replace("its own", "its own batch_size"),
    "batch_size_test": _BY_SPLIT.replace("its own", "its own batch_size"),
    "drop_remainder_val": _BY_SPLIT.replace("its own", "its own drop_remainder or remainder"),
    "drop_remainder_test": _BY_SPLIT.replace("its own", "its own drop_remainder or remainder"),
    "deterministic_val": _ORDERED,
    "deterministic_test": _ORDERED,
    "shuffle_files": "Leave it out: with shuffle, shards come in a new order each epoch",
    "cache_filename": _CACHED,
    "bucket_op": _BUCKETS,
    "bucket_fn": _BUCKETS,
    "bucket_boundaries": _BUCKETS,
    "bucket_batch_sizes": _BUCKETS,
    "pre_batching_callback_train": _HOOKS.format(name="pre"),
    "pre_batching_callback_val": _HOOKS.format(name="pre"),
    "pre_batching_callback_test": _HOOKS.format(name="pre"),
    "post_batching_callback_train": _HOOKS.format(name="post"),
    "post_batching_callback_val": _HOOKS.format(name="post"),
    "post_batching_callback_test": _HOOKS.format(name="post"),
    "read_config": _INTERLEAVED,
    "interleave_cycle_length": _INTERLEAVED,
    "interleave_block_length": _INTERLEAVED,
    "experimental_interleave_sort_fn": _INTERLEAVED,
    "shuffle_reshuffle_each_iteration": "Leave it out: each epoch has an order of its own",
    "use_tf_padding": _PADDED,
    "use_datum_padding": _PADDED,
    "dataset_configs": "Give its settings to input_fn by name, or as options=InputOptions(…)",
    "instruction": "Give it as split: 'train[:80%]+val' means the same",
    # keras_imagenet
    "tfrecords_dir": _FILES,
    "subset": "Give it as split",
    "num_data_workers": _PARALLEL,
    # TFRecorder
    "tfrecord_dir": _FILES,
    "num_records": "Give a slice: split='train[:100]'",
}
