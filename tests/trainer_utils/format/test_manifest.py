"""The manifest: its form, and what it refuses."""

import dataclasses
import hashlib
import itertools
import json

import google_crc32c
import pytest

from trainer_utils.format import Accounting, DatasetError, Manifest, Shard
from trainer_utils.format.json_text import seal
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


def test_its_keys_are_sorted_and_its_text_is_plain():
    text = MANIFEST.to_json()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert json.loads(text)["total"] == {"found": 8, "written": 6, "rejected": 1, "skipped": 1}
    assert json.loads(text)["shards"][1]["crc32c"] == "00000001"


@pytest.mark.parametrize("version", [2, 3])
def test_a_manifest_names_other_files_and_is_read_as_it_was_written(version):
    manifest = dataclasses.replace(SEALED, format_version=version)
    text = manifest.to_json()
    assert Manifest.from_json(text, path="x") == manifest
    assert Manifest.from_json(text, path="x").to_json() == text
    assert json.loads(text)["files"]["vocab/label.txt"] == {
        "bytes": 4,
        "crc32c": f"{google_crc32c.value(b'cat' + bytes([10])):08x}",
    }


def test_other_versions_are_told_from_damage():
    for version in (1, 4):
        value = {"format_version": version, "checksum": "anything"}
        with pytest.raises(DatasetError, match=f"format version .*got {version}"):
            Manifest.from_json(json.dumps(value), path="x")


def test_its_digest_is_that_of_its_bytes_read_or_made():
    manifest, text = SEALED, SEALED.to_json()
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    read = Manifest.from_json(text, path="x")
    assert (manifest.digest, read.digest) == (digest, digest)
    changed = dataclasses.replace(read, producer="other")
    assert changed.digest == hashlib.blake2b(changed.to_json().encode(), digest_size=16).hexdigest()
    assert changed.digest != digest


def test_a_changed_manifest_can_be_looked_at_by_who_asks_for_it():
    text = SEALED.to_json().replace("EMPTY_FILE", "FULL_FILE")
    with pytest.raises(DatasetError, match="own checksum"):
        Manifest.from_json(text, path="x")
    assert Manifest.from_json(text, path="x", is_checked=False).reject_counts == {"FULL_FILE": 1}


@pytest.mark.parametrize("name", ["records", "bytes"])
def test_numbers_beyond_64_bits_are_refused_whoever_vouches_for_them(name):
    text = SEALED.to_json()
    size = json.loads(text)["shards"][0][name]
    huge = seal(text.replace(f'"{name}": {size},', f'"{name}": {2**64},'))
    assert huge != text
    with pytest.raises(DatasetError) as caught:
        Manifest.from_json(huge, path="x")
    assert caught.value.path == "x"


def test_an_accounting_that_does_not_add_up_is_refused():
    right = Accounting(found=8, written=6, rejected=1, skipped=1)
    for field in ("found", "written", "rejected", "skipped"):
        with pytest.raises(DatasetError):
            dataclasses.replace(right, **{field: getattr(right, field) + 1})


def test_files_that_are_not_the_manifests_are_named():
    right = {shard.path: shard.bytes for shard in SHARDS}
    MANIFEST.check_files(right)
    for sizes, name in (
        ({**right, "Split-train/0": 99}, "Split-train/0"),
        ({"Split-train/1": 101}, "Split-train/0"),
        ({**right, "Split-train/9": 1}, "Split-train/9"),
    ):
        with pytest.raises(DatasetError, match=f"'{name}'"):
            MANIFEST.check_files(sizes)


def hostile() -> list[str]:
    good = json.loads(MANIFEST.to_json())
    texts = ["", "{", "[]", "null", "3", '"x"', "{}"]
    for key in sorted(good.keys() - {"total", "checksum"}):  # which the splits tell
        texts.append(json.dumps({name: value for name, value in good.items() if name != key}))
    for key in ("shards", "splits", "split_order", "format_version"):
        texts += [json.dumps({**good, key: wrong}) for wrong in (None, 7, "x", [1], {"a": 1})]
    shard = good["shards"][0]
    for wrong in ({"records": 1}, {**shard, "crc32c": 5}, {**shard, "crc32c": "xyz"}):
        texts.append(json.dumps({**good, "shards": [wrong]}))
    for key, value in {"records": "3", "bytes": None, "path": 3}.items():
        texts.append(json.dumps({**good, "shards": [{**shard, key: value}]}))
    texts.append(json.dumps({**good, "shards": [{**shard, "records": -1}]}))
    return texts


def test_what_is_no_manifest_is_refused_with_its_path():
    for text, is_checked in itertools.product(hostile(), (True, False)):
        with pytest.raises(DatasetError, match="some/manifest"):
            Manifest.from_json(text, path="some/manifest.json", is_checked=is_checked)


def test_a_small_file_is_compared_with_its_sum():
    SEALED.check_text("vocab/label.txt", "cat\n", path="x/vocab/label.txt")
    SEALED.check_text("unknown", "anything", path="x")
    MANIFEST.check_text("vocab/label.txt", "anything", path="x")
    for other in ("cat", "bat\n", "", "cat\n\n"):
        with pytest.raises(DatasetError, match=r"'x/vocab/label\.txt': expected 4 bytes") as caught:
            SEALED.check_text("vocab/label.txt", other, path="x/vocab/label.txt")
        assert caught.value.path == "x/vocab/label.txt"
