"""A list of images: replaced by manifest."""

import csv
import io
import posixpath

from components.common.listing import Column, Entry, LayoutInputs, LeftOut, Listing
from components.common.rejects import RejectedInputError
from trainer_utils.format import InputError, canonical_split

CSV_COLUMNS = ("split", "image_uri", "label")
_UNASSIGNED = ("", "unassigned")


def read_csv(inputs: LayoutInputs, csv_path: str) -> Listing:
    """The listing of a CSV."""
    split = inputs.split
    columns, rows = _csv_rows(inputs.read_text(csv_path), csv_path)
    folder = posixpath.dirname(csv_path)
    entries: list[Entry] = []
    left_out: list[LeftOut] = []
    line_of: dict[str, int] = {}
    has_labels = "label" in columns and any(row["label"] for _, row in rows)
    for line, row in rows:
        own_split = split or _csv_split(row.get("split", ""), csv_path, line)
        uri = row["image_uri"]
        try:
            path, blob = inputs.resolve(uri, folder=folder)
        except RejectedInputError as error:
            left_out.append(LeftOut(uri, own_split, error.code, f"line {line}: {error.detail}"))
            continue
        if path in line_of:
            raise InputError(
                f"{csv_path!r}: expected each image once, got {uri!r} in lines "
                f"{line_of[path]} and {line}. Remove one of them."
            )
        line_of[path] = line
        if has_labels and not row["label"]:
            left_out.append(LeftOut(path, own_split, "NO_LABEL", f"line {line}"))
        else:
            values = (row["label"],) if has_labels else ()
            entries.append(Entry(path, own_split, (blob,), values))
    columns_ = (Column("label", "label"),) if has_labels else ()
    return Listing(tuple(entries), tuple(left_out), columns_)


def _csv_rows(text: str, csv_path: str) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The columns, and each row with the number of the line it ends in."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    columns: list[str] = []
    rows = []
    try:
        for row in reader:
            fields = [field.strip() for field in row]
            if not any(fields):
                continue
            if not columns:
                lowered = [field.lower() for field in fields]
                columns = lowered if "image_uri" in lowered else list(CSV_COLUMNS)
                if columns is lowered:
                    continue
            if len(fields) != len(columns):
                raise InputError(
                    f"{csv_path!r}: expected {len(columns)} columns ({','.join(columns)}), "
                    f"got {len(fields)} (line {reader.line_num}). "
                    "If it is no list of the images, set layout='folder'."
                )
            rows.append((reader.line_num, dict(zip(columns, fields, strict=True))))
    except csv.Error as error:
        raise InputError(f"{csv_path!r}: {error} (line {reader.line_num})") from error
    if not rows:
        raise InputError(f"{csv_path!r}: expected rows of {','.join(CSV_COLUMNS)}, found none")
    return columns, rows


def _csv_split(value: str, csv_path: str, line: int) -> str | None:
    if value.lower() in _UNASSIGNED:
        return None
    split = canonical_split(value)
    if split is None:
        raise InputError(
            f"{csv_path!r}: expected split TRAIN, VALIDATION, TEST or UNASSIGNED, "
            f"got {value!r} (line {line})"
        )
    return split
