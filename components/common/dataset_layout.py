"""The layout of a dataset, whoever wrote it: which of its files are shards, and what says so.

layout, sizes = open_layout("datasets/photos")
"""

from collections.abc import Mapping

from trainer_utils.format.layouts import Layout, find_layout
from trainer_utils.format.naming import WORKING_FOLDER
from trainer_utils.storage.files import exists, join, list_files, read_text

__all__ = ["open_layout"]


def open_layout(uri: str) -> tuple[Layout, Mapping[str, int | None]]:
    """The layout, and the size of each file in bytes, by path below `uri`; reads no record.

    Raises:
        DatasetError: there is no dataset, or it is not whole.
    """
    sizes: dict[str, int | None] = {file.path: file.size for file in list_files(uri)}
    if exists(join(uri, WORKING_FOLDER)):
        sizes[f"{WORKING_FOLDER}/"] = 0
    return find_layout(sizes, lambda path: read_text(join(uri, path)), uri=uri), sizes
