"""Datasets written: shards with their indices, small files, the manifest last; `DatasetWriter`."""
