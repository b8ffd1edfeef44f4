"""Files in folders: `<split>/<class>/…`, `<class>/…`, `<split>/…` or files alone.

    read(inputs).entries[0]      # Entry(name='train/cat/1.jpg', split='train', values=('cat',), …)

Hidden files and what operating systems leave behind are skipped and counted.
"""

import itertools
import posixpath
import re
from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.common.entry import BlobColumn, ExcludedInput
from components.common.file_table import bytes_of, decode_path, encode_path
from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs
from trainer_utils.format import InputError, canonical_split
from trainer_utils.format.layouts import sign_of_dataset
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import display_path, is_remote, join, list_folder

_CLUTTER = frozenset(
    {
        "Thumbs.db",
        "desktop.ini",
        "__MACOSX",
        "@eaDir",
        "$RECYCLE.BIN",
        "System Volume Information",
        "lost+found",
    }
)

_CLUTTER_NAME = f"(?:^|/)(?:\\.[^/]*|{'|'.join(map(re.escape, sorted(_CLUTTER)))})$"
_PLAIN_LISTS, _MOST_LISTS, _LINE_BYTES = (".txt", ".lst"), 10, 4096


def read(inputs: LayoutInputs) -> InputTable:
    """Takes splits and classes from the folders' names.

    Raises:
        InputError: the folders can be read as splits and as classes.
    """
    files = inputs.files.below(inputs.root)
    paths, folders = files.paths, files.folders()
    names = map(decode_path, bytes_of(folders.dictionary))
    parts = [() if name == inputs.root else inputs.parts_of(name) for name in names]
    places = folders.indices.to_numpy()
    named_so = pc.match_substring_regex(paths, pattern=_CLUTTER_NAME)
    is_clutter_of = np.array([*map(is_clutter, parts)], np.bool_)[places] | np.asarray(named_so)
    seen = [parts[place] for place in np.unique(places[~is_clutter_of]).tolist()]
    tops = {folder[0] for folder in seen if folder}
    has_splits = inputs.split is None and _top_folders_are_splits(tops, inputs.base)
    depth = 1 if has_splits else 0
    is_flat = np.array([len(folder) <= depth for folder in parts], np.bool_)[places]
    label_paths, labels = _listed_labels(inputs, paths.filter(pa.array(is_flat & ~is_clutter_of)))
    has_labels = any(len(folder) > depth for folder in seen) or bool(label_paths)
    splits = [canonical_split(f[0]) if has_splits and f else inputs.split for f in parts]
    own = [encode_path(f[depth]) if len(f) > depth else None for f in parts]
    values = pa.array(own, pa.large_binary()).take(folders.indices)
    if label_paths:
        listed = pc.index_in(paths, value_set=pa.array(label_paths, pa.large_binary()))
        values = pc.coalesce(pa.array(labels, pa.large_binary()).take(listed), values)
    # Which file is why in no example; the first reason counts.
    lacks_split = np.array([has_splits and not folder for folder in parts], np.bool_)[places]
    lacks_label = np.asarray(values.is_null()) & has_labels
    is_bad = np.asarray(files.table.column("code").is_valid())
    is_list = np.asarray(pc.equal(paths, encode_path(inputs.label_list or "")))
    left_out = is_clutter_of | is_bad | lacks_split | lacks_label
    excluded = []
    for place in np.flatnonzero(left_out & ~is_list).tolist():
        path = decode_path(paths[place].as_py())
        split, problem = splits[places[place]], inputs.files[path].problem
        why: tuple[str | None, str] = "NO_LABEL", "beside the class folders"
        if is_clutter_of[place]:
            why = None, "hidden or system file"
        elif problem is not None:
            why = problem
        elif lacks_split[place]:
            why = "NO_SPLIT", "beside the split folders"
        excluded.append(ExcludedInput(path, split, *why))
    taken = pa.array(~(left_out | is_list))
    listing = InputTable.of_files(
        paths.filter(taken),
        files.table.column("size").filter(taken),
        pa.array(splits, pa.string()).take(folders.indices).filter(taken),
        excluded,
        blob=BlobColumn(inputs.media, inputs.media),
        labels=values.filter(taken) if has_labels else None,
    )
    if has_labels and not is_remote(inputs.base):  # a bucket has no empty folders
        classes = {*map(decode_path, bytes_of(pc.unique(values.filter(taken))))}
        _warn_of_empty_classes(inputs, tops if has_splits else [""], classes)
    return listing


def _listed_labels(inputs: LayoutInputs, flat: pa.Array) -> tuple[list[bytes], list[bytes]]:
    """Files in no class folder and their classes, where a text has them line by line.

    Args:
        flat: the paths of those files.
    """
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


def _warn_of_empty_classes(inputs: LayoutInputs, parents: Iterable[str], classes: set[str]) -> None:
    """Logs the folders of classes without a file: the dataset will not know these classes."""
    places = [join(join(inputs.base, inputs.root), parent) for parent in parents]
    folders = {one.name for place in places for one in list_folder(place) if one.is_folder}
    empty = sorted(name for name in folders - classes if not is_clutter([name]))
    if empty:
        shown = ", ".join(map(display_path, empty[:5])) + (", …" if len(empty) > 5 else "")
        logging.warning("%d class folders hold no file, and are no classes: %s", len(empty), shown)


def refuse_plain_list(inputs: LayoutInputs) -> None:
    """Refuses a list in plain text, as ImageNet's are, whose labels the folders do not have.

    Raises:
        InputError: a text beside the folders begins with the name of one of the files.
    """
    found = (
        path
        for parts, path in inputs.paths_below_root(endings=_PLAIN_LISTS)
        if len(parts) == 1 and not is_clutter(parts) and inputs.files[path].problem is None
    )
    for path in itertools.islice(found, _MOST_LISTS):
        with inputs.open(path) as stream:
            words = stream.read(_LINE_BYTES).decode("utf-8", "replace").split("\n", 1)[0].split()
        if len(words) > 1 and _is_named(words[0], inputs):
            raise InputError(
                f"{display_path(path)!r}: expected folders alone, or a list as a table, got a list "
                f"in plain text: {' '.join(words)!r} (line 1). Make it a CSV whose first row is "
                "filename,label; or set layout='folder', and labels are the folders' names.",
                path=path,
            )


def _is_named(name: str, inputs: LayoutInputs) -> bool:
    """Whether it looks like the name of a file, and one has it, or a path that ends so."""
    if posixpath.splitext(name)[1].lower() not in EXTENSIONS[inputs.media]:
        return False
    end = "/" + name.removeprefix("./").strip("/")
    return any(f"/{path}".endswith(end) for path in inputs.files)


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
    """Refuses TFRecords where raw inputs are expected.

    Args:
        setting: what named `path`.
        path: a folder or a file.
        names: of the files in the folder, or the file's.

    Raises:
        InputError: it names the file that shows it, and what takes datasets.
    """
    if sign := sign_of_dataset(names):
        dataset = f"{path.rstrip('/')}/latest" if sign.startswith("artifacts/") else path
        raise InputError(
            f"{setting} {path!r}: expected raw files, got a dataset of TFRecords already "
            f"({sign}). What takes datasets: tfx-shards balance {dataset!r} OUT, or "
            f"ShardBalancer(examples=tfx.dsl.Importer(source_uri={dataset!r}, "
            "artifact_type=tfx.types.standard_artifacts.Examples).outputs['result'])."
        )
