"""What tests of ImageExampleGen share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def many(tmp_path_factory) -> Path:
    """300 photos in 12 classes."""
    from tests.components.image_example_gen.image_runs import write_photos

    names = [f"class-{number % 12:02d}/{number:03d}.jpg" for number in range(300)]
    return write_photos(tmp_path_factory.mktemp("many"), *names)
