"""Read class folders whose splits are plain-text lists, as in Speech Commands.

    validation_list.txt: yes/0a.wav, one path per line
    testing_list.txt: no/1b.wav
    yes/0a.wav, no/1b.wav, up/2c.wav       # other files are `train`
    _background_noise_/pink_noise.wav      # not a class: skipped and counted

A list is a text file at the top with a split's word in its name and one path per line. If one list
is `train`, files in no list are skipped and counted.

Source: tensorflow.org/datasets/catalog/speech_commands, README.md of version 0.02.
"""

import re

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.input_table import Blob, BlobColumn, Column, Entry, ExcludedInput, InputTable
from components.inputs.listing import LayoutInputs
from components.inputs.rejects import RejectedInputError
from components.layouts.class_tree import is_kind_of_files
from components.layouts.file_kinds import kind_of_name
from components.layouts.junk import is_clutter
from components.layouts.list_files import FileFinder
from components.layouts.meaningful import DATA_ENDINGS
from components.layouts.refusals import refuse_layout
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.format.split_words import split_of_name
from trainer_utils.storage import display_path

_ENDINGS = (".txt", ".lst")
_LINE_BYTES = 4096
_DOCUMENT = re.compile(r"(README|LICENSE)(?![a-z])", re.IGNORECASE)
_NO_CLASS = re.compile(r"_.*_")  # `_background_noise_`


def _lists(inputs: LayoutInputs) -> dict[str, str]:
    """Return the split of each list, by its path."""
    split_by_list = {}
    for parts, path in inputs.paths_below_root(endings=_ENDINGS):
        if len(parts) == 1 and (split := split_of_name(parts[0])) and _names_files(inputs, path):
            split_by_list[path] = split
    return split_by_list


def _names_files(inputs: LayoutInputs, path: str) -> bool:
    """Return whether the first line of a text file is the path of a file of the media type."""
    if inputs.files[path].problem is not None:
        return False
    head = inputs.head(path, _LINE_BYTES)
    line = head.decode("utf-8-sig", "replace").lstrip().split("\n", 1)[0].strip()
    return kind_of_name(line) == inputs.media and "/" in line.replace("\\", "/")


def detect(inputs: LayoutInputs) -> Detection:
    """Look for lists of paths that are named after splits, next to class folders."""
    if inputs.root in inputs.files:
        return Detection.miss("a file, not a folder")
    if split_by_list := _lists(inputs):
        return Detection.match(", ".join(sorted(map(display_path, split_by_list))))
    return Detection.miss("no list of paths such as validation_list.txt at the top")


def read(inputs: LayoutInputs) -> InputTable:
    """Take classes from folder names, and splits from the lists.

    Raises:
        InputError: there is no list, or a file is in two lists.
    """
    if not (lists := _lists(inputs)):
        refuse_layout(inputs, "split_lists", "a list of paths such as validation_list.txt")
    split_of: dict[str, str] = {}
    excluded: list[ExcludedInput] = []
    finder = FileFinder(inputs, folders=[inputs.root])
    for path, split in lists.items():
        for number, line in enumerate(inputs.read_text(path).splitlines(), 1):
            if not (name := line.strip().replace("\\", "/").removeprefix("./")):
                continue
            whole = f"{inputs.root}/{name}" if inputs.root else name
            if whole not in inputs.files:
                try:
                    whole, _ = finder.find(name)
                except RejectedInputError as error:
                    detail = f"{path}, line {number}: {error.detail}"
                    excluded.append(ExcludedInput(whole, split, error.code, detail))
                    continue
            if split_of.setdefault(whole, split) != split:
                got = f"{split_of[whole]!r} and {split!r} (line {number})"
                rule = f"one split for {display_path(whole)!r}"
                raise InputError.at(path, expected=rule, got=got)
    for how, count in finder.found_by.items():
        logging.warning("%s: %d files are found %s", ", ".join(map(repr, lists)), count, how)
    rest = None if "train" in lists.values() else "train"
    entries = []
    classes = set[str]()
    for parts, file in inputs.below_root():
        if file.path in lists:
            continue
        image_split = inputs.split or split_of.get(file.path, rest)
        left = _left_out(parts, file.problem, image_split)
        if left is None or left[0] == "NO_LABEL":
            if file.path.lower().endswith(DATA_ENDINGS):
                continue  # it means something: it is no bad image, and ends the run
            classes.update(parts[:-1][:1])
        if left is not None:
            excluded.append(ExcludedInput(file.path, image_split if left[0] else None, *left))
        else:
            entries.append(
                Entry(file.path, image_split, (Blob(file.path, file.size),), (parts[0],))
            )
    kinds = sorted(filter(is_kind_of_files, classes))
    if kinds and inputs.layout == "auto":
        raise InputError.at(
            inputs.base,
            expected=f"class folders next to {', '.join(sorted(map(display_path, lists)))}",
            got=", ".join(map(repr, map(display_path, kinds))),
            advice=f"If these are classes: {how_to_set(layout='split_lists')}",
        )
    columns = (Column("label", "label"),)
    return InputTable.of(entries, excluded, columns, (BlobColumn(inputs.media, inputs.media),))


def _left_out(
    parts: tuple[str, ...], problem: tuple[str, str] | None, split: str | None
) -> tuple[str | None, str] | None:
    """Return the code (None: skipped) and detail for a file that is in no example, or None."""
    if is_clutter(parts):
        return None, "hidden or system file"
    if _DOCUMENT.match(parts[-1]):
        return None, "a document"
    if _NO_CLASS.fullmatch(parts[0]):
        return None, f"in {parts[0]!r}, which is not a class"
    if problem is not None:
        return problem
    if len(parts) == 1:
        return "NO_LABEL", "next to the class folders"
    return (None, "in no list") if split is None else None


register(
    Layout(
        name="split_lists",
        kinds=("audio", "image"),
        rank=47,
        tree="""\
validation_list.txt: yes/0a.wav
testing_list.txt: no/1b.wav
yes/0a.wav
no/1b.wav
_background_noise_/pink_noise.wav""",
        features="label",
        splits="the lists; the rest is train, or skipped if a list of train exists",
        refused="a file in two lists",
        detect=detect,
        read=read,
        known=("README*", "LICENSE*", "_*_/*"),
    )
)
