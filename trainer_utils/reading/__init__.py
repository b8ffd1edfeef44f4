"""The arrays of a batch as a function of epoch, step and worker, for every framework.

`batches` is the whole way; on it lie `record_reader` (records read and checked; `shard_files`,
`shard_bytes`, `remote_parts` are where they lie), `examples` (parsed, all records of a step at
once), `features`, `images` and `audio` (what their values become), `labels` and `arrangement`.
`prefetch` makes some steps ahead.
"""
