"""Test the settings of TextExampleGen for texts, splits, order and shards; and record names."""

import json
import resource
import unicodedata
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from components.tables import row_ends
from components.tables.row_ends import CutLimits
from tests.components.runs import output_config
from tests.make import everything, write_files
from tests.record_names import check_record_names
from trainer_utils.core.errors import InputError

LABELS = ["ant", "bee", "cat", "dog", "emu"]


def table(rows: int) -> str:
    """Return a CSV of numbered texts with five labels of different frequency and twelve authors."""
    lines = [
        f"text of {n},{LABELS[min(n % 9, 4)]},author {n * n % 12},{n}\n" for n in range(1, rows + 1)
    ]
    return "text,label,author,n\n" + "".join(lines)


def contents(uri: Path) -> dict[str, bytes]:
    """Return every file of a dataset except its lineage, which contains the input path."""
    return {name: data for name, data in everything(uri).items() if name != "lineage.json"}


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    return write_files(tmp_path_factory.mktemp("many"), {"t.csv": table(900)}) / "t.csv"


@pytest.fixture(scope="module")
def plain(many, run_text, tmp_path_factory):
    """Convert the table with default settings."""
    return run_text(many, tmp_path_factory.mktemp("plain") / "out")


TEXTS = ["ÀÉ ẞ Straße", "e\u0301 A\u030a", "ﬁ ① ﾊﾟ", "İI ΑΣ", ""]


def test_only_the_text_column_is_normalized(convert, subtests):
    lines = "".join(json.dumps({"text": text, "other": text}) + "\n" for text in TEXTS)
    for form in (None, "NFC", "NFKD"):
        with subtests.test(form=form):
            dataset = convert({"t.jsonl": lines}, **({"normalize": form} if form else {}))
            for number, text in enumerate(TEXTS, 1):
                row = dataset.by_id()[f"t.jsonl:{number}"]
                assert row["text"][0].decode() == (
                    unicodedata.normalize(form, text) if form else text
                )
                assert row["other"][0].decode() == text


def test_texts_outside_min_and_max_chars_are_skipped(convert):
    texts = ["", "a", "éé", "😀😀😀", "four", "fives"]
    lines = "".join(json.dumps({"text": text, "n": 1}) + "\n" for text in texts)
    dataset = convert({"train.jsonl": lines + '{"n": 2}\n'}, min_chars=2, max_chars=4)
    assert dataset.texts() == {
        "train.jsonl:3": "éé",
        "train.jsonl:4": "😀😀😀",
        "train.jsonl:5": "four",
    }
    assert dataset.counts() == {"found": 7, "written": 3, "rejected": 0, "skipped": 4}


def test_duplicate_text_in_any_file_is_skipped(convert, monkeypatch):
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_bytes=1))
    monkeypatch.setattr(row_ends, "_BLOCK_BYTES", 8)
    files = {
        "train.csv": "text,n\na,1\nb,2\na,3\nA,4\na ,5\n",
        "test.csv": "text,n\nb,6\nc,7\n",
    }
    dataset = convert(files, deduplicate=True)
    # Files are read in the order of their names, so `test.csv` comes first.
    assert dataset.texts() == {
        "test.csv:1": "b",
        "test.csv:2": "c",
        "train.csv:1": "a",
        "train.csv:4": "A",
        "train.csv:5": "a ",
    }
    assert dataset.manifest["splits"]["train"]["skipped"] == 2
    assert dataset.counts() == {"found": 7, "written": 5, "rejected": 0, "skipped": 2}


def test_vocabulary_setting_gives_the_label_ids(convert):
    dataset = convert({"t.csv": "text,label\na,x\nb,y\n"}, vocabulary=["y", "never", "x"])
    assert dataset.vocabulary() == ["y", "never", "x"]
    assert {name: row["label"] for name, row in dataset.by_id().items()} == {
        "t.csv:1": [2],
        "t.csv:2": [0],
    }
    text = "text,mood,topic\na,sad,art\nb,gay,law\n"
    kinds = {"mood": "label", "topic": "label"}
    dataset = convert({"t.csv": text}, columns=kinds, vocabulary={"topic": ["law", "art"]})
    assert dataset.labels("mood") == {"t.csv:1": "sad", "t.csv:2": "gay"}
    assert (dataset.vocabulary("mood"), dataset.vocabulary("topic")) == (
        ["gay", "sad"],
        ["law", "art"],
    )


def test_stratified_splits_keep_class_shares_to_within_one(many, run_text, tmp_path):
    config = output_config(**(shares := {"a": 8, "b": 1, "c": 1}))
    dataset = run_text(many, tmp_path / "out", output_config=config, stratify=True)
    labels, splits = dataset.labels(), dataset.split_of()
    classes = Counter(labels.values())
    assert len(classes) == 5
    counts = Counter((labels[name], splits[name]) for name in labels)
    for label, size in classes.items():
        for split, share in shares.items():
            assert abs(counts[label, split] - size * share / sum(shares.values())) < 1


def test_row_keeps_its_split_when_rows_are_added(plain, run_text, tmp_path):
    base = write_files(tmp_path / "in", {"t.csv": table(1200)}) / "t.csv"
    after = run_text(base, tmp_path / "out").split_of()
    before = plain.split_of()
    assert {name: after[name] for name in before} == before


def test_seed_determines_bytes_and_order(many, plain, run_text, tmp_path):
    again = run_text(many, tmp_path / "again")
    other = run_text(many, tmp_path / "other", seed=1)
    assert contents(again.uri) == contents(plain.uri)
    assert other.by_id() == plain.by_id()
    assert other.split_of() != plain.split_of()
    config = output_config(a=1)
    one, two = (
        run_text(many, tmp_path / f"seed-{seed}", seed=seed, output_config=config).ids("a")
        for seed in (1, 2)
    )
    assert sorted(one) == sorted(two)
    assert one != two


def test_small_shards_differ_by_at_most_one_record(many, plain, run_text, tmp_path):
    dataset = run_text(many, tmp_path / "out", target_shard_bytes=4000)
    for split in dataset.splits:
        records = [s["records"] for s in dataset.manifest["shards"] if s["split"] == split]
        assert len(records) >= 5
        assert max(records) - min(records) <= 1
        assert all(1000 < path.stat().st_size < 8000 for path in dataset.shards(split))
        assert dataset.ids(split) == plain.ids(split)


@pytest.mark.parametrize(("rows", "size"), [(25, 1), (900, 3000)])
def test_bytes_do_not_depend_on_the_input_pieces(run_text, tmp_path, rows, size):
    settings = {"stratify": True, "deduplicate": True, "target_shard_bytes": 9000}
    (tmp_path / "t.csv").write_text(table(rows))
    whole = run_text(tmp_path / "t.csv", tmp_path / "whole", **settings)
    with (
        mock.patch.object(row_ends, "LIMITS", CutLimits(piece_bytes=size)),
        mock.patch.object(row_ends, "_BLOCK_BYTES", max(16, size // 4)),
    ):
        parts = run_text(tmp_path / "t.csv", tmp_path / "parts", **settings)
    assert contents(parts.uri) == contents(whole.uri)


def repeated(number: int, kind: str) -> pa.Array:
    """Return an array of `number` equal strings of 1000 characters, stored once in a dictionary."""
    array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(number, np.int32)), ["x" * 1000])
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array(np.arange(number + 1), pa.int32()), array)
    return array


@pytest.mark.parametrize("kind", ["text", "list"])
def test_parquet_file_that_expands_beyond_memory_raises(run_text, tmp_path, kind):
    good = run_text(write_files(tmp_path / "good", {"a.csv": table(3)}), tmp_path / "out")
    before = contents(good.uri)
    path = tmp_path / "in/bomb.parquet"
    path.parent.mkdir()
    number = 1_200_000
    rows = pa.table({"n": pa.array(np.arange(number)), "text": repeated(number, kind)})
    pyarrow.parquet.write_table(rows, path, row_group_size=number, compression="zstd")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"bomb\.parquet.*1073741824 bytes.* group 0.*TOO_LARGE"):
        run_text(tmp_path / "in", good.uri)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 1_400_000  # KiB
    with (
        mock.patch("components.tables.parquet._HELD_BYTES", 1000),
        mock.patch("components.tables.parquet._MAX_GROUP_BYTES", 8_000_000),
        pytest.raises(InputError, match=r"bomb\.parquet.*TOO_LARGE"),
    ):
        run_text(tmp_path / "in", good.uri, columns={"text": "ignore"})
    assert contents(good.uri) == before


ROWS = 60
TABLES = {
    "ids of ours": [{"text": f"{n} a"} for n in range(ROWS)],
    "some file names": [
        {"text": f"{n} a"} | ({"filename": ["", f"{n}.txt"][n % 3 - 1]} if n % 3 else {})
        for n in range(ROWS)
    ],
    "ids of theirs": [{"text": f"{n} a", "id": f"id {n % 7}"} for n in range(ROWS)],
    "lists": [
        {"text": f"{n} a", "filename": [f"{m}.txt" for m in range(n % 3)]} for n in range(ROWS)
    ],
}


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_index_names_match_the_record_names(run_text, tmp_path, rows):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    base = write_files(tmp_path / "in", {"t.jsonl": lines})
    run_text(base, tmp_path / "out", target_shard_bytes=1500)
    assert check_record_names(tmp_path / "out") == ROWS
