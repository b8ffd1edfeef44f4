"""An updated dataset equals a fresh conversion, and only costs the changes."""

import json
import os
import shutil
import uuid
from pathlib import Path

import pytest

from components import steps
from components.example_gen import file_shards
from components.example_gen.settings import ImageSettings
from pipelines.tools.verification import verify_dataset
from tests.components.image_example_gen.image_runs import (
    convert,
    flat,
    photo,
    read,
    value,
    write_tree,
)
from trainer_utils.core.errors import ConfigError

SMALL = {"target_shard_bytes": 4000, "seed": 5}


def tree(numbers, offset=0) -> dict[str, bytes]:
    return {f"{'ab'[n % 2]}/{n}.jpg": photo(n + offset) for n in numbers}


def contents(uri: Path) -> dict[str, dict[bytes, bytes]]:
    """Return the records of each split by name, as read by TensorFlow."""
    return {
        split: {value(e, "filename"): e.SerializeToString(deterministic=True) for e in examples}
        for split, examples in read(uri).items()
    }


def inodes(uri: Path) -> set[int]:
    return {os.stat(path).st_ino for path in uri.glob("Split-*/*")}


@pytest.fixture
def base(tmp_path) -> tuple[Path, Path]:
    folder = write_tree(tmp_path / "in", tree(range(60)))
    convert(folder, tmp_path / "base", **SMALL)
    return folder, tmp_path / "base"


def test_only_added_files_are_encoded(base, tmp_path, monkeypatch, subtests):
    folder, uri = base
    write_tree(folder, tree(range(60, 64)))
    encoded = []
    encode = file_shards.encode_entry

    def count(entry, *more):
        encoded.append(entry.name)
        return encode(entry, *more)

    monkeypatch.setattr(file_shards, "encode_entry", count)
    updated = convert(folder, tmp_path / "new", base_dataset=str(uri), **SMALL)
    assert sorted(encoded) == sorted(tree(range(60, 64)))
    monkeypatch.undo()
    fresh = convert(folder, tmp_path / "fresh", **SMALL)
    assert contents(tmp_path / "new") == contents(tmp_path / "fresh")
    assert inodes(uri) < inodes(tmp_path / "new")
    changes = updated["config"].pop("update")
    counts = {name: changes[name] for name in ("added", "changed", "removed", "kept")}
    assert counts == {"added": 4, "changed": 0, "removed": 0, "kept": 60}
    assert changes["base"]
    for name in ("input_fingerprint", "total", "conversions", "rejects", "config"):
        with subtests.test(name=name):
            assert updated[name] == fresh[name], name
    for split, facts in fresh["splits"].items():
        for name in ("content", "labels", "records", "found"):
            assert updated["splits"][split][name] == facts[name]


def test_changed_removed_and_rejected_files_are_updated(base, tmp_path, subtests):
    folder, uri = base
    settings = {**SMALL, "max_reject_fraction": 0.5}
    shutil.rmtree(uri)
    write_tree(folder, {"a/bad.jpg": b"no image", "b/mended.jpg": photo(90)[:200]})
    convert(folder, uri, **settings)
    names = sorted(tree(range(60)))
    (folder / names[0]).unlink()
    write_tree(folder, {names[7]: photo(500), "a/late.png": photo(7, "PNG", size=(9, 5))})
    write_tree(folder, {"b/mended.jpg": photo(90), names[20]: photo(3)[:100]})
    same_size = bytearray((folder / names[30]).read_bytes())
    same_size[-20] ^= 4
    (folder / names[30]).write_bytes(same_size)
    updated = convert(folder, tmp_path / "new", base_dataset=str(uri), **settings)
    fresh = convert(folder, tmp_path / "fresh", **settings)
    assert contents(tmp_path / "new") == contents(tmp_path / "fresh")
    changes = updated["config"]["update"]
    assert [changes[name] for name in ("added", "changed", "removed", "kept")] == [2, 2, 2, 56]
    for name in ("input_fingerprint", "total", "rejects", "conversions"):
        with subtests.test(name=name):
            assert updated[name] == fresh[name]
    for name in ("rejects.jsonl", "datum_to_type_and_shape_mapping.json", "vocab/label.txt"):
        with subtests.test(name=name):
            assert (tmp_path / "new" / name).read_text() == (tmp_path / "fresh" / name).read_text()
    again = convert(folder, tmp_path / "again", base_dataset=str(tmp_path / "new"), **settings)
    assert again["shards"] == updated["shards"]
    assert inodes(tmp_path / "again") == inodes(tmp_path / "new")


def test_label_ids_stay_the_same(base, tmp_path):
    folder, uri = base
    write_tree(folder, {"aa/new.jpg": photo(80)})
    shutil.rmtree(folder / "b")
    convert(folder, tmp_path / "new", base_dataset=str(uri), **SMALL)
    assert (tmp_path / "new/vocab/label.txt").read_text().split() == ["a", "b", "aa"]
    labels = {value(e, "filename"): value(e, "label") for e in flat(tmp_path / "new")}
    assert labels.pop(b"aa/new.jpg") == 2
    assert set(labels.values()) == {0}


def test_update_in_a_store(base, tmp_path):
    folder, _ = base
    place, settings = f"memory://{uuid.uuid4().hex}", ImageSettings(**SMALL)
    steps.convert(str(folder), f"{place}/base", settings)
    write_tree(folder, tree(range(60, 63)))
    settings = ImageSettings(**SMALL, base_dataset=f"{place}/base")
    made = steps.convert(str(folder), f"{place}/new", settings).manifest
    fresh = convert(folder, tmp_path / "fresh", **SMALL)
    for split in made.splits:
        assert f"{made.content_of(split):016x}" == fresh["splits"][split]["content"]
    assert made.config["update"]["kept"] == 60
    with pytest.raises(ConfigError):
        steps.convert(str(folder), f"{place}/base", settings)
    assert not verify_dataset(f"{place}/new").problems


def test_invalid_updates_are_refused(base, tmp_path, subtests):
    folder, uri = base
    without_inputs = Path(shutil.copytree(uri, tmp_path / "none"))
    (without_inputs / "inputs.json").unlink()
    for setting, changes, target in (
        ("seed", {"seed": 6}, tmp_path / "new"),
        ("resize_shorter_side", {"resize_shorter_side": 10}, tmp_path / "new"),
        ("base_dataset", {}, uri),
        ("base_dataset", {"base_dataset": str(without_inputs)}, tmp_path / "new"),
    ):
        with subtests.test(setting=setting):
            with pytest.raises(ConfigError) as caught:
                convert(folder, target, **{"base_dataset": str(uri), **SMALL, **changes})
            assert caught.value.setting == setting
            assert json.loads((uri / "manifest.json").read_text())
