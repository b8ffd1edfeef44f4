"""Test that missing values of numpy, pandas and Arrow are missing or rejected, never invented."""

from typing import Any

import numpy as np
import pytest

from trainer_utils.core.errors import InputError
from trainer_utils.writing.values import Plain, stored_value

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

ONE_HIDDEN = [False, True, False]
PARTS_MISSING: dict[str, Any] = {
    "numpy, ints": np.ma.masked_array([1, 2, 3], ONE_HIDDEN),
    "numpy, fields": np.ma.masked_array([(1, 2)], mask=[(0, 1)], dtype=[("a", int), ("b", int)]),
    "numpy, texts": np.ma.masked_array(["a", "b", "c"], ONE_HIDDEN),
    "steps": [np.ma.masked_array([1, 2, 3], ONE_HIDDEN), np.arange(3)],
    "pandas, ints": pd.Series([1, None], dtype="Int64"),
    "pandas, texts": pd.array(["a", None], dtype="string"),
    "pandas, categories": pd.Categorical(["a", None]),
    "arrow, texts": pa.array(["a", None]),
    "arrow, chunks": pa.chunked_array([[1], [None]]),
    "objects": np.array([1, None], object),
}


@pytest.mark.parametrize("name", PARTS_MISSING)
def test_array_with_missing_values_raises(name: str) -> None:
    with pytest.raises(InputError, match=r"some are missing|got object"):
        stored_value(PARTS_MISSING[name])


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (pa.scalar(3), (3,)),
        (pd.Series([1, 2]), (1, 2)),
        (pd.array(["a", "b"], dtype="string"), (b"a", b"b")),
        (pd.Categorical(["a", "b"]), (b"a", b"b")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_complete_values_of_other_libraries_are_stored(value: Any, values: tuple[Any, ...]) -> None:
    found = stored_value(value)
    assert isinstance(found, Plain)
    assert found.values == values


def test_image_with_masked_pixels_raises(photos: list[Any]) -> None:
    hidden = np.ma.masked_array(photos[0], photos[0] > 200)
    with pytest.raises(InputError, match="some are missing"):
        stored_value(hidden, is_image=True)


@pytest.mark.parametrize(
    "value",
    [
        None,
        pd.NA,
        pd.NaT,
        np.ma.masked_array([1, 2, 3], ONE_HIDDEN)[1],
        pa.scalar(None, pa.int64()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_image", [False, True])
def test_null_values_are_missing(value: Any, is_image: bool) -> None:
    assert stored_value(value, is_image=is_image) is None
