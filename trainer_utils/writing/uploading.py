"""A dataset's folder put into an object store: by one writer at a time, the manifest last.

upload_dataset(folder, "s3://bucket/photos")

Whoever lists a store sees all that was put before. So a writer puts a claim, an object of its own
name, and lists then: where it sees another, it leaves. Nobody writes anything else before it was
alone; of two that come at the same moment, both may leave.
"""

import contextlib
import os
import socket
import uuid

from trainer_utils.format import ConfigError
from trainer_utils.format.naming import MANIFEST_FILE, WORKING_FOLDER
from trainer_utils.storage import (
    copy_file,
    exists,
    is_folder,
    is_remote,
    join,
    list_files,
    list_folder,
    list_names,
    make_folder,
    read_text,
    remove_file,
    remove_tree,
    write_text,
)
from trainer_utils.writing.publishing import working_folder


def check_is_free(uri: str) -> None:
    """Refuses a place where something is.

    Raises:
        ConfigError: it is a file, or a folder that is not empty; a claim is named with its owner.
    """
    try:
        if _is_free(uri):
            return
    except FileNotFoundError:  # another's claim, which went between two of the questions
        return
    advice = "Remove what is there, or name another"
    raise ConfigError.of("uri", uri, allowed="a place where nothing is", advice=advice)


def _is_free(uri: str) -> bool:
    if not is_folder(uri):
        return not exists(uri)
    names = list_names(uri)
    if names == [WORKING_FOLDER] and is_remote(uri):
        if claims := _claims_at(uri):
            raise _refusal(uri, claims[0])
        return not list_files(uri)  # what a failed upload leaves where folders are real
    return not names


def upload_dataset(folder: str, uri: str) -> None:
    """Copies all files of a local folder, the manifest last; nothing of them stays if one fails.

    Raises:
        ConfigError: something is there, or another writer is writing there.
    """
    check_is_free(uri)
    claim, working = _claim(uri), working_folder(uri)
    paths = (file.path for file in list_files(folder))
    try:
        for path in sorted(paths, key=lambda path: (path == MANIFEST_FILE, path)):
            target = join(uri, path)
            make_folder(target.rpartition("/")[0])
            copy_file(join(folder, path), target, temporary_folder=working)
    except BaseException:
        for entry in list_folder(uri):
            if entry.name != WORKING_FOLDER:
                (remove_tree if entry.is_folder else remove_file)(join(uri, entry.name))
        remove_file(claim)  # last: whoever comes may begin now
        raise
    remove_tree(working)


def _claim(uri: str) -> str:
    """Puts a claim there, and returns its path when it is the only thing there is."""
    folder, own = _claims_folder(uri), uuid.uuid4().hex
    claim = join(folder, own)
    make_folder(folder)
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    try:
        write_text(claim, owner, temporary_folder=folder)
        others = [name for name in _claims_at(uri) if name != own]
        if others or list_names(uri) != [WORKING_FOLDER]:
            raise _refusal(uri, others[0] if others else "")
    except BaseException:
        with contextlib.suppress(OSError):  # whoever is through has removed all claims
            remove_file(claim)
        raise
    return claim


def _claims_folder(uri: str) -> str:
    return join(working_folder(uri), "writers")


def _claims_at(uri: str) -> list[str]:
    return sorted(list_names(_claims_folder(uri), may_lack=True))


def _refusal(uri: str, claim: str) -> ConfigError:
    owner = ""
    with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
        owner = f" ({read_text(join(_claims_folder(uri), claim))})" if claim else ""
    advice = "Name another place; if that writer was killed, remove what it left there first"
    rule = f"a place where no other writer is{owner}"
    return ConfigError.of("uri", uri, allowed=rule, advice=advice)
