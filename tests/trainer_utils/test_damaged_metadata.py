"""What stands beside the shards, and gzip, damaged in many ways: our errors name the file."""

import contextlib
import os
import random
import re
import shutil
import sys
from collections.abc import Iterator

import pytest
from fsspec.registry import _registry as used_schemes

from tests.trainer_utils.three_layouts import FEATURES
from trainer_utils import CorruptShardError, DatasetError, input_fn, iterate, plan
from trainer_utils.dataset import open_dataset

MUTATIONS = 120  # of each file
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


# --- gzip ---


@pytest.mark.parametrize(("has_manifest", "shuffle"), [(False, True), (True, False)])
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
        with pytest.raises(CorruptShardError) as caught:
            list(iterate(str(tmp_path), batch_size=8, shuffle=shuffle))
        assert caught.value.path.endswith(path.name), kind
        assert caught.value.offset is not None, kind


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


@pytest.mark.parametrize(
    ("scheme", "cure"),
    [("s3", r"pip install 'tfx-shards\[s3\]'"), ("nonsense", "got nonsense://")],
)
def test_a_scheme_that_cannot_be_read_says_what_is_missing(scheme, cure, monkeypatch):
    for package in ("obstore", "gcsfs"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    monkeypatch.delitem(used_schemes, scheme, raising=False)  # nor had ever been used
    with pytest.raises(DatasetError, match=f"{scheme}://bucket/set.*{cure}"):
        open_dataset(f"{scheme}://bucket/set")
