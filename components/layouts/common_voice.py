"""Read Common Voice: lists named after splits, and a folder with the clips.

    train.tsv, dev.tsv, test.tsv: client_id<tab>path<tab>sentence<tab>…
    clips/common_voice_en_1.mp3
    validated.tsv, other.tsv, …            # not read: duplicates of these rows, and other rows

The lists have no quoting: a `"` is a character of a sentence.

Source: the data sheets of commonvoice.mozilla.org; `csv.QUOTE_NONE` in its CorporaCreator.
"""

import dataclasses
import posixpath

from absl import logging

from components.inputs.input_table import InputTable, with_excluded
from components.inputs.listing import LayoutInputs, select_readable
from components.layouts import lists
from components.layouts.refusals import refuse_layout
from components.layouts.registry import Detection, Layout, register
from trainer_utils.format import canonical_split

_CLIPS = "clips"


def _tables(inputs: LayoutInputs) -> tuple[list[str], list[str]]:
    """Return the lists that are named after splits, and the other lists, in order."""
    tables: tuple[list[str], list[str]] = ([], [])
    for parts, path in inputs.paths_below_root(endings=(".tsv",)):
        if len(parts) == 1 and not parts[0].startswith("."):
            tables[canonical_split(parts[0].rpartition(".")[0]) is None].append(path)
    return tables


def detect(inputs: LayoutInputs) -> Detection:
    """Look for a folder of clips next to lists that are named after splits."""
    if (_CLIPS,) not in inputs.folders:
        return Detection.miss(f"no folder {_CLIPS}/")
    splits, _ = _tables(inputs)
    if not splits:
        return Detection.miss("no list such as train.tsv at the top")
    return Detection.match(f"{_CLIPS}/ and {', '.join(map(posixpath.basename, splits))}")


def read(inputs: LayoutInputs) -> InputTable:
    """Read the lists that are named after splits; a warning names the other lists."""
    splits, others = _tables(inputs)
    if not splits:
        refuse_layout(inputs, "common_voice", "train.tsv, dev.tsv or test.tsv next to clips/")
    if others:
        logging.warning("not read, because train, dev and test are: %s", ", ".join(others))
    quoting = "none" if inputs.quoting == "csv" else inputs.quoting
    good, excluded = select_readable(inputs, splits, "a list")
    return with_excluded(lists.read(dataclasses.replace(inputs, quoting=quoting), good), excluded)


register(
    Layout(
        name="common_voice",
        kinds=("audio",),
        rank=30,
        tree="""\
train.tsv: client_id<tab>path<tab>sentence
dev.tsv, test.tsv
clips/common_voice_en_1.mp3
validated.tsv, other.tsv: not read""",
        features="the columns of the lists, such as sentence and client_id",
        splits="the lists train, dev and test",
        refused="rows with more or fewer fields than the header",
        detect=detect,
        read=read,
        takes_columns=True,
        known=("*.tsv",),
    )
)
