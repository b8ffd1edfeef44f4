"""Files in folders: `<split>/<class>/…`, `<class>/…`, `<split>/…` or files alone.

    read(inputs).entries[0]      # Entry(name='train/cat/1.jpg', split='train', values=('cat',), …)

Hidden files and what operating systems leave behind are skipped and counted.
"""

import itertools
import posixpath
from collections.abc import Collection, Iterable, Iterator

from absl import logging

from components.common.entry import Blob, BlobColumn, Column, Entry, ExcludedInput
from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs
from trainer_utils.format import InputError, canonical_split
from trainer_utils.format.layouts import sign_of_dataset
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import display_path, is_remote, join, list_folder

__all__ = ["is_clutter", "read", "refuse_dataset", "refuse_plain_list"]

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

_PLAIN_LISTS, _MOST_LISTS, _LINE_BYTES = (".txt", ".lst"), 10, 4096


def read(inputs: LayoutInputs) -> InputTable:
    """Takes splits and classes from the folders' names.

    Raises:
        InputError: the folders can be read as splits and as classes.
    """
    tops, depth = _visible_folders(inputs)
    has_splits = inputs.split is None and _top_folders_are_splits(tops, inputs.base)
    label_depth = 1 if has_splits else 0
    listed = _listed_labels(inputs, label_depth)
    has_labels = depth > label_depth + 1 or bool(listed)
    excluded: list[ExcludedInput] = []
    classes: set[str] = set()

    def entries() -> Iterator[Entry]:
        for parts, file in inputs.below_root():
            split = inputs.split
            if has_splits and len(parts) > 1:
                split = canonical_split(parts[0])
            if file.path == inputs.label_list:
                continue  # which was read
            if is_clutter(parts):
                excluded.append(ExcludedInput(file.path, split, None, "hidden or system file"))
            elif file.problem is not None:
                excluded.append(ExcludedInput(file.path, split, *file.problem))
            elif has_splits and len(parts) == 1:
                detail = "beside the split folders"
                excluded.append(ExcludedInput(file.path, None, "NO_SPLIT", detail))
            elif has_labels and len(parts) <= label_depth + 1 and file.path not in listed:
                detail = "beside the class folders"
                excluded.append(ExcludedInput(file.path, split, "NO_LABEL", detail))
            else:
                label = listed.get(file.path) or parts[label_depth]
                values = (label,) if has_labels else ()
                classes.update(values)
                yield Entry(file.path, split, (Blob(file.path, file.size),), values)

    columns = (Column("label", "label"),) if has_labels else ()
    listing = InputTable.of(entries(), excluded, columns, (BlobColumn(inputs.media, inputs.media),))
    if has_labels and not is_remote(inputs.base):  # a bucket has no empty folders
        _warn_of_empty_classes(inputs, tops if has_splits else [""], classes)
    return listing


def _listed_labels(inputs: LayoutInputs, depth: int) -> dict[str, str]:
    """The classes of files by path, where a text has them line by line.

    Args:
        depth: how many folders the files lie below the root.
    """
    if inputs.label_list is None:
        return {}
    if inputs.label_list not in inputs.files:
        raise InputError(f"label_list {inputs.label_list!r}: expected a text, found none")
    flat = [
        path
        for parts, path in inputs.paths_below_root()
        if len(parts) == depth + 1 and path != inputs.label_list and not is_clutter(parts)
    ]
    labels = [line.strip() for line in inputs.read_text(inputs.label_list).strip().split("\n")]
    if len(labels) != len(flat) or not all(labels):
        got = f"{len(labels)} lines, {labels.count('')} of them empty"
        raise InputError.at(
            inputs.label_list, expected=f"the classes of {len(flat)} files, one a line", got=got
        )
    return dict(zip(flat, labels, strict=True))


def _warn_of_empty_classes(inputs: LayoutInputs, parents: Iterable[str], classes: set[str]) -> None:
    """Logs the folders of classes without a file: the dataset will not know these classes."""
    places = [join(join(inputs.base, inputs.root), parent) for parent in parents]
    folders = {one.name for place in places for one in list_folder(place) if one.is_folder}
    empty = sorted(name for name in folders - classes if not is_clutter([name]))
    if empty:
        shown = ", ".join(map(display_path, empty[:5])) + (", …" if len(empty) > 5 else "")
        logging.warning("%d class folders hold no file, and are no classes: %s", len(empty), shown)


def _visible_folders(inputs: LayoutInputs) -> tuple[set[str], int]:
    """The folders at the root that files are in, and of how many parts the longest path is."""
    tops: set[str] = set()
    depth = 0
    for parts, _ in inputs.paths_below_root():
        if not is_clutter(parts):
            depth = max(depth, len(parts))
            if len(parts) > 1:
                tops.add(parts[0])
    return tops, depth


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
