"""What the first rows of a table show: whether it names or holds images or sounds.

kinds_in_table("photos/list.csv")       # 'image'; None for a table of texts and numbers
"""

import csv
import io
import itertools
import json
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from components.example_gen.file_kinds import kind_of_bytes
from components.tables.json_objects import flatten_object
from components.tables.reading import SUFFIXES
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage.files import open_for_reading

__all__ = ["kinds_in_table"]

_Row: TypeAlias = dict[str, Any]  # by column
_HEAD_BYTES = 256 << 10
_ROWS = 50
_NAMES = {"image_uri": "image", "image": "image", "audio_uri": "audio", "audio": "audio"}


def kinds_in_table(path: str) -> str | None:
    """`image` where any column is of images, else `audio` where one is of sounds, else None.

    What cannot be read is nobody's: the ExampleGen will say what is wrong with it.
    """
    columns = dict[str, list[Any]]()
    for row in itertools.islice(_rows(path), _ROWS):
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    kinds = {_kind_of(name, values) for name, values in columns.items()}
    return next((kind for kind in ("image", "audio") if kind in kinds), None)


def _kind_of(name: str, values: Sequence[Any]) -> str | None:
    given = [value for value in values if value not in (None, "")]
    if not given:
        return None
    if all(isinstance(value, bytes) for value in given):
        kinds = {kind_of_bytes(value) for value in given}
        return kinds.pop() if len(kinds) == 1 and kinds <= EXTENSIONS.keys() else None
    if not all(isinstance(value, str) for value in given):
        return None
    if any(value.lower().startswith(("http://", "https://")) for value in given):
        return None  # nothing is downloaded: to us it is a text
    endings = {posixpath.splitext(value)[1].lower() for value in given}
    for kind, known in EXTENSIONS.items():
        if endings <= known:
            return kind
    # Names without an ending, as Datum has them; a caption is no name.
    return _NAMES.get(name.lower()) if all(" " not in value for value in given) else None


def _rows(path: str) -> Iterator[_Row]:
    kind = SUFFIXES.get(posixpath.splitext(path.lower())[1])
    try:
        if kind == "parquet":
            yield from _parquet_rows(path)
        elif kind is not None:  # a compressed one is of texts
            with open_for_reading(path) as stream:
                head = stream.read(_HEAD_BYTES)
            lines = head.decode("utf-8-sig", "replace")
            if len(head) == _HEAD_BYTES:
                lines = lines.rpartition("\n")[0]
            yield from _json_rows(lines) if kind == "jsonl" else _csv_rows(lines, kind)
    except (OSError, ValueError, RecursionError, csv.Error):
        return


def _csv_rows(text: str, kind: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if kind == "tsv" else ",")
    rows = [[field.strip() for field in row] for row in itertools.islice(reader, _ROWS) if row]
    if not rows:
        return
    first = rows[0]
    is_header = not any(_kind_of("", [field]) for field in first)  # AutoML's lists have none
    names = first if is_header else [str(place) for place in range(len(first))]
    for row in rows[1 if is_header else 0 :]:
        yield dict(zip(names, row, strict=False))


def _json_rows(text: str) -> Iterator[_Row]:
    for line in text.split("\n"):  # not splitlines(), which splits inside of texts too
        if line.strip():
            value = json.loads(line)
            if isinstance(value, dict):
                yield dict(flatten_object(value))


def _parquet_rows(path: str) -> Iterator[_Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_for_reading(path) as stream:
            for batch in pq.ParquetFile(stream).iter_batches(batch_size=_ROWS):
                for row in batch.to_pylist():
                    yield dict(flatten_object(row))
                return
    except pa.ArrowException:
        return
