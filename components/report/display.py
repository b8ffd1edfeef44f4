"""Show records on a terminal, or export them as files that any program opens.

print(as_text(read_examples("datasets/photos", count=5)))
export_examples(read_examples("datasets/photos"), "looked-at/")
"""

import csv
import io
import json
from collections.abc import Iterable

from components.report.records import Example, Value
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.printable import image_extent, printable
from trainer_utils.core.text_output import human_bytes, quantity
from trainer_utils.storage import join, list_names, make_folder, write_atomically, write_text

EXAMPLES_FILE = "examples.csv"
MAX_SHOWN = 72  # characters of a string
_MAX_VALUES = 8  # values of a list
_MAX_IN_A_CELL = 32_767  # characters: the limit of spreadsheets


def as_text(examples: Iterable[Example]) -> str:
    """Format examples for a terminal: a heading, then one line per feature."""
    blocks = []
    for example in examples:
        width = max((len(printable(name)) for name in example.values), default=0)
        lines = [f"{example.split} {example.number:,}"]
        lines += [
            f"  {printable(n).ljust(width)}  {describe_value(v)}" for n, v in example.values.items()
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) if blocks else "no records"


def describe_value(value: Value) -> str:
    """Describe a value in one line."""
    if value.kind in ("image", "sound", "bytes"):
        size = [image_extent(*value.shape)] if value.kind == "image" else []
        texts = [", ".join([value.format or "bytes", *size, human_bytes(value.num_bytes)])]
    elif value.kind == "text":
        texts = [
            f'"{printable(t if len(t) <= MAX_SHOWN else t[: MAX_SHOWN - 1] + "…")}"'
            for t in value.texts[:_MAX_VALUES]
        ]
    else:
        first_values = value.values[:_MAX_VALUES]
        texts = [f"{n:.7g}" if isinstance(n, float) else str(n) for n in first_values]
        for place, name in enumerate(value.names[:_MAX_VALUES]):
            texts[place] += f" ({printable(name)})"
    count = len(value.values)
    if count == 1:
        return texts[0]
    more = f", … {quantity(count, 'value')}" if count > len(texts) else ""
    return f"[{', '.join(texts)}{more}]"


def export_examples(examples: Iterable[Example], folder: str) -> int:
    """Export examples to a folder of files that any program can open.

    Args:
        examples: examples, as returned by `read_examples`.
        folder: the folder to create. Its `examples.csv` has a row per example and a column per
            feature. Images, audio, other bytes, and strings that do not fit into a cell (too long,
            or with a NUL) are files, and the cell has the path.

    Returns:
        The number of examples.

    Raises:
        DatasetError: the folder is not empty.
    """
    make_folder(folder)
    if list_names(folder):
        raise DatasetError(
            f"{folder!r}: expected an empty folder, found files in it. Name another.", path=folder
        )
    rows = [_export(example, folder) for example in examples]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_text(join(folder, EXAMPLES_FILE), text.getvalue(), temporary_folder=folder)
    return len(rows)


def _export(example: Example, folder: str) -> dict[str, str]:
    row = {"split": example.split, "record": str(example.number)}
    for column, (name, value) in enumerate(example.values.items()):
        plain = "" if value.is_file else value.to_json()
        cell = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
        if value.is_file or len(cell) > _MAX_IN_A_CELL or "\0" in cell:
            content = value.content if value.is_file else cell.encode()
            suffix = value.suffix if value.is_file else ".txt"
            # Use the column's number: a feature's name may not be a valid file name.
            cell = f"{example.split}-{example.number:08d}-{column}{suffix}"
            with write_atomically(join(folder, cell), temporary_folder=folder) as stream:
                stream.write(content)
        row[name if name not in row else f"{name} (feature)"] = cell
    return row
