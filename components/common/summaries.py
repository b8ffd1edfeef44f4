"""What each written shard reports: a small JSON file that its retry writes over.

A Beam worker cannot hand values back to the executor, but both see the output's file system.

    write_summary(folder, "train-00000", {"records": 12})
    read_summaries(folder)      # [{'records': 12}, …], sorted by name
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from components.common.files import (
    exists,
    join,
    list_files,
    make_folder,
    read_text,
    remove_tree,
    write_text,
)
from trainer_utils.format.naming import WORKING_FOLDER

__all__ = ["read_summaries", "start_working", "working_folder", "write_summary"]


def working_folder(uri: str) -> str:
    """Where a run keeps temporary files and summaries; removed when the dataset is published."""
    return join(uri, WORKING_FOLDER)


def start_working(uri: str) -> None:
    """Makes the working folder, empty of what an earlier attempt left."""
    remove_tree(working_folder(uri))
    make_folder(working_folder(uri))


def write_summary(folder: str, name: str, summary: Mapping[str, Any]) -> None:
    """Keeps one shard's report. Names must differ by shard, and be equal for a retry."""
    write_text(join(folder, f"summaries/{name}.json"), json.dumps(summary))


def read_summaries(folder: str) -> list[dict[str, Any]]:
    """All reports, sorted by name."""
    summaries = join(folder, "summaries")
    if not exists(summaries):
        return []
    return [
        json.loads(read_text(os.path.join(summaries, file.path))) for file in list_files(summaries)
    ]
