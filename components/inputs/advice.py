"""Format settings for error messages, as Python and as the command line take them.

how_to_set(columns={"photo": "image"})   # columns={'photo': 'image'} (--column photo=image)
how_to_set(header=True)                  # header=True (--header)
"""

import csv
import io
import shlex
from collections.abc import Mapping, Sequence

FLAGS: Mapping[str, str] = {
    # Settings whose flag differs from their name. The flag of a repeated value is in the singular.
    "columns": "--column",
    "column_names": "--columns",
    "file_roots": "--file-root",
    "tensors": "--tensor",
    "feature_names": "--feature-name",
}
_REPEATED = ("columns", "feature_names", "file_roots", "ignore", "tensors")  # one flag per value


def how_to_set(**settings: object) -> str:
    """Return the settings as keyword arguments and, in parentheses, as flags to paste."""
    keywords = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{keywords} ({as_flags(settings)})"


def as_flags(settings: Mapping[str, object]) -> str:
    """Return settings as flags of `tfx-shards convert`, quoted for a shell."""
    words: list[str] = []
    for name, value in settings.items():
        flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
            continue
        for part in _values(name, value):
            words += [flag, shlex.quote(part)]
    return " ".join(words)


def _values(name: str, value: object) -> list[str]:
    """Return the value of each flag that a setting needs."""
    if isinstance(value, Mapping):
        pairs = [f"{key}={item}" for key, item in value.items()]
        return pairs if name in _REPEATED else [",".join(pairs)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [*map(str, value)] if name in _REPEATED else [_csv_row(value)]
    return [str(value)]


def _csv_row(values: Sequence[object]) -> str:
    """Return names as a list for the command line, where names with a comma are quoted."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(values)
    return stream.getvalue()
