"""Which file system a path or url means.

file_system_of("photos/1.jpg")          # the local one
file_system_of("gs://bucket/photos")    # that of object stores, or fsspec's
"""

from trainer_utils.storage.file_system import FileSystem
from trainer_utils.storage.local import LOCAL
from trainer_utils.storage.paths import is_object_store, is_remote

__all__ = ["file_system_of", "is_seen_by_others", "register_file_system"]

_registered: dict[str, FileSystem] = {}


def register_file_system(scheme: str, file_system: FileSystem) -> None:
    """Has urls of a scheme served by a file system in place of fsspec's."""
    _registered[scheme] = file_system


def file_system_of(path: str) -> FileSystem:
    """Where a path or url leads.

    Raises:
        ConfigError: there is no file system of its scheme; the message says what to install.
    """
    if not is_remote(path):
        return LOCAL
    scheme = path.partition("://")[0]
    if scheme in _registered:
        return _registered[scheme]
    # With fsspec: local files do without.
    from trainer_utils.storage.remote import REMOTE, REMOTE_OBJECTS
    from trainer_utils.storage.store_settings import STORES

    if scheme in STORES:
        from trainer_utils.storage.object_stores import OBJECT_STORES

        return OBJECT_STORES
    return REMOTE_OBJECTS if is_object_store(path) else REMOTE


def is_seen_by_others(path: str) -> bool:
    """Whether other processes of this machine are certain to find at a path what this one does.

    They see local files, and what lies in S3 and Azure by settings that they share.
    """
    if not is_remote(path):
        return True
    from trainer_utils.storage.store_settings import STORES, are_settings_shared

    scheme = path.partition("://")[0]
    return scheme in STORES and scheme not in _registered and are_settings_shared()
