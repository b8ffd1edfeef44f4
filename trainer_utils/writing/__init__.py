"""Datasets written: shards with their indices, small files, the manifest last; and `DatasetWriter`.

with DatasetWriter("out/", num_shards={"train": 4}) as writer:
    writer.write("train", {"image": data, "label": 3})
"""
