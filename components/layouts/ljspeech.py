"""Read LJSpeech: `metadata.csv` has ids and transcripts, separated by `|`, no header or quotes.

    metadata.csv: LJ001-0001|Printing, in the only sense|Printing, in the only sense
    wavs/LJ001-0001.wav

Source: README of LJSpeech 1.1 (keithito.com/LJ-Speech-Dataset).
"""

import dataclasses
import posixpath

from components.inputs.advice import how_to_set
from components.inputs.input_table import InputTable, with_excluded
from components.inputs.listing import LayoutInputs, select_readable
from components.layouts import lists
from components.layouts.file_kinds import kind_of_name
from components.layouts.refusals import refuse_layout
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.storage import display_path

_ENDINGS = (".csv", ".txt")
_NAMES = ("audio", "text", "normalized_text")
_LINE_BYTES = 16 << 10


def _lists(inputs: LayoutInputs) -> dict[str, tuple[str, ...]]:
    """Return the lists of ids and transcripts, each with its column names."""
    names_by_list = {}
    folders = {folder for folder in inputs.folders if len(folder) == 1}
    for parts, path in inputs.paths_below_root(endings=_ENDINGS):
        if len(parts) > 1 or parts[0].startswith(".") or inputs.files[path].problem is not None:
            continue
        fields = _first_line(inputs, path).split("|")
        if not 2 <= len(fields) <= len(_NAMES) or not fields[0].strip():
            continue
        names = (
            [fields[0]] if kind_of_name(fields[0]) else [f"{fields[0]}.wav", f"{fields[0]}.flac"]
        )
        places = [
            posixpath.join(inputs.root, *folder, name) for folder in folders for name in names
        ]
        if any(place in inputs.files for place in places):
            names_by_list[path] = _NAMES[: len(fields)]
    return names_by_list


def _first_line(inputs: LayoutInputs, path: str) -> str:
    head = inputs.head(path, _LINE_BYTES)
    return head.decode("utf-8-sig", "replace").split("\n", 1)[0].rstrip("\r")


def detect(inputs: LayoutInputs) -> Detection:
    """Look for a list with `|` whose first id is the name of a file in a folder next to it."""
    if inputs.root in inputs.files or not any(len(folder) == 1 for folder in inputs.folders):
        return Detection.miss("no folder of clips")
    if not (names_by_list := _lists(inputs)):
        return Detection.miss("no list of ids and transcripts with | at the top")
    return Detection.match(", ".join(sorted(map(display_path, names_by_list))))


def read(inputs: LayoutInputs) -> InputTable:
    """Read the lists. Their ids are file names without suffix.

    Raises:
        InputError: there is no list, two have different columns, or two are not named after splits.
    """
    if not (names_by_list := _lists(inputs)):
        refuse_layout(inputs, "ljspeech", "metadata.csv of id|transcript next to wavs/")
    names = min(names_by_list.values(), key=len)
    if len({*names_by_list.values()}) > 1:
        shown = ", ".join(
            f"{display_path(path)!r} {len(n)}" for path, n in sorted(names_by_list.items())
        )
        others = [path for path in sorted(names_by_list) if names_by_list[path] != names]
        raise InputError.at(
            inputs.base,
            expected="lists with the same number of columns",
            got=shown,
            advice=f"Leave some out: {how_to_set(ignore=others)}",
        )
    columns = {**inputs.columns}
    if not inputs.column_names:
        columns = {name: "string" for name in names} | {"audio": "audio"} | columns
    list_inputs = dataclasses.replace(
        inputs,
        delimiter="|",
        quoting="none",
        header=False,
        column_names=inputs.column_names or names,
        columns=columns,
        find_files="stem" if inputs.find_files == "path" else inputs.find_files,
    )
    good, excluded = select_readable(inputs, sorted(names_by_list), "a list")
    return with_excluded(lists.read(list_inputs, good), excluded)


register(
    Layout(
        name="ljspeech",
        kinds=("audio",),
        rank=30,
        tree="""\
metadata.csv: LJ001-0001|Printing, in the only sense|Printing, in the only sense
wavs/LJ001-0001.wav""",
        features="text, normalized_text",
        splits="lists named after splits, or a hash, or group_by",
        refused="rows with more or fewer fields than the first",
        detect=detect,
        read=read,
        takes_columns=True,
        known=("README*",),
    )
)
