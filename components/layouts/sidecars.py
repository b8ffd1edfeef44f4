"""The small files of a WebDataset sample: class, text and JSON, and the columns that they make.

`cls` becomes `label`, ids or words; `txt` becomes `text`; the fields of `json` keep their names,
nested ones joined by dots. A field called as `cls` or `txt` are, beside these, is `json.label`.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from components.common.entry import Column, Value
from components.example_gen.list_table import typed_values
from components.tables.json_lines import columns_of_objects, flatten_object
from components.tables.kinds import check_columns
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.json_text import Json, JsonObject

_COLUMN_OF = {"cls": "label", "txt": "text"}
SIDECARS = (*_COLUMN_OF, "json")
_KINDS = ("int", "float", "string", "label", "ignore")


def read_sidecar(kind: str, data: bytes, *, place: str) -> Json:
    """A file's text, None for an empty class, or the fields of its JSON object by name.

    Raises:
        InputError: it is not UTF-8, or no JSON object.
    """
    try:
        text = data.decode("utf-8-sig")
        if kind != "json":
            return (text.strip() or None) if kind == "cls" else text
        value = json.loads(text)
        if "\\u" in text:  # JSON can spell halves of characters, which UTF-8 cannot
            json.dumps(value, ensure_ascii=False).encode()
        if isinstance(value, dict):
            return dict(flatten_object(value))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place!r}: expected {kind} in UTF-8: {error}", path=place) from error
    raise InputError.at(place, expected="a JSON object", got=type(value).__name__)


def make_columns(
    samples: Sequence[Mapping[str, Json]], *, given: Mapping[str, str], place: Callable[[int], str]
) -> tuple[tuple[Column, ...], list[tuple[Value, ...]]]:
    """The columns, typed by all samples, and each sample's values.

    Args:
        samples: what `read_sidecar` gave, by kind.
        place: the name of the n-th sample, for messages.

    Raises:
        InputError: a value is not what `given` says, or is nothing that an example can hold.
        ConfigError: `given` names a column that is not there.
    """
    own = {_COLUMN_OF[kind] for sample in samples for kind in sample.keys() & _COLUMN_OF.keys()}
    rows = [_fields(sample, own) for sample in samples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    check_columns(given, names, of="the archives")
    for name, asked in given.items():
        if asked not in _KINDS:
            raise ConfigError.of(f"columns[{name!r}]", asked, allowed=f"one of {', '.join(_KINDS)}")
    ignored = [name for name, kind in given.items() if kind == "ignore"]
    arrays, mixed = columns_of_objects(rows, place=place, ignored=ignored)
    columns, by_column = [], []
    for name, array in arrays.items():
        kind = given.get(name, "string" if name == "text" and "text" in own else None)
        are_texts = name in mixed or (name == "label" and name in own)
        if (found := typed_values(name, [(array, are_texts)], kind=kind, place=place)) is not None:
            columns.append(found[0])
            by_column.append(found[1])
    return tuple(columns), list(zip(*by_column, strict=True)) if columns else [()] * len(rows)


def _fields(sample: Mapping[str, Json], own: set[str]) -> JsonObject:
    """A sample's values by column; `own` are those of `cls` and `txt`."""
    fields = {
        f"json.{name}" if name in own else name: value
        for name, value in sample.get("json", {}).items()
    }
    return fields | {_COLUMN_OF[kind]: sample[kind] for kind in _COLUMN_OF if kind in sample}
