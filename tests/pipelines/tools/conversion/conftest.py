"""Fixtures with raw inputs: audio clips and photos in class folders."""

import pytest

from tests.make import photo, wav, write_files


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Write 12 audio clips in two class folders."""
    files = {f"{('no', 'yes')[n % 2]}/{n}.wav": wav(n, frames=800) for n in range(12)}
    return write_files(tmp_path_factory.mktemp("clips"), files)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Write 30 photos in three class folders."""
    files = {f"class{n % 3}/{n}.png": photo(9 * n, "PNG", size=(48, 40)) for n in range(30)}
    return write_files(tmp_path_factory.mktemp("pictures"), files)
