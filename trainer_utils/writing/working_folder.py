"""The folder next to the shards of an unfinished dataset, for temporary files and summaries."""

from trainer_utils import storage
from trainer_utils.format import (
    naming,
)


def working_folder(uri: str) -> str:
    """Return the folder for temporary files and summaries, which is removed on publishing."""
    return storage.join(uri, naming.WORKING_FOLDER)


def remove_working_folder(uri: str) -> None:
    """Remove the working folder, beginning with the file that identifies the run.

    If the process is killed meanwhile, no later run resumes from the rest.
    """
    if storage.exists(run := storage.join(working_folder(uri), naming.RUN_FILE)):
        storage.remove_file(run)
    storage.remove_tree(working_folder(uri))
