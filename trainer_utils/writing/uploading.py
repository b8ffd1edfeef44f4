"""Upload a finished dataset to an object store, the manifest last, unless another writer is there.

check_is_free("s3://bucket/dataset")
upload_dataset("/tmp/dataset", "s3://bucket/dataset")
"""

import contextlib
import os
import socket
import uuid

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError
from trainer_utils.format import (
    naming,
)
from trainer_utils.writing.working_folder import working_folder

_CLAIMS = f"{naming.WORKING_FOLDER}/writers"


def check_is_free(uri: str) -> None:
    """Raise ConfigError if there is something at `uri`; the message names another writer."""
    _check_is_free(uri, claim="")


def _check_is_free(uri: str, *, claim: str) -> None:
    """Raise ConfigError if there is something at `uri` besides the claim of this writer."""
    names = [uri] if storage.exists(uri) else []
    if storage.is_folder(uri):
        names = storage.list_names(uri, may_lack=True)
    rule, advice = "an empty or new folder", "Remove what is there, or pass another folder"
    if naming.WORKING_FOLDER in names and storage.is_remote(uri):
        folder, owner = storage.join(uri, _CLAIMS), ""
        others = sorted({*storage.list_names(folder, may_lack=True)} - {claim})
        if others:
            with contextlib.suppress(FileNotFoundError):  # it ended in the meantime
                owner = f" ({storage.read_text(storage.join(folder, others[0]))})"
            rule = f"a folder that no other writer uses{owner}"
            advice = "Pass another folder; if that writer was killed, remove its files first"
        elif len(names) == 1 and (claim or not storage.list_files(uri)):
            return  # after a failed upload to a store with real folders
    if names:
        raise ConfigError.of("uri", uri, allowed=rule, advice=advice)


def upload_dataset(folder: str, uri: str) -> None:
    """Upload all files of a local folder, the manifest last; remove them all if one fails.

    Listings of a store contain all earlier objects. So a writer first puts a claim, an object with
    a unique name, and then lists the folder. If it finds another claim, it gives up. If two writers
    start at the same moment, both may give up.

    Raises:
        ConfigError: there is something at `uri`, or another writer is writing there.
    """
    check_is_free(uri)
    claims, claim, working = storage.join(uri, _CLAIMS), uuid.uuid4().hex, working_folder(uri)
    paths = sorted(file.path for file in storage.list_files(folder))
    is_mine = False
    try:
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        storage.write_text(storage.join(claims, claim), owner, temporary_folder=claims)
        _check_is_free(uri, claim=claim)
        is_mine = True
        for path in sorted(paths, key=lambda path: path == naming.MANIFEST_FILE):
            target = storage.join(uri, path)
            storage.make_folder(target.rpartition("/")[0])
            storage.copy_file(storage.join(folder, path), target, temporary_folder=working)
    except BaseException:
        for entry in storage.list_folder(uri) if is_mine else ():
            if entry.name != naming.WORKING_FOLDER:
                remove = storage.remove_tree if entry.is_folder else storage.remove_file
                remove(storage.join(uri, entry.name))
        with contextlib.suppress(OSError):  # last, since another writer may start now
            storage.remove_file(storage.join(claims, claim))
        raise
    storage.remove_tree(working)
