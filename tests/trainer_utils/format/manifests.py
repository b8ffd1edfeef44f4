"""A manifest with every field."""

import dataclasses

from trainer_utils.format import Accounting, Manifest, Shard
from trainer_utils.format.manifest import FileDigest

SHARDS = tuple(
    Shard(path=f"Split-train/{n}", split="train", records=3, bytes=100 + n, crc32c=n)
    for n in range(2)
)
MANIFEST = Manifest(
    shards=SHARDS,
    accounting={
        "train": Accounting(found=8, written=6, rejected=1, skipped=1),
        "eval": Accounting(),
    },
    producer="test",
    config={"seed": 1, "é": [1.5, None]},
    input_fingerprint="abc",
    label_counts={"train": {"cat": 6}},
    conversions={"CMYK": 2},
    reject_counts={"EMPTY_FILE": 1},
    versions={"tfx": "1.16.0"},
)


FILES = {"vocab/label.txt": FileDigest.of(b"cat\n"), "schema.pbtxt": FileDigest.of(b"")}
SEALED = dataclasses.replace(MANIFEST, files=FILES)
