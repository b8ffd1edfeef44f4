"""Class folders, `<split>/<class>/…`, and which of class folders and lists some inputs are.

Hidden files and what operating systems leave behind are skipped and counted.
"""

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.common.entry import (
    BlobColumn,
    ExcludedInput,
    InputTable,
    bytes_of,
    with_excluded,
)
from components.common.layout_inputs import LayoutInputs, select_readable
from components.example_gen.file_examples import DESCRIPTIONS
from components.example_gen.settings import LISTS
from components.layouts import lists
from components.layouts.boxes import SIZE_COLUMNS
from components.layouts.file_kinds import kind_of_name
from components.tables.reading import kind_of_table
from trainer_utils.format import ConfigError, InputError, canonical_split
from trainer_utils.format.naming import sign_of_dataset
from trainer_utils.storage import display_path
from trainer_utils.storage.file_system import decode_path, encode_path

_CLUTTER = (
    *("Thumbs.db", "desktop.ini", "__MACOSX", "@eaDir", "$RECYCLE.BIN"),
    *("System Volume Information", "lost+found"),
)
_CLUTTER_NAME = f"(?:^|/)(?:\\.[^/]*|{'|'.join(map(re.escape, sorted(_CLUTTER)))})$"
_PLAIN_LISTS, _MOST_LISTS, _LINE_BYTES = (".txt", ".lst"), 10, 4096


def read_simple(inputs: LayoutInputs, *, layout: str) -> InputTable:
    """Works out split, features and bytes of each input, of `auto`, `folder` or `LISTS`."""
    if layout != "folder":
        found = lists.find(inputs, kind=layout if layout in LISTS else None)
        if found:
            good, excluded = select_readable(inputs, found, "a list")
            return with_excluded(lists.read(inputs, good), excluded)
    if "csv_path" in inputs.names and layout != "folder":
        refuse_layout(inputs, layout, f"the csv_path {inputs.names['csv_path']!r}")
    if layout not in ("auto", "folder"):
        refuse_layout(inputs, layout, f"a {layout.upper()} file")
    check_no_columns(inputs, "folder")
    if layout == "auto":
        _refuse_plain_list(inputs)
    return read(inputs)


def name_simple(inputs: LayoutInputs, *, layout: str) -> str:
    """Which of the layouts `read_simple` would take the inputs for."""
    if layout != "auto":
        return layout
    found = lists.find(inputs)
    return str(kind_of_table(found[0])) if found else "folder"


def check_no_columns(inputs: LayoutInputs, layout: str) -> None:
    """Refuses `columns` for a layout that has none."""
    if inputs.columns:
        rule = f"none for the layout {layout!r}, whose features are its own"
        raise ConfigError(
            f"columns: expected {rule}, got {', '.join(inputs.columns)}", setting="columns"
        )


def refuse_layout(inputs: LayoutInputs, layout: str, expected: str) -> None:
    """Says what was looked for in vain."""
    raise InputError(
        f"input_base {inputs.base!r}: expected {expected} for layout={layout!r}, "
        f"found none; at its top: {names_at_top(parts[0] for parts, _ in inputs.below_root())}.",
        path=inputs.base,
    )


def names_at_top(names: Iterable[str]) -> str:
    """Some names, for a message."""
    shown = sorted({display_path(name) for name in names})
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")


def without_reserved(listing: InputTable) -> InputTable:
    """The listing without columns whose names the engine gives to features of its own."""
    reserved = {"filename", *(blob.name for blob in listing.blobs)}
    for blob in listing.blobs:
        reserved.update(DESCRIPTIONS.get(blob.kind, ()))
    if any(column.name == "xmin" and column.is_list for column in listing.columns):
        # An annotation's height and width are compared with its image's.
        reserved -= {column.name for column in SIZE_COLUMNS}
    for name in {column.name for column in listing.columns} & reserved:
        logging.warning("column %r is left out: each example has a feature of that name", name)
        listing = dataclasses.replace(
            listing,
            rows=listing.rows.drop([f"value:{name}"]),
            columns=tuple(column for column in listing.columns if column.name != name),
        )
    return listing


def read(inputs: LayoutInputs) -> InputTable:
    """Takes splits and classes from the folders' names."""
    files = inputs.files.below(inputs.root)
    paths, folders = files.paths, files.folders()
    names = map(decode_path, bytes_of(folders.dictionary))
    parts = [() if name == inputs.root else inputs.parts_of(name) for name in names]
    places = folders.indices.to_numpy()

    def of_files(of_folders: Iterable[bool]) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = np.array([*of_folders], np.bool_)[places]
        return found

    is_clutter_of = of_files(map(is_clutter, parts))
    is_clutter_of |= np.asarray(pc.match_substring_regex(paths, pattern=_CLUTTER_NAME))
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
                "filename,label; or set layout='folder', and labels are the folders' names.",
                path=path,
            )


def is_clutter(parts: Iterable[str]) -> bool:
    """Whether a path, in parts, is hidden or an operating system's."""
    # A generator would take twice the time, and this is asked of every file.
    for part in parts:  # noqa: SIM110
        if part[:1] == "." or part in _CLUTTER:
            return True
    return False


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


def refuse_dataset(setting: str, path: str, names: Collection[str]) -> None:
    """Refuses TFRecords, by their names, at a `path` that a `setting` named."""
    if sign := sign_of_dataset(names):
        dataset = f"{path.rstrip('/')}/latest" if sign.startswith("artifacts/") else path
        raise InputError(
            f"{setting} {path!r}: expected raw files, got a dataset of TFRecords already "
            f"({sign}). What takes datasets: tfx-shards balance {dataset!r} OUT, or "
            f"ShardBalancer(examples=tfx.dsl.Importer(source_uri={dataset!r}, "
            "artifact_type=tfx.types.standard_artifacts.Examples).outputs['result'])."
        )
