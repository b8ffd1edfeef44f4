"""Rows from Python objects, including real objects of other libraries."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipelines.tools.conversion.python_sources import rows_of
from trainer_utils.core.errors import InputError

ROWS = [{"text": "good", "n": 1}, {"text": "bad", "n": 2}]


def found(source: Any, **options: Any) -> list[tuple[str | None, dict[str, Any]]]:
    return [(split, dict(row)) for split, row in rows_of(source, {"columns": {}, **options})]


def by_split(split: str) -> Iterator[dict[str, Any]]:
    yield from {"train": ROWS, "val": ROWS[:1]}.get(split, [])


def keyed(**kwargs: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from enumerate(by_split(kwargs["split"]))


SPLIT_ROWS = [("train", ROWS[0]), ("train", ROWS[1]), ("eval", ROWS[0])]
PLAIN_ROWS = [(None, row) for row in ROWS]


def test_rows_and_splits(subtests) -> None:
    for source, expected in (
        (ROWS, PLAIN_ROWS),
        ((row for row in ROWS), PLAIN_ROWS),
        (lambda: ROWS, PLAIN_ROWS),
        (enumerate(ROWS), PLAIN_ROWS),
        (by_split, SPLIT_ROWS),
        (keyed, SPLIT_ROWS),
        ({"train": ROWS, "val": lambda: ROWS[:1]}, SPLIT_ROWS),
        ({"train": by_split, "val": by_split}, SPLIT_ROWS),
        ({"text": ["good", "bad"], "n": [1, 2]}, PLAIN_ROWS),
        ({"train": {"text": ["good", "bad"], "n": (1, 2)}, "val": iter(ROWS[:1])}, SPLIT_ROWS),
    ):
        with subtests.test(source=source):
            assert found(source) == expected


def test_generators_of_datum_are_accepted(tmp_path: Path) -> None:
    from datum.generator import TextJsonDatumGenerator

    data = {str(n): {"text": f"text {n}", "label": {"polarity": str(n)}} for n in range(3)}
    (tmp_path / "train.json").write_text(json.dumps(data))
    expected = [("train", {"text": f"text {n}", "polarity": n}) for n in range(3)]
    assert found(TextJsonDatumGenerator(str(tmp_path))) == expected


def test_pixel_arrays_are_images_and_others_are_x(subtests) -> None:
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    for source, name in (
        (pixels, "image"),
        (pixels.astype(np.float32), "x"),
        (pixels[:, 0, 0], "x"),
    ):
        with subtests.test(source=source):
            rows = found(source)
            assert [list(row) for _, row in rows] == [[name], [name]]
            np.testing.assert_array_equal(rows[1][1][name], source[1])
    rows = found((pixels, np.array([[3], [4]])))
    assert [row["label"] for _, row in rows] == [3, 4]


def test_files_of_numpy(tmp_path: Path, subtests: pytest.Subtests) -> None:
    pixels = np.zeros((2, 4, 5), np.uint8)
    np.savez(tmp_path / "m.npz", x_train=pixels, y_train=[3, 4], x_test=pixels, y_test=[5, 6])
    rows = found(tmp_path / "m.npz")
    assert [(split, row["label"]) for split, row in rows] == [
        ("train", 3),
        ("train", 4),
        ("test", 5),
        ("test", 6),
    ]
    assert {tuple(row) for _, row in rows} == {("image", "label")}
    np.save(tmp_path / "a.npy", np.eye(2))
    assert [row["x"].tolist() for _, row in found(str(tmp_path / "a.npy"))] == [[1, 0], [0, 1]]
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "bad.npz").write_bytes(b"PK no zip")
    for name in ("o.npy", "bad.npz", "none.npy"):
        with subtests.test(name=name), pytest.raises(InputError, match=name):
            found(str(tmp_path / name))


def test_datasets_of_tensorflow() -> None:
    import tensorflow as tf

    x, y = tf.random.uniform((3, 4)), tf.range(3)
    rows = found(tf.data.Dataset.from_tensor_slices((x, y)))
    assert [row["label"] for _, row in rows] == [0, 1, 2]
    np.testing.assert_array_equal(rows[2][1]["x"], x[2])
    dicts = tf.data.Dataset.from_tensor_slices({"a": y, "b": tf.ragged.constant([[1], [], [2, 3]])})
    assert [row["b"].tolist() for _, row in found({"train": dicts})] == [[1], [], [2, 3]]
    single = tf.data.Dataset.from_tensor_slices(tf.zeros((2, 5, 6, 3), tf.uint8))
    assert [list(row) for _, row in found(single)] == [["image"]] * 2


def test_missing_values_of_pandas_are_missing() -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {"a": [1.5, float("nan")], "b": ["x", None], "c": [np.eye(2), np.zeros(2)]}
    )
    rows = [row for _, row in found(frame)]
    assert (rows[1]["a"], rows[1]["b"]) == (None, None)
    np.testing.assert_array_equal(rows[0]["c"], np.eye(2))


def test_hugging_face_features_set_column_kinds() -> None:
    class Image:
        def __init__(self, decode: bool = True) -> None:
            self.decode = decode

    class ClassLabel:
        names = ("cat", "dog")

    class Dataset(SimpleNamespace):
        def cast_column(self, name: str, feature: Image) -> "Dataset":
            assert not feature.decode
            return Dataset(features={**self.features, name: feature}, rows=self.rows)

        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter(self.rows)

    rows = [{"photo": {"bytes": b"1", "path": None}, "kind": n} for n in (0, 1, -1)]
    dataset = Dataset(features={"photo": Image(), "kind": ClassLabel()}, rows=rows)
    options: dict[str, Any] = {"columns": {"kind": "label"}}
    labels = [row["kind"] for _, row in rows_of({"train": dataset}, options)]
    assert labels == ["cat", "dog", None]
    assert options["columns"] == {"kind": "label", "photo": "image"}
    assert options["vocabulary"] == {"kind": ["cat", "dog"]}
