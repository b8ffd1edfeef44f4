"""Test the form of `manifest.json` and `lineage.json`, and the rejection of invalid ones."""

import dataclasses
import hashlib
import itertools
import json
import re

import google_crc32c
import pytest

from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import render_json
from trainer_utils.format import Accounting, Manifest, Shard
from trainer_utils.format.lineage import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.format.manifest import FileDigest
from trainer_utils.format.sealing import seal

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
TEXT = SEALED.to_json()


def test_json_keys_are_sorted():
    text = MANIFEST.to_json()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert json.loads(text)["total"] == {"found": 8, "written": 6, "rejected": 1, "skipped": 1}
    assert json.loads(text)["shards"][1]["crc32c"] == "00000001"


@pytest.mark.parametrize("version", [2, 3])
def test_manifest_survives_a_round_trip(version):
    manifest = dataclasses.replace(SEALED, format_version=version)
    text = manifest.to_json()
    assert Manifest.from_json(text, path="x") == manifest
    assert Manifest.from_json(text, path="x").to_json() == text
    assert json.loads(text)["files"]["vocab/label.txt"] == {
        "bytes": 4,
        "crc32c": f"{google_crc32c.value(b'cat' + bytes([10])):08x}",
    }


def test_unknown_format_version_raises(subtests):
    for version in (1, 5):
        with subtests.test(version=version):
            value = {"format_version": version, "checksum": "anything"}
            with pytest.raises(DatasetError, match=f"format version .*got {version}"):
                Manifest.from_json(json.dumps(value), path="x")


def test_digest_is_the_hash_of_the_text():
    def digest(text: str) -> str:
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    read = Manifest.from_json(TEXT, path="x")
    assert SEALED.digest == read.digest == digest(TEXT)
    changed = dataclasses.replace(read, producer="other")
    assert changed.digest == digest(changed.to_json()) != read.digest


def test_checksum_is_the_crc_of_the_zeroed_text(subtests):
    said = json.loads(TEXT)["checksum"]
    zeroed = TEXT.replace(f'"checksum": "{said}"', '"checksum": "00000000"')
    assert f"{google_crc32c.value(zeroed.encode()):08x}" == said
    assert seal(zeroed) == TEXT == seal(TEXT)
    line = f'  "checksum": "{said}",\n'
    for bad, count in ((TEXT.replace(line, line * 2), 2), (TEXT.replace(line, ""), 0)):
        with subtests.test(bad=bad):
            with pytest.raises(ValueError, match=f"expected a line with its checksum, got {count}"):
                seal(bad)
    forged = '\n  "checksum": "12345678"'  # not a separate line, since it is in a JSON string
    manifest = dataclasses.replace(SEALED, config={"a": forged, "checksum": "12345678"})
    assert Manifest.from_json(manifest.to_json(), path="x") == manifest


def test_changed_manifest_raises_if_checked(subtests):
    for old, new in (("abc", "abd"), ("}\n", "}\n\n"), ('"records": 3', '"records": 4')):
        with subtests.test(old=old):
            assert old in TEXT
            with pytest.raises(DatasetError, match="own checksum does not agree"):
                Manifest.from_json(TEXT.replace(old, new), path="x")
    text = TEXT.replace("EMPTY_FILE", "FULL_FILE")
    assert Manifest.from_json(text, path="x", is_checked=False).reject_counts == {"FULL_FILE": 1}


@pytest.mark.parametrize("name", ["records", "bytes"])
def test_numbers_beyond_64_bits_raise_despite_a_checksum(name):
    size = json.loads(TEXT)["shards"][0][name]
    huge = seal(TEXT.replace(f'"{name}": {size},', f'"{name}": {2**64},'))
    assert huge != TEXT
    with pytest.raises(DatasetError) as caught:
        Manifest.from_json(huge, path="x")
    assert caught.value.path == "x"


def test_accounting_that_does_not_add_up_raises(subtests):
    right = Accounting(found=8, written=6, rejected=1, skipped=1)
    for field in ("found", "written", "rejected", "skipped"):
        with subtests.test(field=field), pytest.raises(DatasetError):
            dataclasses.replace(right, **{field: getattr(right, field) + 1})


def test_files_that_differ_from_the_manifest_raise(subtests):
    right = {shard.path: shard.bytes for shard in SHARDS}
    MANIFEST.check_files(right)
    for sizes, name in (
        ({**right, "Split-train/0": 99}, "Split-train/0"),
        ({"Split-train/1": 101}, "Split-train/0"),
        ({**right, "Split-train/9": 1}, "Split-train/9"),
    ):
        with subtests.test(sizes=sizes), pytest.raises(DatasetError, match=f"'{name}'"):
            MANIFEST.check_files(sizes)


def hostile() -> list[str]:
    good = json.loads(MANIFEST.to_json())
    texts = ["", "{", "[]", "null", "3", '"x"', "{}"]
    for key in sorted(good.keys() - {"total", "checksum"}):  # derived from the splits
        texts.append(json.dumps({name: value for name, value in good.items() if name != key}))
    for key in ("shards", "splits", "split_order", "format_version"):
        texts += [json.dumps({**good, key: wrong}) for wrong in (None, 7, "x", [1], {"a": 1})]
    shard = good["shards"][0]
    changes = {"records": ["3", -1], "bytes": [None], "path": [3], "crc32c": [5, "xyz"]}
    shards = [{**shard, key: value} for key, values in changes.items() for value in values]
    texts += [json.dumps({**good, "shards": [wrong]}) for wrong in ({"records": 1}, *shards)]
    return texts


def test_invalid_manifest_raises_with_its_path(subtests):
    for text, is_checked in itertools.product(hostile(), (True, False)):
        with subtests.test(text=text), pytest.raises(DatasetError, match="some/manifest"):
            Manifest.from_json(text, path="some/manifest.json", is_checked=is_checked)


def test_small_file_is_checked_against_its_digest(subtests):
    SEALED.check_text("vocab/label.txt", "cat\n", path="x/vocab/label.txt")
    SEALED.check_text("unknown", "anything", path="x")
    MANIFEST.check_text("vocab/label.txt", "anything", path="x")
    for other in ("cat", "bat\n", "", "cat\n\n"):
        with subtests.test(other=other):
            with pytest.raises(
                DatasetError, match=r"'x/vocab/label\.txt': expected 4 bytes"
            ) as caught:
                SEALED.check_text("vocab/label.txt", other, path="x/vocab/label.txt")
            assert caught.value.path == "x/vocab/label.txt"


def test_summary_covers_the_whole_dataset():
    contents = {"s0": 0xF, "s1": 0x1}
    shards = [
        Shard(path=path, split="train", records=1, bytes=9, crc32c=0, content=content)
        for path, content in contents.items()
    ]
    manifest = dataclasses.replace(MANIFEST, shards=tuple(shards))
    assert DatasetSummary.of(manifest) == DatasetSummary(
        producer="test",
        input_fingerprint="abc",
        versions={"tfx": "1.16.0"},
        accounting=MANIFEST.accounting,
        num_shards={"train": 2, "eval": 0},
        content={"train": f"{0x10:016x}", "eval": f"{0:016x}"},
        rejects={"EMPTY_FILE": 1},
    )


PATH = "out/lineage.json"
ORIGIN = Origin(
    made_by=Step(
        component="ShardBalancer",
        settings={"num_shards": {"train": 8}, "seed": 5},
        inputs=(DatasetInput(name="examples", digest="1"),),
        output="balanced_examples",
    ),
    ancestors=(
        Ancestor(digest="2"),
        Ancestor(
            digest="1",
            summary=DatasetSummary.of(MANIFEST),
            made_by=Step(component="ImageExampleGen", settings={"input_base": "größe/"}),
        ),
    ),
)


def test_unknown_key_of_a_shard_raises():
    value = json.loads(SEALED.to_json())
    value["shards"][0]["index_crc"] = "00000000"
    with pytest.raises(DatasetError, match=r"shards\[0\]: expected only path, .*, got 'index_crc'"):
        Manifest.from_json(seal(render_json(value)), path="x")
    value = json.loads(SEALED.to_json())
    value["owner"] = "me"
    assert Manifest.from_json(seal(render_json(value)), path="x") == SEALED


def test_lineage_round_trip_ignores_unknown_keys():
    assert Origin.from_json(ORIGIN.to_json(), path=PATH) == ORIGIN
    summary = Origin.from_json(ORIGIN.to_json(), path=PATH).ancestors[1].summary
    assert list(summary.num_shards) == list(summary.accounting) == ["train", "eval"]
    value = json.loads(ORIGIN.to_json())
    value["made_by"]["host"] = value["ancestors"][0]["host"] = "h"
    value["made_by"]["inputs"][0]["host"] = "h"
    assert Origin.from_json(seal(render_json(value)), path=PATH) == ORIGIN


def test_invalid_or_changed_lineage_raises():
    value = json.loads(ORIGIN.to_json())
    made_by = [
        {"component": 5},
        {"inputs": [{"name": "examples", "digest": 1}]},
        {"inputs": [{}]},
        {"settings": "none"},
    ]
    changes = [{"made_by": {**value["made_by"], **change}} for change in made_by]
    changes += [{"format_version": 2}, {"ancestors": None}, {"made_by": {}}]
    bad = [seal(render_json({**value, **change})) for change in changes]
    for place in range(0, 600, 37):
        data = bytearray(ORIGIN.to_json().encode())
        data[place] ^= 1
        bad.append(data.decode(errors="surrogateescape"))
    for text in bad:
        with pytest.raises(DatasetError, match=re.escape(PATH)):
            Origin.from_json(text, path=PATH)
