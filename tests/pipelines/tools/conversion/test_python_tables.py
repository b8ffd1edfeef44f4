"""Python sources written as Parquet, checked with Arrow's reader and TensorFlow's tensor parser."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from pipelines.tools.conversion import python_tables
from pipelines.tools.conversion.python_tables import as_table
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.format.media_formats import encode_png


def kept(folder: Path, source: Any, **options: Any) -> tuple[pa.Table, Mapping[str, Any]]:
    path, found, _ = as_table(source, str(folder), options)
    assert os.listdir(folder) == ["rows.parquet"]
    return pq.read_table(path), found


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tables, "_BATCH_ROWS", 2)


def test_columns_get_their_types_from_all_batches(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"n": number, "t": "a"} for number in range(5)]
    rows += [
        {"n": 0.5, "l": [1]},
        {"n": 7, "t": None, "l": []},
        {"n": 8, "t": "\u00e9", "l": [2.5]},
    ]
    table, _ = kept(tmp_path, rows)
    assert table["n"].to_pylist() == [0, 1, 2, 3, 4, 0.5, 7, 8]
    assert table["t"].to_pylist() == ["a"] * 5 + [None, None, "\u00e9"]
    assert table["l"].to_pylist()[5:] == [[1.0], None, [2.5]]


def test_tensors_are_bytes_with_a_spec(tmp_path: Path) -> None:
    arrays = [np.full((n, 2), n, np.float16) for n in range(1, 6)]
    rows = ({"x": array, "v": array[:, 0].astype(np.int64)} for array in arrays)
    table, options = kept(tmp_path, rows)
    assert options["tensors"] == {"x": "float16[?,2]"}
    for cell, array in zip(table["x"].to_pylist(), arrays, strict=True):
        np.testing.assert_array_equal(tf.io.parse_tensor(cell, tf.float16), array)
    assert table["v"].to_pylist() == [array[:, 0].tolist() for array in arrays]


def test_bytes_are_images_texts_or_declared_binary(tmp_path: Path, photos: list[Any]) -> None:
    png = encode_png(photos[0])
    rows = [{"a": png, "b": png, "raw": b"\xff\x00", "text": b"plain"}] * 5
    table, options = kept(tmp_path, rows)
    assert options["columns"] == {"a": "image", "b": "image", "raw": "string"}
    assert table["text"].to_pylist() == ["plain"] * 5
    rows = [{"image": photos[n], "other": photos[n]} for n in range(3)]
    table, options = kept(tmp_path, rows)
    assert options["tensors"] == {"other": "uint8[40,48,3]"}
    for cell, pixels in zip(table["image"].to_pylist(), photos, strict=False):
        np.testing.assert_array_equal(tf.io.decode_png(cell), pixels)


FRAME = pd.DataFrame({"text": ["a b", None], "n": [1.5, 2.0], "tags": [["x"], []], 3: [1, 2]})


@pytest.mark.parametrize(
    "source",
    [FRAME, pa.Table.from_pandas(FRAME), pa.Table.from_pandas(FRAME).to_reader()],
    ids=["pandas", "arrow", "reader"],
)
def test_table_is_written_by_arrow(source: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(python_tables, "_write_rows", None)
    table, options = kept(tmp_path, source)
    assert table.select(["text", "n", "tags", "3"]).to_pydict() == {
        "text": ["a b", None],
        "n": [1.5, 2.0],
        "tags": [["x"], []],
        "3": [1, 2],
    }
    assert options == {}


def test_invalid_table_leaves_no_files(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for source in (
        [{"a": 1}, {"a": "x"}],
        [{"a": 1}, {"a": object()}],
        [{"a": 1}, [2]],
        [{"a": 1}, {2: 1}],
        [{"a": [[1], [2]]}],
        [{"a": np.zeros(2, np.int8)}, {"a": np.zeros((2, 2), np.int8)}],
        {"train": [{"split": "x"}], "eval": [{"a": 1}]},
        {"train": [{"a": 1}], "holdout": [{"a": 1}]},
        pd.DataFrame({"x": [[[1, 2], [3]]] * 2}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        ["a.jpg", "b.csv"],
        [],
        [{"a": None}],
        42,
    ):
        with subtests.test(source=source):
            with pytest.raises((ConfigError, DatasetError)):
                as_table(source, str(tmp_path / "source"), {})
            assert os.listdir(tmp_path) == []


def test_frame_of_arrays_is_written_row_by_row(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a b", "c d"], "x": [np.eye(2), np.eye(2)]})
    assert kept(tmp_path, frame, splits={"train": 1})[1] == {
        "splits": {"train": 1},
        "tensors": {"x": "float64[2,2]"},
    }
