"""What a run left in a folder, and what it must not have left."""

from pathlib import Path

import pytest

from tests.make import everything
from trainer_utils import DatasetError
from trainer_utils.dataset import open_dataset

MANIFEST = "manifest.json"


def folders_of(uri: Path) -> set[str]:
    return {str(path.relative_to(uri)) for path in uri.rglob("*") if path.is_dir()}


def check_not_half(uri: Path, good: dict[str, bytes]) -> None:
    """What a disturbed run left is no dataset, or the whole one: nothing between.

    Of what is no dataset, such as a page, each file is whole or not there.
    """
    if MANIFEST not in good:
        found = everything(uri) if uri.exists() else {}
        halves = {name for name, data in found.items() if data != good.get(name)}
        assert not {name for name in halves if not name.startswith(".")}, halves
    elif (uri / MANIFEST).exists():
        found = everything(uri)
        assert {name: found.get(name) for name in good} == good
    else:
        with pytest.raises(DatasetError):
            open_dataset(str(uri))


def check_whole(uri: Path, good: dict[str, bytes], folders: set[str]) -> None:
    """All of it, byte for byte, and nothing else: in the folder or beside it."""
    found = everything(uri)
    others = found.keys() ^ good.keys()
    assert not others, others
    assert [name for name in good if found[name] != good[name]] == []
    assert folders_of(uri) == folders
    assert [path.name for path in uri.parent.iterdir()] == [uri.name]
