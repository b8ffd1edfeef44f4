"""The manifest: its form, and what it refuses."""

import dataclasses
import hashlib
import json

import google_crc32c
import pytest

from tests.trainer_utils.format.manifests import MANIFEST, SEALED, SHARDS
from trainer_utils.format import Accounting, DatasetError, Manifest, Shard
from trainer_utils.format.naming import names_file


def test_a_manifest_is_read_as_it_was_written():
    assert Manifest.from_json(MANIFEST.to_json(), path="x") == MANIFEST


def test_its_keys_are_sorted_and_its_text_is_plain():
    text = MANIFEST.to_json()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert json.loads(text)["total"] == {"found": 8, "written": 6, "rejected": 1, "skipped": 1}
    assert json.loads(text)["shards"][1]["crc32c"] == "00000001"


def test_a_manifest_with_sums_is_of_version_2_and_read_as_it_was_written():
    text = SEALED.to_json()
    assert Manifest.from_json(text, path="x") == SEALED
    assert Manifest.from_json(text, path="x").to_json() == text
    value = json.loads(text)
    assert value["format_version"] == 2
    assert value["files"]["vocab/label.txt"] == {
        "bytes": 4,
        "crc32c": f"{google_crc32c.value(b'cat' + bytes([10])):08x}",
    }
    assert list(value) == sorted(value)


def test_a_manifest_of_version_1_is_as_it_was_and_one_half_of_each_is_refused():
    old, new = json.loads(MANIFEST.to_json()), json.loads(SEALED.to_json())
    assert old["format_version"] == 1
    assert set(new) - set(old) == {"checksum", "files"}
    mixed = [
        {**old, "format_version": 2},
        {**new, "format_version": 1},
        {**old, "files": new["files"]},
        {**old, "checksum": "00000000"},
        {name: value for name, value in new.items() if name != "files"},
        {name: value for name, value in new.items() if name != "checksum"},
    ]
    for value in mixed:
        text = json.dumps(value, indent=2, sort_keys=True) + "\n"
        with pytest.raises(DatasetError, match="the/file"):
            Manifest.from_json(text, path="the/file")


def test_names_of_records_are_among_the_files_so_that_older_programs_read_it():
    sums = {"index_crc32c": 7, "names_bytes": 1234, "names_crc32c": 0xABC}
    path = "Split-train/data_tfrecord-00000-of-00002"
    shards = [dataclasses.replace(SHARDS[0], path=path, **sums), *SHARDS[1:]]
    manifest = dataclasses.replace(SEALED, shards=tuple(shards))
    value = json.loads(manifest.to_json())
    path = names_file(shards[0].path)
    assert value["files"].pop(path) == {"bytes": 1234, "crc32c": "00000abc"}
    assert value["files"].keys() == SEALED.files.keys()
    assert not {name for entry in value["shards"] for name in entry if "names" in name}
    read = Manifest.from_json(manifest.to_json(), path="x")
    assert read == manifest
    assert path in read.published
    assert Shard.from_entry(shards[0].to_entry()) == shards[0]


@pytest.mark.parametrize("manifest", [MANIFEST, SEALED], ids=["version 1", "version 2"])
def test_its_digest_is_that_of_its_bytes_read_or_made(manifest):
    text = manifest.to_json()
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    read = Manifest.from_json(text, path="x")
    assert (manifest.digest, read.digest) == (digest, digest)
    changed = dataclasses.replace(read, producer="other")
    assert changed.digest == hashlib.blake2b(changed.to_json().encode(), digest_size=16).hexdigest()
    assert changed.digest != digest


def test_a_newer_format_is_told_from_damage():
    text = SEALED.to_json().replace('"format_version": 2', '"format_version": 3')
    with pytest.raises(DatasetError, match=r"expected at most format version 2, got 3\. Read it"):
        Manifest.from_json(text, path="x")


def test_a_changed_manifest_can_be_looked_at_by_who_asks_for_it():
    text = SEALED.to_json().replace("EMPTY_FILE", "FULL_FILE")
    with pytest.raises(DatasetError, match="own checksum"):
        Manifest.from_json(text, path="x")
    assert Manifest.from_json(text, path="x", is_checked=False).reject_counts == {"FULL_FILE": 1}


@pytest.mark.parametrize("field", ["found", "written", "rejected", "skipped"])
def test_an_accounting_that_does_not_add_up_is_refused(field):
    right = Accounting(found=8, written=6, rejected=1, skipped=1)
    with pytest.raises(DatasetError, match="found = written"):
        dataclasses.replace(right, **{field: getattr(right, field) + 1})


SIZES = {shard.path: shard.bytes for shard in SHARDS}


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({**SIZES, "Split-train/0": 99}, "'Split-train/0': expected 100 bytes, got 99"),
        ({"Split-train/1": 101}, "'Split-train/0': is missing"),
        ({**SIZES, "Split-train/9": 1}, "'Split-train/9': is no part"),
    ],
)
def test_files_that_are_not_the_manifests_are_named(sizes, sentence):
    MANIFEST.check_files(SIZES)
    with pytest.raises(DatasetError, match=sentence):
        MANIFEST.check_files(sizes)


def hostile() -> list[str]:
    good = json.loads(MANIFEST.to_json())
    texts = ["", "{", "[]", "null", "3", '"x"', "{}", json.dumps({**good, "format_version": 2})]
    for key in sorted(good.keys() - {"total"}):  # which the splits tell
        texts.append(json.dumps({name: value for name, value in good.items() if name != key}))
    for key in ("shards", "splits", "split_order", "format_version"):
        texts += [json.dumps({**good, key: wrong}) for wrong in (None, 3, "x", [1], {"a": 1})]
    shard = good["shards"][0]
    for wrong in ({"records": 1}, {**shard, "crc32c": 5}, {**shard, "crc32c": "xyz"}):
        texts.append(json.dumps({**good, "shards": [wrong]}))
    for key, value in {"records": "3", "bytes": None, "path": 3}.items():
        texts.append(json.dumps({**good, "shards": [{**shard, key: value}]}))
    texts.append(json.dumps({**good, "shards": [{**shard, "records": -1}]}))
    return texts


@pytest.mark.parametrize("text", hostile())
def test_what_is_no_manifest_is_refused_with_its_path(text):
    with pytest.raises(DatasetError, match="some/manifest"):
        Manifest.from_json(text, path="some/manifest.json")


def test_a_small_file_is_compared_with_its_sum():
    SEALED.check_text("vocab/label.txt", "cat\n", path="x/vocab/label.txt")
    SEALED.check_text("unknown", "anything", path="x")
    MANIFEST.check_text("vocab/label.txt", "anything", path="x")  # version 1 has no sums
    for other in ("cat", "bat\n", "", "cat\n\n"):
        with pytest.raises(DatasetError, match=r"'x/vocab/label\.txt': expected 4 bytes") as caught:
            SEALED.check_text("vocab/label.txt", other, path="x/vocab/label.txt")
        assert caught.value.path == "x/vocab/label.txt"
