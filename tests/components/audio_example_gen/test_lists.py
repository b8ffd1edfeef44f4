"""AudioExampleGen on lists of sounds: CSV, JSON lines and Parquet, with paths or bytes."""

import io
import json
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest

from tests.components.audio_example_gen.audio_runs import (
    FEATURES,
    by_name,
    check_law,
    convert,
    delimited,
    sound,
    vocabulary,
    write_sounds,
    write_tree,
)

# Lists --------------------------------------------------------------------------------------------

NAMES = ["1.wav", "more/2.flac", "3.ogg"]
ROWS = list(zip(NAMES, ["TRAIN", "VALIDATION", "TEST"], ["yes", "no", "yes"], strict=True))
OF_ROWS = {"1.wav": ("train", "yes"), "more/2.flac": ("eval", "no"), "3.ogg": ("test", "yes")}


def json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet(frame: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    pd.DataFrame(frame).to_parquet(stream, row_group_size=2)
    return stream.getvalue()


def records(column: str) -> list[dict[str, Any]]:
    return [{column: name, "split": split, "label": label} for name, split, label in ROWS]


LISTS: dict[str, tuple[str, str | bytes]] = {
    "CSV": ("list.csv", delimited([["audio", "split", "label"], *ROWS])),
    "CSV with no header": ("list.csv", delimited([[s, name, x] for name, s, x in ROWS])),
    "AudioFolder's CSV": ("metadata.csv", delimited([["file_name", "split", "label"], *ROWS])),
    "Common Voice's TSV": ("list.tsv", delimited([["path", "split", "label"], *ROWS], "\t")),
    "JSON lines": ("list.jsonl", json_lines(records("audio_uri"))),
    "Parquet": ("list.parquet", parquet(pd.DataFrame(records("audio")).to_dict("list"))),
}


@pytest.mark.parametrize(("name", "content"), LISTS.values(), ids=LISTS)
def test_a_list_gives_split_and_label(tmp_path, name, content):
    write_tree(write_sounds(tmp_path / "in", NAMES), {name: content})
    manifest = convert(tmp_path / "in", tmp_path / "out")
    check_law(manifest, tmp_path / "out")
    found = by_name(tmp_path / "out")
    label = next(iter({"label", "class"} & {*found["1.wav"]}))
    labels = vocabulary(tmp_path / "out", label)
    assert {n: (v["split"], labels[v[label]]) for n, v in found.items()} == OF_ROWS
    assert all(values.keys() == {*FEATURES, label, "split"} for values in found.values())
    assert found["1.wav"]["audio"] == sound(0)
    assert manifest["conversions"] == {"FLAC": 1, "OGG": 1}


EMBEDDED = {
    "bytes": ([sound(n) for n in range(5)], [f"list.parquet/{n:08d}" for n in range(5)]),
    "Hugging Face's": (
        [{"bytes": sound(n), "path": f"{n}.wav"} for n in range(5)],
        [f"{n}.wav" for n in range(5)],
    ),
    "Hugging Face's, with no paths": (
        [{"bytes": sound(n), "path": None} for n in range(5)],
        [f"list.parquet/{n:08d}" for n in range(5)],
    ),
}


@pytest.mark.parametrize(("values", "names"), EMBEDDED.values(), ids=EMBEDDED)
@pytest.mark.parametrize("column", ["audio", "speech"])
def test_sounds_may_be_in_the_parquet_file_itself(tmp_path, values, names, column):
    table = {column: values, "label": ["a", "b", "a", "b", "a"]}
    write_tree(tmp_path / "in", {"list.parquet": parquet(table)})
    manifest = convert(tmp_path / "in", tmp_path / "out")
    check_law(manifest, tmp_path / "out")
    found = by_name(tmp_path / "out")
    assert {name: (found[name]["audio"], found[name]["label"]) for name in found} == {
        name: (sound(n), n % 2) for n, name in enumerate(names)
    }
