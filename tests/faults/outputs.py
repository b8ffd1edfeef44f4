"""Check the files that a run left in a folder."""

from pathlib import Path

import pytest

from tests.make import everything
from trainer_utils import DatasetError
from trainer_utils.dataset import open_dataset

MANIFEST = "manifest.json"


def folders_of(uri: Path) -> set[str]:
    return {str(path.relative_to(uri)) for path in uri.rglob("*") if path.is_dir()}


def check_not_half(uri: Path, good: dict[str, bytes]) -> None:
    """Check that a disturbed run left either no dataset or the complete one.

    If the output is not a dataset but a page, for example, each file must be complete or missing.
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
    """Check that the folder has the expected bytes and no other files, and no siblings."""
    found = everything(uri)
    others = found.keys() ^ good.keys()
    assert not others, others
    assert [name for name in good if found[name] != good[name]] == []
    assert folders_of(uri) == folders
    assert [path.name for path in uri.parent.iterdir()] == [uri.name]
