"""Records to tensors, for one worker: read in their order, parse, decode, batch.

`epoch_batches` is the whole way of an epoch; on it lie `ordered_records` (which records, as vectors
of bytes), `records` and `shard_reader` (files), `parsing` (examples), `images`, `turbo` and `audio`
(what they hold), and `batching`. `epochs` puts epochs one after another. `raw_ops` has the
functions of TensorFlow's that all of them are built of.
"""
