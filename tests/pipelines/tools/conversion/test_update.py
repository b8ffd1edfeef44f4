"""`convert(update=True)` reuses shards of the newest dataset whose inputs have not changed."""

import os
from pathlib import Path

import pytest

from pipelines import convert
from pipelines.tools.conversion import convert as conversion
from tests.components.image_example_gen.image_runs import photo, read, value, write_tree
from tests.make import refusing


def tree(numbers) -> dict[str, bytes]:
    return {f"{'ab'[n % 2]}/{n}.jpg": photo(n) for n in numbers}


def inodes(uri: Path) -> set[int]:
    return {os.stat(path).st_ino for path in uri.glob("Split-*/*")}


@pytest.mark.parametrize("tfx", [True, False])
def test_update(tmp_path, monkeypatch, tfx):
    if not tfx:
        monkeypatch.setattr(conversion, "has_tfx", lambda: False)
    source, out = write_tree(tmp_path / "in", tree(range(40))), tmp_path / "out"
    settings = {"target_shard_bytes": 4000}
    first = convert(str(source), str(out), update=True, **settings)
    write_tree(source, tree(range(40, 43)))
    second = convert(str(source), str(out), update=True, **settings)
    assert second.examples != first.examples
    found = {value(e, "filename").decode() for es in read(Path(second)).values() for e in es}
    assert found == {*tree(range(43))}
    assert inodes(Path(first.examples)) <= inodes(Path(second))
    changes = second.manifest.config["update"]
    assert (changes["added"], changes["kept"]) == (3, 40)
    again = convert(str(source), str(out), update=True, **settings)
    assert (again, again.cached) == (second, True)
    with refusing("seed"):
        convert(str(source), str(out), update=True, **settings, seed=1)
    write_tree(source, {"a/none.jpg": b"none"})
    looser = convert(str(source), str(out), update=True, max_reject_fraction=0.5, **settings)
    assert looser.manifest.config["update"]["kept"] == 43
    assert convert(str(source), str(out), update=True, max_reject_fraction=0.5, **settings).cached
    with refusing("update"):
        convert(str(source), str(out), update=True, num_shards=2, **settings)


def test_update_keeps_an_up_to_date_conversion(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "has_tfx", lambda: False)
    source, out = write_tree(tmp_path / "in", tree(range(9))), tmp_path / "out"
    first = convert(str(source), str(out))
    again = convert(str(source), str(out), update=True)
    assert (again, again.cached) == (first, True)


def test_update_is_refused_for_tables(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "so good,pos\n" * 9)
    with refusing("update"):
        convert(str(table), str(tmp_path / "out"), update=True)


def test_update_takes_the_settings_of_the_base(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "has_tfx", lambda: False)
    source, out = write_tree(tmp_path / "in", tree(range(40))), tmp_path / "out"
    settings = {"num_shards": {"train": 4, "test": 2}, "seed": 5, "stratify": True}
    settings |= {"vocabulary": ["b", "a"], "compression": "gzip", "ignore": ["*.json"]}
    first = convert(source, out, splits={"train": 3, "test": 1}, **settings)
    assert convert(source, out, update=True) == first
    write_tree(source, {**tree(range(40, 42)), "a/notes.json": b"{}"})
    second = convert(source, out, update=True)
    assert second.manifest.config["update"]["kept"] == 40
    before = dict(first.manifest.config)
    after = dict(second.manifest.config)
    del after["update"]
    assert after == before
    third = convert(source, out, update=True, splits={"train": 3, "test": 1}, **settings)
    assert third.cached


def test_update_needs_edits_of_the_base_again(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "has_tfx", lambda: False)
    source, out = write_tree(tmp_path / "in", tree(range(40))), tmp_path / "out"
    convert(source, out, where="label == 'a'")
    write_tree(source, tree(range(40, 44)))
    updated = convert(source, out, update=True)
    values = {value(example, "label") for es in read(Path(updated)).values() for example in es}
    assert values == {0}
    convert(source, tmp_path / "fewer", exclude=["a/0.jpg"])
    with refusing("exclude"):
        convert(source, tmp_path / "fewer", update=True)
