"""Whether the first row of a CSV or TSV is a header, or a row like the others.

    find_header_doubt(["text", "label"], [["So good", "pos"], ["A bore", "neg"]])      # None
    find_header_doubt(["So good", "1"], [["A bore", "0"]])      # "'1' is a value"

A header is believed where every name is there, stands once, and is no value (a number, a date, a
word for nothing), and where either something shows it, or nothing speaks against it. It is shown by
a name that is known (`text`, `label`, `id`, …, or one that a setting names), or by a word above a
column of numbers. Against it speak names of more than two words, sentences, names of files, and a
name that is found again below it. All tables of a run must agree. Where there is a doubt the user
is asked: a wrong guess would lose a row of each file, or take the names for one.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from components.tables.kinds import LABEL_NAMES
from trainer_utils.format import InputError
from trainer_utils.format.media_formats import EXTENSIONS

ROWS = 50  # that are compared with the first one
_MOST_CELLS = 100_000  # of a wide table
_NAMES = frozenset(
    [
        *LABEL_NAMES,
        *("text", "sentence", "sentence1", "sentence2", "review", "content", "document", "body"),
        *("comment", "title", "name", "question", "answer", "target", "sentiment", "score"),
        *("rating", "id", "index", "key", "split", "set", "ml_use", "image", "image_uri", "audio"),
        *("audio_uri", "clip", "filename", "file_name", "file", "path", "uri", "url"),
    ]
)
_NO_VALUE = frozenset(["nan", "na", "n/a", "null", "none", "nil", "true", "false"])
_MOST_WORDS, _MOST_CHARACTERS = 2, 40
_SENTENCE = re.compile(r"[.!?…\u3002\uff01\uff1f]$|[,;.!?] ")
_FILE = re.compile(
    rf"://|({'|'.join(re.escape(e) for known in EXTENSIONS.values() for e in known)})$",
    re.IGNORECASE,
)
_SHOWN_CELLS, _SHOWN_CHARACTERS = 6, 40


def find_header_doubt(
    first: Sequence[str], rows: Sequence[Sequence[str]], *, known: Collection[str] = ()
) -> str | None:
    """Why a first row may be no header; None where it is one."""
    names = _stripped(first)
    for number, name in enumerate(names):
        if not name:
            return "there is one without a name"
        if name in names[:number]:
            return f"there is {_short(name)} twice"
        if name.lower() in _NO_VALUE or not any(map(str.isalpha, name)) or _is_number(name):
            return f"{_short(name)} is a value"
    if is_evident_header(first, rows, known=known):
        return None
    return next(filter(None, map(_against, names, _below(rows, len(names)))), None)


def is_evident_header(
    first: Sequence[str], rows: Sequence[Sequence[str]], *, known: Collection[str] = ()
) -> bool:
    """Whether one of the names shows by itself, or by what is below it, that all are names."""
    names = _stripped(first)
    pairs = zip(names, _below(rows, len(names)), strict=True)
    return any(
        name in known
        or (name.lower() in _NAMES and name not in values)
        or (bool(values) and all(map(_is_number, values)))
        for name, values in pairs
    )


def _stripped(first: Sequence[str]) -> list[str]:
    return [name.strip() for name in first]


def _below(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """The values below each name that are not empty; of a wide table those of fewer rows."""
    some = rows[: max(2, min(ROWS, _MOST_CELLS // max(1, width)))]
    whole = [row for row in some if len(row) == width]
    return [[value for row in whole if (value := row[n].strip())] for n in range(width)]


def _against(name: str, below: Sequence[str]) -> str | None:
    if len(name.split()) > _MOST_WORDS or len(name) > _MOST_CHARACTERS or "\n" in name:
        return f"{_short(name)} is long for a name"
    if _SENTENCE.search(name):
        return f"{_short(name)} looks like a sentence"
    if _FILE.search(name):
        return f"{_short(name)} is a file"
    if name in below:
        return f"{_short(name)} stands below it as well"
    if re.search("[0-9]", name) and below and {_shape(v) for v in below} == {_shape(name)}:
        return f"{_short(name)} is written like those below it"
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shape(text: str) -> str:
    """`a9` of `r17`."""
    return re.sub(r"[0-9]+", "9", re.sub(r"[^\W\d]+", "a", text))


def refuse_doubtful(
    source: str, first: Sequence[str], rows: Sequence[Sequence[str]], reason: str
) -> NoReturn:
    """Asks what the first row is: raises an `InputError` with the first rows, and both answers."""
    below = f", above {_row(rows[0])}" if rows else ""
    names = _suggested(first, rows)
    more = more_flags = ""
    stripped = _stripped(first)
    if "" in stripped or len(set(stripped)) < len(stripped):  # they cannot be the features' names
        mended = [f"column_{number}" for number in range(1, len(first) + 1)]
        more, more_flags = f", column_names={mended!r}", f" --columns {','.join(mended)}"
    raise InputError(
        f"{source!r}: expected the columns' names in the first row, got {_row(first)}{below} "
        f"(line 1): {reason}. If there is no header, name the columns: column_names={names!r} "
        f"(tfx-shards convert … --columns {','.join(names)}). If that row is one: "
        f"header=True{more} (tfx-shards convert … --header{more_flags}).",
        path=source,
    )


def check_agreement(headers: Mapping[str, Sequence[str]], *, shown: Collection[str]) -> None:
    """Refuses tables whose first rows are not the names of the same columns, by an `InputError`.

    Their order may differ, and a table may lack some of the columns of the widest. One whose header
    is `shown` to be one, as `is_evident_header` has it, may have other columns beside.
    """
    widest = max(headers, key=lambda source: (source in shown, len(headers[source])), default="")
    for source, names in headers.items():
        strange = sorted(set(names) - set(headers[widest]))
        if strange and (source not in shown or len(strange) == len(names)):
            others = f"{_short(strange[0])} is none of those in {widest!r}, {_row(headers[widest])}"
            refuse_doubtful(source, names, [], others)


def _suggested(first: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Names for columns that have none: of two, the second is `text` where it is far longer."""
    if len(first) != 2:
        names = [f"column_{number}" for number in range(1, len(first) + 1)]
        return ["text"] if len(first) == 1 else names
    text, label = (sum(map(len, column)) for column in _below([first, *rows], 2))
    return ["text", "label"] if 2 * text >= label else ["label", "text"]


def _row(fields: Sequence[str]) -> str:
    shown = ", ".join(map(_short, fields[:_SHOWN_CELLS]))
    return shown + (f", … ({len(fields)} fields)" if len(fields) > _SHOWN_CELLS else "")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")
