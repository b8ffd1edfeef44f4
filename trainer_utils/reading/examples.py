"""The features of records that were read, as columns of numpy; errors name file and record.

columns = parse_rows(rows, ["label", "text"])
"""

import contextlib
from collections.abc import Collection, Iterator

from trainer_utils.format import DatasetError
from trainer_utils.format.example_columns import Column, parse_examples, parse_feature_lists
from trainer_utils.reading.record_reader import Rows

__all__ = ["parse_lists", "parse_rows"]


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


@contextlib.contextmanager
def _naming(rows: Rows) -> Iterator[None]:
    try:
        yield
    except DatasetError as error:
        path, record = rows.name(error.record or 0)
        message = f"{path!r}: {error} (record {record})"
        raise DatasetError(message, path=path, record=record) from error
