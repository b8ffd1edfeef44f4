"""Files in folders: `<split>/<class>/…`, `<class>/…`, `<split>/…` or files alone.

    read(inputs).entries[0]      # Entry(name='train/cat/1.jpg', split='train', values=('cat',), …)

Hidden files and what operating systems leave behind are skipped and counted.
"""

from collections.abc import Collection, Iterable

from components.common.layout_inputs import LayoutInputs
from components.common.listing import Blob, BlobColumn, Column, Entry, ExcludedInput, Listing
from trainer_utils.format import InputError, canonical_split
from trainer_utils.format.layouts import sign_of_dataset
from trainer_utils.storage import display_path

__all__ = ["is_clutter", "read", "refuse_dataset"]

_CLUTTER = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})


def read(inputs: LayoutInputs) -> Listing:
    """Takes splits and classes from the folders' names.

    Raises:
        InputError: the folders can be read as splits and as classes.
    """
    files = list(inputs.below_root())
    visible = [parts for parts, _ in files if not is_clutter(parts)]
    has_splits = inputs.split is None and _top_folders_are_splits(visible, inputs.base)
    label_depth = 1 if has_splits else 0
    has_labels = any(len(parts) > label_depth + 1 for parts in visible)
    entries, excluded = [], []
    for parts, file in files:
        split = inputs.split
        if has_splits and len(parts) > 1:
            split = canonical_split(parts[0])
        if is_clutter(parts):
            excluded.append(ExcludedInput(file.path, split, None, "hidden or system file"))
        elif file.problem is not None:
            excluded.append(ExcludedInput(file.path, split, *file.problem))
        elif has_splits and len(parts) == 1:
            excluded.append(ExcludedInput(file.path, None, "NO_SPLIT", "beside the split folders"))
        elif has_labels and len(parts) <= label_depth + 1:
            excluded.append(ExcludedInput(file.path, split, "NO_LABEL", "beside the class folders"))
        else:
            values = (parts[label_depth],) if has_labels else ()
            entries.append(Entry(file.path, split, (Blob(file.path, file.size),), values))
    columns = (Column("label", "label"),) if has_labels else ()
    blobs = (BlobColumn(inputs.media, inputs.media),)
    return Listing(tuple(entries), tuple(excluded), columns, blobs)


def is_clutter(parts: Iterable[str]) -> bool:
    """Whether a path, in parts, is hidden or an operating system's."""
    return any(part.startswith(".") or part in _CLUTTER for part in parts)


def _top_folders_are_splits(paths: Iterable[tuple[str, ...]], base: str) -> bool:
    """Whether the top folders are splits. One class may well be called 'train', so all must be."""
    tops = sorted({parts[0] for parts in paths if len(parts) > 1})
    named = [top for top in tops if canonical_split(top)]
    others = [top for top in tops if not canonical_split(top)]
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
