"""The beginnings of sounds, as soundfile decodes them; WAV of 16 bits without it."""

import io
import sys

import numpy as np
import pytest
import soundfile

from tests.trainer_utils.auditing.sounds import encoded, make_sound
from trainer_utils.auditing.sound_reading import read_beginning
from trainer_utils.format import DatasetError

STEREO = np.repeat(make_sound(0, 3.0, 8000), 2, axis=1) * (1.0, -0.5)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_the_first_seconds_are_those_of_the_whole(kind):
    data = encoded(STEREO, 8000, kind)
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    samples, rate = read_beginning(data, 2)
    assert (samples.shape, samples.dtype, rate) == ((16_000, 2), np.float32, 8000)
    np.testing.assert_allclose(samples, expected[:16_000], atol=0 if kind == "WAV" else 1e-4)
    assert len(read_beginning(data, 9)[0]) == len(expected)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "FLOAT", "ULAW"])
def test_other_wav_is_read_too(subtype):
    stream = io.BytesIO()
    soundfile.write(stream, STEREO, 8000, format="WAV", subtype=subtype)
    expected, _ = soundfile.read(io.BytesIO(stream.getvalue()), dtype="float32")
    np.testing.assert_array_equal(read_beginning(stream.getvalue(), 9)[0], expected)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_what_is_cut_or_damaged_is_some_sound_or_none(kind):
    data = encoded(STEREO, 8000, kind)
    rng = np.random.default_rng(0)
    for size in (0, 3, 12, 20, 43, 44, 45, 46, len(data) // 2, len(data) - 1):
        check(read_beginning(data[:size], 2))
    for _ in range(60):
        damaged = bytearray(data)
        damaged[rng.integers(0, 60)] = rng.integers(0, 256)
        check(read_beginning(bytes(damaged), 2))


def check(found: tuple[np.ndarray, int] | None) -> None:
    assert found is None or (found[0].ndim == 2 and np.isfinite(found[0]).all())


def test_no_number_is_no_sound():
    stream = io.BytesIO()
    soundfile.write(stream, np.array([0.5, np.nan]), 8000, format="WAV", subtype="FLOAT")
    assert read_beginning(stream.getvalue(), 2) is None


def test_without_soundfile_it_says_what_to_install(monkeypatch):
    files = {kind: encoded(STEREO, 8000, kind) for kind in ("WAV", "FLAC")}
    whole = read_beginning(files["WAV"], 9)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    np.testing.assert_array_equal(read_beginning(files["WAV"], 9)[0], whole[0])
    with pytest.raises(DatasetError, match="Run pip install soundfile"):
        read_beginning(files["FLAC"], 9)
