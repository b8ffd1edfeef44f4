"""Rows kept as Parquet: Arrow's own reader, and TensorFlow's of tensors, find what was given."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from pipelines.tools.conversion import row_spool
from pipelines.tools.conversion.row_spool import RowSpool, Table
from trainer_utils.format import InputError
from trainer_utils.format.png import encode_png


def spooled(folder: Path, rows: Any, **columns: str) -> Table:
    spool = RowSpool(folder, columns=columns)
    for row in rows:
        spool.add(row)
    return spool.finish()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_spool, "_BATCH_ROWS", 2)


def test_columns_get_their_types_from_all_batches(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"n": number, "t": "a"} for number in range(5)]
    rows += [
        {"n": 0.5, "l": [1]},
        {"n": 7, "t": None, "l": []},
        {"n": 8, "t": "\u00e9", "l": [2.5]},
    ]
    table = pq.read_table(spooled(tmp_path, rows).path)
    assert table["n"].to_pylist() == [0, 1, 2, 3, 4, 0.5, 7, 8]
    assert table["t"].to_pylist() == ["a"] * 5 + [None, None, "\u00e9"]
    assert table["l"].to_pylist()[5:] == [[1.0], None, [2.5]]
    assert os.listdir(tmp_path) == ["rows.parquet"]


def test_tensors_are_bytes_with_a_spec(tmp_path: Path) -> None:
    arrays = [np.full((n, 2), n, np.float16) for n in range(1, 6)]
    made = spooled(tmp_path, ({"x": array, "v": array[:, 0].astype(np.int64)} for array in arrays))
    assert made.tensors == {"x": "float16[?,2]"}
    table = pq.read_table(made.path)
    for cell, array in zip(table["x"].to_pylist(), arrays, strict=True):
        np.testing.assert_array_equal(tf.io.parse_tensor(cell, tf.float16), array)
    assert table["v"].to_pylist() == [array[:, 0].tolist() for array in arrays]


def test_bytes_that_are_neither_images_nor_texts_are_said_to_be(
    tmp_path: Path, photos: list[Any]
) -> None:
    png = encode_png(photos[0])
    rows = [{"a": png, "b": png, "raw": b"\xff\x00", "text": b"plain"}] * 5
    assert spooled(tmp_path, rows).columns == {"a": "image", "b": "image", "raw": "string"}
    assert pq.read_table(tmp_path / "rows.parquet")["text"].to_pylist() == ["plain"] * 5


def test_pixels_are_png_where_a_column_is_of_images(tmp_path: Path, photos: list[Any]) -> None:
    rows = [{"image": photos[n], "other": photos[n]} for n in range(3)]
    made = spooled(tmp_path, rows)
    assert made.tensors == {"other": "uint8[40,48,3]"}
    for cell, pixels in zip(pq.read_table(made.path)["image"].to_pylist(), photos, strict=False):
        np.testing.assert_array_equal(tf.io.decode_png(cell), pixels)


def test_an_equal_table_is_left_as_it_is(tmp_path: Path) -> None:
    rows = [{"n": number} for number in range(5)]
    before = os.stat(spooled(tmp_path, rows).path)
    after = os.stat(spooled(tmp_path, rows).path)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1}, {"a": "x"}], r"'a': expected int .* got string.*record 1"),
        ([{"a": 1}, {"a": object()}], r"'a': expected bytes.*record 1"),
        ([{"a": 1}, [2]], r"got list \(record 1"),
        ([{"a": 1}, {2: 1}], r"dicts of values by feature.*record 1"),
        ([{"a": [[1], [2]]}], r"a list of lists. Make an array"),
        ([{"a": np.zeros(2, np.int8)}, {"a": np.zeros((2, 2), np.int8)}], "rank 1 .* rank 2"),
        ([], "expected rows with values"),
        ([{"a": None}], "expected rows with values"),
    ],
)
def test_what_cannot_be_a_table_leaves_nothing(rows: Any, message: str, tmp_path: Path) -> None:
    spool = RowSpool(tmp_path / "source", columns={})

    def spool_all() -> None:
        for row in rows:
            spool.add(row)
        spool.finish()

    with pytest.raises(InputError, match=f"(?s){message}"):
        spool_all()
    spool.discard()
    assert os.listdir(tmp_path) == []


def test_a_column_of_splits_is_none_beside_splits(tmp_path: Path) -> None:
    spool = RowSpool(tmp_path, columns={})
    with pytest.raises(InputError, match="'split': expected none beside the split 'train'"):
        spool.add({"split": "x"}, split="train")
    spool.add({"a": 1}, split="eval")
    assert pq.read_table(spool.finish().path)["split"].to_pylist() == ["eval"]
