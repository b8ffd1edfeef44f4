"""Conversions of 16-bit images, and of formats whose reader may be missing."""

import logging
import sys

import cv2
import numpy as np
import pytest

from components.media import image_opening
from pipelines import convert
from tests.make import photo, write_files
from trainer_utils.core.errors import InputError


def deep_pngs(folder, most):
    for k in range(4):
        values = np.linspace(0, most - k, 30 * 40).reshape(30, 40).astype(np.uint16)
        path = folder / "ab"[k % 2] / f"p{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), values)
    return str(folder)


@pytest.mark.parametrize(("most", "warns"), [(4095, True), (16_382, True), (65_535, False)])
def test_16_bits_of_low_values_warn_with_their_range(tmp_path, caplog, most, warns):
    with caplog.at_level(logging.WARNING, "absl"):
        convert(deep_pngs(tmp_path / "in", most), str(tmp_path / "out"), splits={"train": 1})
    found = [record.getMessage() for record in caplog.records if "16 bits" in record.getMessage()]
    assert len(found) == warns
    if warns:
        assert f"4 images of 16 bits have values of at most {most - 3} to {most}" in found[0]
        assert "sixteen_bit='keep'" in found[0]


def test_heic_without_its_package_ends_the_run_early(tmp_path, monkeypatch):
    files = {f"cat/{k}.jpg": photo(k) for k in range(3)} | {
        "dog/IMG_1.HEIC": b"any",
        "dog/2.jpg": photo(4),
    }
    base = write_files(tmp_path / "in", files)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    image_opening._factory.cache_clear()
    try:
        with pytest.raises(InputError, match=r"IMG_1\.HEIC.*pip install 'tfx-shards\[heif\]'"):
            convert(str(base), str(tmp_path / "out"))
    finally:
        image_opening._factory.cache_clear()
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))
