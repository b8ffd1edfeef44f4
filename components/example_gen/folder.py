"""Files in folders: `<split>/<class>/…`, `<class>/…`, `<split>/…` or files alone.

    read(inputs).entries[0]      # Entry(name='train/cat/1.jpg', split='train', values=('cat',), …)

Hidden files and what operating systems leave behind are skipped and counted.
"""

import itertools
import posixpath
from collections.abc import Collection, Iterable, Iterator

from components.common.entry import Blob, BlobColumn, Column, Entry, ExcludedInput
from components.common.layout_inputs import LayoutInputs
from components.common.listing import Listing
from trainer_utils.format import InputError, canonical_split
from trainer_utils.format.layouts import sign_of_dataset
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import display_path

__all__ = ["is_clutter", "read", "refuse_dataset", "refuse_plain_list"]

_CLUTTER = frozenset(
    {"Thumbs.db", "desktop.ini", "__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information"}
)

_PLAIN_LISTS, _MOST_LISTS, _LINE_BYTES = (".txt", ".lst"), 10, 4096


def read(inputs: LayoutInputs) -> Listing:
    """Takes splits and classes from the folders' names.

    Raises:
        InputError: the folders can be read as splits and as classes.
    """
    tops, depth = _visible_folders(inputs)
    has_splits = inputs.split is None and _top_folders_are_splits(tops, inputs.base)
    label_depth = 1 if has_splits else 0
    has_labels = depth > label_depth + 1
    excluded: list[ExcludedInput] = []

    def entries() -> Iterator[Entry]:
        for parts, file in inputs.below_root():
            split = inputs.split
            if has_splits and len(parts) > 1:
                split = canonical_split(parts[0])
            if is_clutter(parts):
                excluded.append(ExcludedInput(file.path, split, None, "hidden or system file"))
            elif file.problem is not None:
                excluded.append(ExcludedInput(file.path, split, *file.problem))
            elif has_splits and len(parts) == 1:
                detail = "beside the split folders"
                excluded.append(ExcludedInput(file.path, None, "NO_SPLIT", detail))
            elif has_labels and len(parts) <= label_depth + 1:
                detail = "beside the class folders"
                excluded.append(ExcludedInput(file.path, split, "NO_LABEL", detail))
            else:
                values = (parts[label_depth],) if has_labels else ()
                yield Entry(file.path, split, (Blob(file.path, file.size),), values)

    columns = (Column("label", "label"),) if has_labels else ()
    return Listing.of(entries(), excluded, columns, (BlobColumn(inputs.media, inputs.media),))


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
            "Move the others away, or name each split's pattern in input_config.",
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
            f"({sign}). ShardBalancer takes datasets, ours and others': "
            f"ShardBalancer(examples=tfx.dsl.Importer(source_uri={dataset!r}, "
            "artifact_type=tfx.types.standard_artifacts.Examples).outputs['result'])."
        )
