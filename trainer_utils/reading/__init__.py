"""The arrays of a batch as a function of epoch, step and worker, for every framework.

`batches` is the whole way; on it lie `record_reader` (records read and checked; `shard_files` and
`remote_files` are where they lie), `features` and `images` (what values become), and `elements`.
"""
