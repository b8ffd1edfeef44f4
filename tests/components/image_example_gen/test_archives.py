"""Conversions of WebDatasets with several files per key, which are named by suffix."""

import io
import wave

import numpy as np

import trainer_utils
from pipelines import convert
from tests.components.layouts.layout_files import write_tar
from tests.make import photo


def npy(number: int) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(number, number + 3))
    return stream.getvalue()


def wav(number: int) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.full(50 + number, number, "<i2").tobytes())
    return stream.getvalue()


def test_every_file_of_a_key_becomes_a_feature(tmp_path):
    for shard in range(2):
        files = {}
        for key in range(3):
            number = 3 * shard + key
            files |= {
                f"{key}.jpg": photo(number),
                f"{key}.depth.png": photo(number, "PNG", "L"),
                f"{key}.wav": wav(number),
                f"{key}.npy": npy(number),
                f"{key}.cls": str(number),
            }
        write_tar(tmp_path / f"in/data-train-{shard}.tar", files)
    convert(str(tmp_path / "in"), str(tmp_path / "out"))
    examples = list(trainer_utils.iterate(str(tmp_path / "out"), "train", batch_size=None))
    assert len(examples) == 6
    for example in examples:
        number = int(example["label"])
        shard, key = divmod(number, 3)
        assert example["filename"] == f"data-train-{shard}.tar/{key}.jpg".encode()
        assert example["npy"] == npy(number)
        assert example["wav"].shape == (50 + number, 1)
        assert example["image"].shape == (24, 32, 3)
        assert example["depth.png"].shape == (24, 32, 1)
