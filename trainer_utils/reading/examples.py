"""The features of records that were read, as columns of numpy; errors name file and record.

columns = parse_rows(rows, ["label", "text"])
"""

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import DatasetError
from trainer_utils.format.example_columns import Column, parse_examples, parse_feature_lists
from trainer_utils.format.tokens import TokenSpec
from trainer_utils.reading.record_reader import Rows


def parse_rows(
    rows: Rows, names: Collection[str], *, views: Collection[str] = ()
) -> dict[str, Column]:
    """Some features of all records, as `parse_examples` has them."""
    with _naming(rows):
        return parse_examples(rows.data, rows.begins, rows.ends, names, views=views)


def parse_lists(rows: Rows, names: Collection[str]) -> dict[str, Column]:
    """Some feature lists of all records, as `parse_feature_lists` has them."""
    with _naming(rows):
        return parse_feature_lists(rows.data, rows.begins, rows.ends, names)


def documents_of(
    rows: Rows, name: str, column: Column, spec: TokenSpec
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """How many tokens each record has, and those of all, end to end, of bytes that are tokens.

    Raises:
        DatasetError: a record has several values, or one that is no whole number of tokens.
    """
    values = column.values.tolist()
    sizes, lengths = np.fromiter(map(len, values), np.int64, len(values)), column.counts.copy()
    is_bad = column.counts > 1
    if not is_bad.any():
        lengths[lengths > 0], rest = np.divmod(sizes, spec.stored.itemsize)
        is_bad[column.counts > 0] = rest > 0
    if is_bad.any():
        rule = f"feature {name!r} of one document of {spec.dtype} tokens as the dataset says"
        raise rows.error(int(is_bad.argmax()), expected=rule, got="another")
    return lengths, spec.decode(b"".join(values))


@contextlib.contextmanager
def _naming(rows: Rows) -> Iterator[None]:
    try:
        yield
    except DatasetError as error:
        path, record = rows.name(error.record or 0)
        message = f"{path!r}: {error} (record {record})"
        raise DatasetError(message, path=path, record=record) from error
