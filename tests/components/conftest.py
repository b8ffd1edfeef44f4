"""What tests of texts and tables share: TextExampleGen run on files that a test writes.

The functions are in `runs`, which imports TFX: only a test that asks for one waits for that.
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
    """`run_text(base, uri, **settings)`: the dataset made of a folder or file."""
    from tests.components import runs

    return runs.run_text


@pytest.fixture
def convert(tmp_path) -> "Callable[..., Dataset]":
    """`convert(files, **settings)`: the dataset made of files, `{path: text or bytes}`.

    `base=` names the file or folder below them to start from. Each call has folders of its own.
    """
    from tests.components import runs

    numbers = itertools.count()

    def convert(files: Mapping[str, bytes | str], *, base: str = "", **settings: Any) -> "Dataset":
        folder = tmp_path / f"run-{next(numbers)}"
        write_files(folder / "in", files)
        return runs.run_text(folder / "in" / base, folder / "out", **settings)

    return convert
