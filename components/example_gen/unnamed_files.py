"""Files beside the inputs that no list or annotation names, so that nobody misses them.

warn_of_unnamed(inputs, tables, media="image")
"""

from collections.abc import Iterator, Sequence

from absl import logging

from components.common.file_table import FileTable, encode_path
from components.common.input_table import InputTable, blob_paths
from components.example_gen.folder import is_clutter
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.storage import display_path

__all__ = ["warn_of_unnamed"]


def warn_of_unnamed(inputs: InputTable, tables: Sequence[FileTable], *, media: str) -> None:
    """Logs how many images or sounds lie beside the inputs and are none, with the first of them.

    Args:
        inputs: all of them.
        tables: the files that were selected, which may be more than once.
        media: `image` or `audio`, as names end.
    """
    found = sorted(set(_unnamed(inputs, tables, tuple(EXTENSIONS[media]))))
    if found:
        logging.warning(
            "%d %s in the folders of the inputs that nothing names, and that are not read: %r%s",
            len(found),
            media if len(found) == 1 else f"{media}s",
            display_path(found[0]),
            "" if len(found) == 1 else " is the first",
        )


def _unnamed(
    inputs: InputTable, tables: Sequence[FileTable], extensions: tuple[str, ...]
) -> Iterator[str]:
    if inputs.found >= max(map(len, tables), default=0):
        return  # as where all files of a folder are inputs
    columns = [blob_paths(inputs.rows, f"blob:{blob.name}") for blob in inputs.blobs]
    excluded = {one.name for one in inputs.excluded}
    others = [
        path
        for table in tables
        for path in table.others_than(columns)
        if path.lower().endswith(extensions) and path not in excluded
    ]
    if not others:
        return
    folders = {path.rpartition(b"/")[0] for column in columns for path in column.to_pylist()}
    for path in others:
        if encode_path(path).rpartition(b"/")[0] in folders and not is_clutter(path.split("/")):
            yield path
