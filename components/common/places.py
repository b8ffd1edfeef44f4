"""Places that a caller names: whether they are any, can be written to, and lie apart."""

import os
import posixpath

from trainer_utils.format import ConfigError
from trainer_utils.storage import is_folder, is_remote


def path_of(name: str, value: object) -> str:
    """A path or url, given as a text or as `pathlib` has it; ConfigError of anything else."""
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError.of(name, value, allowed="a path or a url")
    return path


def check_folder(name: str, folder: str) -> None:
    """Refuses a folder of this machine that cannot be made, or that cannot be written into."""
    if is_remote(folder):
        return
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not is_folder(place):
        raise ConfigError.of(name, folder, allowed=f"a folder, which the file {place!r} is not")
    if not os.access(place, os.W_OK | os.X_OK):
        is_read_only = os.statvfs(place).f_flag & os.ST_RDONLY
        why = "Read-only file system" if is_read_only else "no permission to write in"
        rule = f"a folder that can be written to: {why} {place!r}"
        raise ConfigError.of(name, folder, allowed=rule)


def is_within(place: str, folder: str) -> bool:
    """Whether a place is a folder, or lies in it, links followed."""
    inner, outer = _normal(place), _normal(folder)
    return posixpath.commonpath([inner, outer]) == outer


def _normal(uri: str) -> str:
    if is_remote(uri):
        scheme, _, path = uri.partition("://")
        return f"/{scheme}:/{posixpath.normpath(path)}"
    return os.path.realpath(uri)
