"""Numbers keep all that they say, or are an error that names their row: never another number.

The expected digits are those that the file was written with.
"""

import decimal
import json

import numpy as np
import pyarrow as pa
import pytest

from tests.components.tables.table_files import parquet_of
from trainer_utils.format import InputError

LARGE = 2**53 + 1  # the first integer that no double is
DECIMALS = ["12345678901234567.89", "0.0000001", "-1.10"]


@pytest.mark.parametrize(
    ("name", "kind"), [("t.jsonl", "string"), ("t.json", "label"), ("t.csv", "string")]
)
def test_an_int_beside_floats_keeps_its_digits_as_a_text(convert, name, kind):
    rows = [{"text": "a", "n": LARGE}, {"text": "b", "n": 1.5}, {"text": "c", "n": -LARGE}]
    forms = {
        "t.jsonl": "\n".join(map(json.dumps, rows)),
        "t.json": json.dumps(rows),
        "t.csv": "text,n\n" + "".join(f"{row['text']},{row['n']}\n" for row in rows),
    }
    dataset = convert({name: forms[name]}, columns={"n": kind})
    found = dataset.texts("n") if kind == "string" else dataset.labels("n")
    assert sorted(found.values()) == sorted(str(row["n"]) for row in rows)


DECIMAL = [*map(decimal.Decimal, DECIMALS)]
WHOLE = [decimal.Decimal(LARGE), decimal.Decimal(-2)]
SMALL = pa.array([[decimal.Decimal("1.5")], []], pa.list_(pa.decimal128(5, 2)))
AS_NUMBERS = {
    "an int beside a float": ({"t.jsonl": f'{{"n": {LARGE}}}\n{{"n": 1.5}}\n'}, [[LARGE], [1.5]]),
    "infinity": ({"t.jsonl": '{"n": Infinity}\n{"n": 1.5}\n'}, [[float("inf")], [1.5]]),
    "decimals": (
        {"t.parquet": parquet_of({"n": pa.array([*DECIMAL, None], pa.decimal128(30, 9))})},
        [*([float(text)] for text in DECIMALS), []],
    ),
    "whole decimals": (
        {"t.parquet": parquet_of({"n": pa.array(WHOLE, pa.decimal128(20, 0))})},
        [[LARGE], [-2]],
    ),
    "decimals in lists": ({"t.parquet": parquet_of({"n": SMALL})}, [[1.5], []]),
    **{
        text: ({"t.csv": f"n,m\n1.5,1\n{text},2\n"}, [[1.5], [float(text)]])
        for text in ("3.4028234e+38", "-3.4028234e+38", "0.0000001", "1.5e-300")
    },
}


def test_a_number_is_the_nearest_that_its_feature_holds(convert):
    for files, numbers in AS_NUMBERS.values():
        dataset = convert(files)
        (name,) = files
        kind = np.int64 if dataset.features["n"]["type"] == "int" else np.float32
        rows = dataset.by_id()
        for number, values in enumerate(numbers, 1):
            assert rows[f"{name}:{number}"].get("n", []) == [kind(value).item() for value in values]


TOO_LARGE = [
    ({"t.jsonl": '{"n": 1.5}\n{"n": 1e39}\n'}, 2),
    ({"t.jsonl": '{"n": [1.5]}\n{"n": [2.0, -1e39]}\n'}, 2),
    ({"t.csv": f"n,m\n{'9' * 40}.5,1\n1.5,2\n"}, 1),
    ({"t.csv": "n,m\n1.5,1\n1.0e+400,2\n"}, 2),
    ({"t.parquet": parquet_of({"n": [1.5, 1e300]})}, 2),
]


def test_a_number_that_would_become_infinite_is_refused_by_its_row(convert):
    for files, row in TOO_LARGE:
        with pytest.raises(InputError, match=rf"column 'n': expected numbers.*row {row}"):
            convert(files)
