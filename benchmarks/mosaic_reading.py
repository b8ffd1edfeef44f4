"""MosaicML Streaming's part of `remote_input.py`, in an environment of its own: it brings PyTorch.

    python -m venv mosaic && mosaic/bin/pip install mosaicml-streaming
    mosaic/bin/python benchmarks/mosaic_reading.py write photos mds 33554432
    mosaic/bin/python benchmarks/mosaic_reading.py read s3://data/mds cache 2 100000000

`read` prints JSON: seconds until the first batch of 64, and of each epoch; nothing is decoded.
"""

import json
import os
import sys
import time
from pathlib import Path

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

_BATCH = 64


def write(photos: str, folder: str, shard_bytes: str) -> None:
    """Photos with their names as shards of MDS."""
    columns = {"image": "bytes", "filename": "str"}
    with MDSWriter(out=folder, columns=columns, size_limit=int(shard_bytes)) as writer:
        for path in sorted(Path(photos).rglob("*.jpg")):
            writer.write({"image": path.read_bytes(), "filename": path.name})


def read(uri: str, folder: str, epochs: str, cache_bytes: str) -> None:
    """Shuffled epochs, as its guide says: a worker of the loader for each core."""
    clean_stale_shared_memory()  # a reader that was killed, or failed, leaves its own
    began = time.perf_counter()
    dataset = StreamingDataset(
        remote=uri, local=folder, batch_size=_BATCH, shuffle=True, cache_limit=int(cache_bytes)
    )
    loader = StreamingDataLoader(
        dataset, batch_size=_BATCH, num_workers=len(os.sched_getaffinity(0)), collate_fn=list
    )
    first, seconds, records = 0.0, [], 0
    for _ in range(int(epochs)):
        started, records = time.perf_counter(), 0
        for batch in loader:
            first = first or time.perf_counter() - began
            records += len(batch)
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"first_batch": first, "epochs": seconds, "records": records}))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
