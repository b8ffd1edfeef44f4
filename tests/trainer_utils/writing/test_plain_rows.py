"""Test that the fast path for rows of numbers and strings writes the same files."""

import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_utils import DatasetWriter
from trainer_utils.core.errors import InputError

LABELS = ["a", "b", "ü"]
INTS = st.one_of(st.integers(-3, 300), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.floats(width=32)
TEXTS = st.one_of(st.text(max_size=300), st.binary(max_size=40), st.just("x" * 20_000))
ROWS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"id": TEXTS, "x": FLOATS, "n": INTS}),
        st.fixed_dictionaries({"n": INTS, "id": TEXTS, "label": st.sampled_from([*LABELS, 0, 2])}),
        st.fixed_dictionaries({"x": st.one_of(FLOATS, st.integers(-5, 5), st.none()), "n": INTS}),
        st.fixed_dictionaries({"n": st.one_of(INTS, st.booleans(), st.just([1, 2]))}),
    ),
    min_size=1,
    max_size=40,
)


def files_of(folder: Path, rows: list[dict[str, Any]], *, is_fast: bool, **given) -> dict:
    """Return the files of a dataset of rows, leaving out rows that cannot be written."""
    with DatasetWriter(folder, vocabulary=LABELS, **given) as writer:
        for number, row in enumerate([{"n": 1, "x": 0.5, "id": "first", "label": "a"}, *rows]):
            split = ("train", "eval")[number % 3 == 2]
            try:
                writer.write(split, row if is_fast else types.MappingProxyType(row))
            except InputError:
                continue
    paths = filter(Path.is_file, folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@settings(deadline=None, max_examples=60)
@given(
    rows=ROWS,
    given=st.sampled_from(
        [
            {},
            {"num_shards": 3},
            {"num_shards": {"train": 2}, "compression": "gzip"},
            {"target_shard_bytes": 200},
        ]
    ),
)
def test_fast_path_writes_the_same_files(tmp_path_factory, rows, given):
    folder = tmp_path_factory.mktemp("rows")
    fast = files_of(folder / "fast", rows, is_fast=True, **given)
    assert fast == files_of(folder / "slow", rows, is_fast=False, **given)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"n": 2**63, "x": 0.5, "id": "a"}, "signed 64-bit integer"),
        ({"n": 1, "x": 1e39, "id": "a"}, "32-bit float"),
        ({"n": 1, "x": 0.5, "id": "\ud800"}, "a string that UTF-8 can encode"),
        ({"n": 1.5, "x": 0.5, "id": "a"}, "expected int as in the examples before"),
        ({"n": 1, "x": "1", "id": "a"}, "expected float as in the examples before"),
    ],
    ids=["int", "float", "text", "float for int", "text for float"],
)
def test_bad_row_after_good_ones_raises(tmp_path, row, problem):
    with DatasetWriter(tmp_path / "out") as writer:
        for number in range(3):
            writer.write("train", {"n": number, "x": 0.5, "id": "a"})
        with pytest.raises(InputError, match=problem) as info:
            writer.write("train", row)
        assert info.value.record == 3
        writer.write("train", {"n": 7, "x": 0.5, "id": "b"})


def test_many_rows_are_written_in_order(tmp_path):
    import trainer_utils

    count = 10_000
    with DatasetWriter(tmp_path / "out", num_shards=1) as writer:
        for number in range(count):
            writer.write("train", {"n": number, "id": f"{number}"})
    batches = trainer_utils.iterate(str(tmp_path / "out"), "train", batch_size=500, shuffle=False)
    assert [n for batch in batches for n in batch["n"].tolist()] == [*range(count)]
