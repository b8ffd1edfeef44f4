"""Read the column descriptions that Hugging Face's `datasets` writes into Parquet files.

    class_names({b"huggingface": b'{"info": {"features": …}}'})     # {"label": ("neg", "pos")}

Source: `datasets.Features.to_dict`; `datasets/arrow_writer.py`, `_build_metadata`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.advice import how_to_set
from trainer_utils.core.errors import InputError

UNLABELLED = -1
"""The class of an unlabelled example, as in test splits on the Hub."""

_KEY = b"huggingface"


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, ...]]:
    """Return the class names of each column, from the metadata of a Parquet file."""
    try:
        features = json.loads((metadata or {}).get(_KEY, b"{}"))["info"]["features"]
        return dict(_named(features, ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _named(features: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, feature in features.items():
        kind = feature
        if isinstance(kind, list):  # a sequence, as older versions write it
            (kind,) = kind
        while isinstance(kind, Mapping) and isinstance(kind.get("feature"), Mapping):
            kind = kind["feature"]
        if not isinstance(kind, Mapping):
            continue
        if kind.get("_type") == "ClassLabel" and kind.get("names"):
            yield f"{prefix}{name}", tuple(map(str, kind["names"]))
        elif "_type" not in kind:
            yield from _named(kind, f"{prefix}{name}.")


def is_numbered(kind: pa.DataType) -> bool:
    """Return whether a type is an integer type, or lists of one."""
    return bool(pa.types.is_integer(kind.value_type if pa.types.is_list(kind) else kind))


def named_classes(array: pa.Array, names: Sequence[str], *, column: str, source: str) -> pa.Array:
    """Replace class numbers by their names; -1 becomes null.

    Args:
        array: integers, or lists of integers.
        names: the class names.
        column: the column, for the message.
        source: the file, for the message.

    Raises:
        InputError: a number has no class name.
    """
    if pa.types.is_list(array.type):
        values = named_classes(array.values, names, column=column, source=source)
        return pa.ListArray.from_arrays(array.offsets, values)
    has_name = pc.not_equal(array, UNLABELLED)
    numbers = pc.if_else(has_name, array, pa.scalar(None, array.type))
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(names):
        wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
        raise InputError(
            f"column {column!r}: expected the number of one of the {len(names)} classes that the "
            f"metadata of {source!r} names, or -1 for none, got {wrong}. Take the numbers as they "
            f"are: {how_to_set(columns={column: 'int'})}.",
            path=source,
        )
    return pa.array(names, pa.string()).take(numbers)


def check_class_names(
    files: Mapping[str, Mapping[str, Sequence[str]]],
    *,
    having: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Raise an InputError if files have different class names for a column.

    Args:
        files: the class names by column, for each file.
        having: the columns of each file. One of these without class names is an error as well.
    """
    first: dict[str, tuple[str, Sequence[str]]] = {}
    for path, classes in files.items():
        for column, names in classes.items():
            first.setdefault(column, (path, names))
    for column, (source, names) in first.items():
        for path, classes in files.items():
            others = classes.get(column)
            if others == names or (others is None and column not in (having or {}).get(path, ())):
                continue
            raise InputError.at(
                path,
                expected=f"the names of classes of column {column!r} that the metadata of "
                f"{source!r} has ({', '.join(names)})",
                got="none" if others is None else ", ".join(others),
                advice=f"Keep the numbers: {how_to_set(columns={column: 'int'})}.",
            )
