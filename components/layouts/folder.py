"""Class folders: `<split>/<class>/…`, `<class>/…`, or just files.

Hidden files and what operating systems leave behind are skipped and counted.
"""

import itertools
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.common.advice import how_to_set
from components.common.entry import (
    BlobColumn,
    ExcludedInput,
    InputTable,
    bytes_of,
)
from components.common.layout_inputs import LayoutInputs
from components.layouts.file_kinds import kind_of_name
from components.layouts.junk import CLUTTER_NAME, is_clutter
from components.layouts.registry import Detection, Layout, register
from trainer_utils.format import InputError, canonical_split
from trainer_utils.storage import display_path
from trainer_utils.storage.file_system import decode_path, encode_path

_PLAIN_LISTS, _MOST_LISTS, _LINE_BYTES = (".txt", ".lst"), 10, 4096


def read(inputs: LayoutInputs) -> InputTable:
    """Take splits and classes from the names of folders."""
    if inputs.layout == "auto":
        _refuse_plain_list(inputs)
    files = inputs.files.below(inputs.root)
    paths, folders = files.paths, files.folders()
    names = map(decode_path, bytes_of(folders.dictionary))
    parts = [() if name == inputs.root else inputs.parts_of(name) for name in names]
    places = folders.indices.to_numpy()

    def of_files(of_folders: Iterable[bool]) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = np.array([*of_folders], np.bool_)[places]
        return found

    is_clutter_of = of_files(map(is_clutter, parts))
    is_clutter_of |= np.asarray(pc.match_substring_regex(paths, pattern=CLUTTER_NAME))
    seen = [parts[place] for place in np.unique(places[~is_clutter_of]).tolist()]
    tops = {folder[0] for folder in seen if folder}
    has_splits = inputs.split is None and _top_folders_are_splits(tops, inputs.base)
    depth = 1 if has_splits else 0
    is_flat = of_files(len(folder) <= depth for folder in parts)
    label_paths, labels = _listed_labels(inputs, paths.filter(pa.array(is_flat & ~is_clutter_of)))
    has_labels = any(len(folder) > depth for folder in seen) or bool(label_paths)
    splits = [canonical_split(f[0]) if has_splits and f else inputs.split for f in parts]
    own = [encode_path(f[depth]) if len(f) > depth else None for f in parts]
    values = pa.array(own, pa.large_binary()).take(folders.indices)
    if label_paths:
        listed = pc.index_in(paths, value_set=pa.array(label_paths, pa.large_binary()))
        values = pc.coalesce(pa.array(labels, pa.large_binary()).take(listed), values)
    # Which file is why in no example; the first reason counts.
    lacks_split = of_files(has_splits and not folder for folder in parts)
    lacks_label = np.asarray(values.is_null()) & has_labels
    is_bad = np.asarray(files.table.column("code").is_valid())
    is_list = np.asarray(pc.equal(paths, encode_path(inputs.label_list or "")))
    left_out = is_clutter_of | is_bad | lacks_split | lacks_label
    excluded = []
    for place in np.flatnonzero(left_out & ~is_list).tolist():
        path = decode_path(paths[place].as_py())
        split, why = splits[places[place]], inputs.files[path].problem
        if is_clutter_of[place]:
            excluded.append(ExcludedInput(path, split, None, "hidden or system file"))
        elif why is not None:
            excluded.append(ExcludedInput(path, split, *why))
        elif lacks_split[place]:
            excluded.append(ExcludedInput(path, split, "NO_SPLIT", "beside the split folders"))
        else:
            excluded.append(ExcludedInput(path, split, "NO_LABEL", "beside the class folders"))
    taken = pa.array(~(left_out | is_list))
    return InputTable.of_files(
        paths.filter(taken),
        files.table.column("size").filter(taken),
        pa.array(splits, pa.string()).take(folders.indices).filter(taken),
        excluded,
        blob=BlobColumn(inputs.media, inputs.media),
        labels=values.filter(taken) if has_labels else None,
    )


def _listed_labels(inputs: LayoutInputs, flat: pa.Array) -> tuple[list[bytes], list[bytes]]:
    """Files in no class folder, of paths `flat`, and the classes that a text has by line."""
    if inputs.label_list is None:
        return [], []
    if inputs.label_list not in inputs.files:
        raise InputError(f"label_list {inputs.label_list!r}: expected a text, found none")
    paths = [path for path in bytes_of(flat) if path != encode_path(inputs.label_list)]
    labels = [line.strip() for line in inputs.read_text(inputs.label_list).strip().split("\n")]
    if len(labels) != len(paths) or not all(labels):
        got = f"{len(labels)} lines, {labels.count('')} of them empty"
        raise InputError.at(
            inputs.label_list, expected=f"the classes of {len(paths)} files, one a line", got=got
        )
    return paths, [*map(encode_path, labels)]


def _refuse_plain_list(inputs: LayoutInputs) -> None:
    """Refuses a list in plain text, as ImageNet's are, whose labels the folders do not have."""
    found = (
        path
        for parts, path in inputs.paths_below_root(endings=_PLAIN_LISTS)
        if len(parts) == 1 and not is_clutter(parts) and inputs.files[path].problem is None
    )
    for path in itertools.islice(found, _MOST_LISTS):
        with inputs.open(path) as stream:
            words = stream.read(_LINE_BYTES).decode("utf-8", "replace").split("\n", 1)[0].split()
        if len(words) < 2 or kind_of_name(words[0]) != inputs.media:
            continue
        end = "/" + words[0].removeprefix("./").strip("/")
        if any(f"/{path}".endswith(end) for path in inputs.files):
            raise InputError(
                f"{display_path(path)!r}: expected folders alone, or a list as a table, got a list "
                f"in plain text: {' '.join(words)!r} (line 1). Make it a CSV whose first row is "
                "filename,label; or take the folders' names as labels: "
                f"{how_to_set(layout='folder')}.",
                path=path,
            )


def _top_folders_are_splits(tops: Collection[str], base: str) -> bool:
    """Whether the top folders are splits. One class may well be called 'train', so all must be."""
    named = [top for top in sorted(tops) if canonical_split(top)]
    others = [top for top in sorted(tops) if not canonical_split(top)]
    if others and len({canonical_split(top) for top in named}) > 1:
        raise InputError(
            f"input_base {base!r}: expected its folders to be all splits or all classes, got "
            f"splits {', '.join(named)} beside {', '.join(map(display_path, others[:5]))}. "
            "Move the others away; in Python, input_config may name each split's pattern.",
            path=base,
        )
    return bool(named) and not others


def detect(inputs: LayoutInputs) -> Detection:
    """Match everything that no other layout matches."""
    if inputs.root in inputs.files:
        return Detection.miss("a file, no folder")
    return Detection.match("files in folders")


register(
    Layout(
        name="folder",
        kinds=("image", "audio", "text"),
        rank=100,
        tree="""\
train/cat/1.jpg
train/dog/2.jpg
eval/cat/3.jpg""",
        features="label",
        splits="the top folders, if all are named after splits",
        detect=detect,
        read=read,
    )
)
