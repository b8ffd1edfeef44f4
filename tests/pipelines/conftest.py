"""A small dataset of ours, with labels, an index and Datum's JSON; and the command line."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from trainer_utils import format as ours
from trainer_utils.format.manifest import FileDigest
from trainer_utils.format.tfrecord import extend_crc32c

LABELS = ["cat", "dog"]


@pytest.fixture(scope="session")
def whole_dataset(tmp_path_factory) -> Path:
    """20 records to train in 2 shards and 5 to evaluate: `image` and `label`, indexed."""
    uri = tmp_path_factory.mktemp("whole") / "dataset"
    shards, counts = [], {}
    for split, sizes in {"train": [10, 10], "eval": [5]}.items():
        for index, size in enumerate(sizes):
            name = ours.ShardName(split=split, shard_index=index, num_shards=len(sizes))
            (uri / name.path).parent.mkdir(parents=True, exist_ok=True)
            with (uri / name.path).open("wb") as stream:
                writer = ours.ShardWriter(stream)
                for number in range(size):
                    image = bytes([number, index]) * 50
                    writer.write(ours.encode_example({"image": image, "label": number % 2}))
                digest = writer.finish()._asdict()
            index_bytes = writer.index.to_bytes()
            path = uri / f"index/{split}-{index:05d}-of-{len(sizes):05d}.npy"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(index_bytes)
            crc = extend_crc32c(0, index_bytes)
            shards.append(ours.Shard(path=name.path, split=split, index_crc32c=crc, **digest))
        total = sum(sizes)
        counts[split] = {"cat": -(-total // 2), "dog": total // 2}
    manifest = ours.Manifest(
        shards=tuple(shards),
        accounting={
            "train": ours.Accounting(found=22, written=20, rejected=1, skipped=1),
            "eval": ours.Accounting(found=5, written=5),
        },
        producer="ImageExampleGen",
        config={},
        input_fingerprint="",
        label_counts=counts,
        reject_counts={"EMPTY_FILE": 1},
    )
    records = {
        split: {shard.path: shard.records for shard in manifest.shards_of(split)}
        for split in counts
    }
    features = {"image": ours.Feature(type="string"), "label": ours.Feature(type="int")}
    (uri / "shard_info.json").write_text(ours.datum.render_shard_info(records))
    (uri / "datum_to_type_and_shape_mapping.json").write_text(ours.datum.render_features(features))
    (uri / "rejects.jsonl").write_text(json.dumps({"code": "EMPTY_FILE", "source": "a"}) + "\n")
    (uri / "vocab").mkdir()
    (uri / "vocab/label.txt").write_text("".join(f"{label}\n" for label in LABELS))
    (uri / "schema.pbtxt").write_text("feature { name: 'image' }\n")
    small = [*uri.glob("*.*"), *uri.glob("vocab/*")]
    files = {str(path.relative_to(uri)): FileDigest.of(path.read_bytes()) for path in small}
    (uri / "manifest.json").write_text(dataclasses.replace(manifest, files=files).to_json())
    return uri


@pytest.fixture
def dataset(whole_dataset, tmp_path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole_dataset, tmp_path / "dataset"))
