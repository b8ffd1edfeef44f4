"""What stands beside the shards, and gzip, damaged in many ways: our errors name the file."""

import contextlib
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import ConfigError, DatasetError, input_fn, plan
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature

FEATURES = {"id": Feature(type="int"), "text": Feature(type="string")}
MUTATIONS = 120  # of each file
TFDS_INFO = {
    "fileFormat": "tfrecord",
    "name": "set",
    "splits": [
        {
            "name": "train",
            "shardLengths": ["6"],
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        }
    ],
}
TFDS_FEATURES = {
    "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "id": {
                "pythonClassName": "tensorflow_datasets.core.features.scalar.Scalar",
                "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
            }
        }
    },
}
WRONG = [
    b"null",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"[]",
    b"{}",
    b'""',
    b"NaN",
    b"true",
    b'"\\ud800"',
    b"2147483648",
]


def mutations(data: bytes, seed: int) -> Iterator[bytes]:
    """Cut, flipped, replaced and wrong in other ways."""
    source = random.Random(seed)
    yield from (b"", b"[" * 100_000, b"\xff\xfe", b"\0" * len(data), b'{"a":' * 50_000, b"[]", b"3")
    for _ in range(MUTATIONS):
        place = source.randrange(len(data))
        values = [
            m.span() for m in re.finditer(rb'(?<=: )[^,\n]+|(?<=[\[ ])"?[\w.]+"?(?=[,\]])', data)
        ]
        start, stop = source.choice(values)
        yield source.choice(
            [
                data[:place],
                data[:place] + bytes([data[place] ^ 1 << source.randrange(8)]) + data[place + 1 :],
                data[:place] + b"\xc3\x28" + data[place:],
                data[:place] + source.randbytes(4) + data[place + 4 :],
                data[:start] + source.choice(WRONG) + data[stop:],
                data[:start] + source.choice(WRONG) + data[stop:],
            ]
        )


@pytest.fixture
def layouts(tmp_path, write_dataset, serialize) -> dict[str, Path]:
    """One dataset as we write it, as Datum does, and as TFDS does."""
    rows = [{"id": [n], "text": [b"text"]} for n in range(6)]
    ours, datum, tfds = (tmp_path / name for name in ("ours", "datum", "tfds"))
    write_dataset(ours, {"train": [rows]}, FEATURES)
    shutil.copytree(ours, datum)
    (datum / "manifest.json").unlink()
    tfds.mkdir()
    with tf.io.TFRecordWriter(str(tfds / "set-train.tfrecord-00000-of-00001")) as writer:
        for row in rows:
            writer.write(serialize(**row))
    (tfds / "dataset_info.json").write_text(json.dumps(TFDS_INFO, indent=1))
    (tfds / "features.json").write_text(json.dumps(TFDS_FEATURES, indent=1))
    for uri in (ours, datum, tfds):
        assert open_dataset(str(uri)).records == {"train": 6}
    return {"ours": ours, "datum": datum, "tfds": tfds}


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ("ours", "manifest.json"),
        ("ours", "datum_to_type_and_shape_mapping.json"),
        ("datum", "shard_info.json"),
        ("datum", "datum_to_type_and_shape_mapping.json"),
        ("tfds", "dataset_info.json"),
        ("tfds", "features.json"),
    ],
)
def test_damaged_metadata_is_an_error_of_ours(layouts, layout, name):
    uri = layouts[layout]
    good = (uri / name).read_bytes()
    refused = 0
    for bad in mutations(good, seed=len(name)):
        (uri / name).write_bytes(bad)
        try:
            plan(str(uri), batch_size=2)
            if "features" in name or "mapping" in name:
                input_fn(str(uri), batch_size=2)
        except DatasetError:
            refused += 1
    assert refused > MUTATIONS / 4


@pytest.mark.parametrize(
    ("layout", "name"),
    [("ours", "manifest.json"), ("datum", "shard_info.json"), ("tfds", "features.json")],
)
def test_what_is_not_utf_8_is_named_with_its_byte(layouts, layout, name):
    path = layouts[layout] / name
    good = path.read_bytes()
    path.write_bytes(good[:9] + b"\xe9" + good[9:])
    with pytest.raises(DatasetError, match=rf"{layout}/{name}'.*UTF-8.*\(byte 9\)"):
        input_fn(str(layouts[layout]))


# --- gzip ---


@pytest.mark.parametrize("has_manifest", [False, True])
@pytest.mark.parametrize("shuffle", [True, False])
def test_damaged_gzip_is_named(tmp_path, write_dataset, has_manifest, shuffle):
    rows = [{"id": [n], "text": [random.Random(n).randbytes(30)]} for n in range(200)]
    write_dataset(tmp_path, {"train": [rows]}, FEATURES, gzip=True)
    if not has_manifest:
        for name in ("manifest.json", "shard_info.json"):
            (tmp_path / name).unlink()
    (path,) = (tmp_path / "Split-train").iterdir()
    good = path.read_bytes()
    source = random.Random(0)
    for kind in ("magic", "cut", "sum", "flip", "flip", "zeros", "text"):
        place = source.randrange(20, len(good) - 20)
        bad = {
            "magic": b"\0\0" + good[2:],
            "cut": good[:place].ljust(len(good), b"\0"),
            "sum": good[:-8] + b"\1\2\3\4" + good[-4:],
            "flip": good[:place] + bytes([good[place] ^ 0x40]) + good[place + 1 :],
            "zeros": bytes(len(good)),
            "text": b"x" * len(good),
        }[kind]
        path.write_bytes(bad)
        with pytest.raises((DatasetError, tf.errors.OpError)) as caught:
            list(input_fn(str(tmp_path), batch_size=8, shuffle=shuffle))
        assert path.name in str(caught.value), kind
        assert "byte" in str(caught.value), kind
        assert type(caught.value) is not DatasetError, kind


# --- Where it is ---


def test_the_folder_that_convert_was_given_stands_for_its_newest_dataset(layouts, tmp_path):
    out = tmp_path / "out"
    (out / "artifacts").mkdir(parents=True)
    for run in ("4", "9"):
        shutil.copytree(layouts["ours"], out / "artifacts" / run)
        with contextlib.suppress(FileNotFoundError):
            (out / "latest").unlink()
        os.symlink(f"artifacts/{run}", out / "latest", target_is_directory=True)
    for spelling in (str(out), f"{out}/", f"{out}/latest", f"{out}/latest/Split-train/*"):
        assert open_dataset(spelling).uri == str(out / "artifacts" / "9")
        assert sum(len(batch["id"]) for batch in input_fn(spelling)) == 6
    assert plan(str(out), batch_size=2).steps == 3
    assert str(out) in plan(str(out), batch_size=2).workers[0].shards[0].path


@pytest.mark.parametrize(
    ("scheme", "cure"),
    [
        ("s3", r"pip install 'tfx-shards\[s3\]'"),
        ("gs", r"pip install 'tfx-shards\[gcs\]'"),
        ("az", "adlfs"),
        ("nonsense", "a url that fsspec knows, such as gs:// or s3://, got nonsense://"),
    ],
)
def test_a_scheme_that_cannot_be_read_says_what_is_missing(scheme, cure, monkeypatch):
    for package in ("s3fs", "gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    for read in (input_fn, plan, open_dataset):
        with pytest.raises(DatasetError, match=f"{scheme}://bucket/set.*{cure}"):
            read(f"{scheme}://bucket/set")


# --- The cache of this user ---


def test_the_cache_on_disk_is_this_users_own(layouts, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    uri = str(layouts["ours"])
    assert len(list(input_fn(uri, batch_size=2, cache="disk"))) == 3
    (own,) = temporary.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    assert len(list(input_fn(uri, batch_size=2, cache="disk"))) == 3
    own.chmod(0o777)
    with pytest.raises(ConfigError, match=rf"cache: expected '{own}' .* \(mode 777\)"):
        input_fn(uri, cache="disk")
    shutil.move(own, tmp_path / "theirs")
    own.symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match=r"cache: .* got no folder"):
        input_fn(uri, cache="disk")
    own.unlink()
    own.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"cache: .* got no folder"):
        input_fn(uri, cache="disk")


def test_the_cache_on_disk_of_somebody_else_is_refused(layouts, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    (tmp_path / "tfx-shards-4000000").mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=r"cache: .* got one of user"):
        trainer_utils.input_fn(str(layouts["ours"]), cache="disk")
