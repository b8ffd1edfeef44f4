"""Compute the arrays of a batch from epoch, step and worker, for every framework.

`batches` combines all other modules. `record_reader` reads records and checks them; `shard_files`
and `remote_files` read the bytes. `features` and `images` decode values, and `elements` arranges
them.
"""
