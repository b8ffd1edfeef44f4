"""File systems of every kind, with the same files."""

import os

from trainer_utils import storage


def write(path: str, data: bytes) -> None:
    storage.make_folder(os.path.dirname(path))
    with storage.write_atomically(path, temporary_folder=os.path.dirname(path)) as stream:
        stream.write(data)
