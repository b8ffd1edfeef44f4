"""Fixtures that run TextExampleGen on files that a test writes.

The functions are in `runs`, which imports TFX. Only tests that use a fixture pay for the import.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.make import write_files

if TYPE_CHECKING:
    from tests.components.runs import Dataset


@pytest.fixture(scope="session")
def run_text() -> "Callable[..., Dataset]":
    """Return `run_text(base, uri, **settings)`, which converts a folder or file."""
    from tests.components import runs

    return runs.run_text


@pytest.fixture
def convert(tmp_path) -> "Callable[..., Dataset]":
    """Return `convert(files, **settings)`, which converts files, `{path: text or bytes}`.

    `base=` names the file or folder below them to start from. Each call uses new folders.
    """
    from tests.components import runs

    numbers = itertools.count()

    def convert(files: Mapping[str, bytes | str], *, base: str = "", **settings: Any) -> "Dataset":
        folder = tmp_path / f"run-{next(numbers)}"
        write_files(folder / "in", files)
        return runs.run_text(folder / "in" / base, folder / "out", **settings)

    return convert
