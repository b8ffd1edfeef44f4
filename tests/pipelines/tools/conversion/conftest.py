"""Raw inputs: sounds and photos in class folders."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """12 sounds in two class folders."""
    import soundfile

    folder = tmp_path_factory.mktemp("clips")
    for number in range(12):
        path = folder / ("yes" if number % 2 else "no") / f"{number}.wav"
        path.parent.mkdir(exist_ok=True)
        soundfile.write(path, np.sin(np.arange(800) * (number + 1) / 50), 8000)
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory, photos):
    """30 photos in three class folders."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("pictures")
    for number, photo in enumerate(photos):
        path = folder / f"class{number % 3}" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(photo).save(path)
    return folder
