"""Compute the arrays of a batch from epoch, step and worker, for every framework.

`batches` combines all other modules. `input_spec` has what batches contain, and `example_reader`
reads and decodes their rows. `record_reader` reads records and checks them. `shard_files` reads
their bytes, from files that `shard_opening` opens. `features` and `images` decode values, and
`elements` arranges them.
"""
