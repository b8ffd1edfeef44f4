"""Audio through `input_fn`, against the samples that the standard library writes as WAV."""

import io
import wave
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature

RATE = 8000


def samples(length: int, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Return `(length, channels) int16` samples with both extremes."""
    values = np.random.default_rng(seed).integers(-32768, 32768, (length, channels)).astype("<i2")
    values[:2] = [[-32768], [32767]]
    return values


def wav(values: np.ndarray, rate: int = RATE) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as writer:
        writer.setnchannels(values.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(values.tobytes())
    return stream.getvalue()


def sound(**extra: Any) -> dict[str, Feature]:
    return {"sound": Feature(type="string", extra={"encoding": "wav", **extra})}


ALIKE = {"sample_rate": RATE, "channels": 1}


@pytest.fixture
def write(tmp_path, write_dataset):
    def write(sounds: list[bytes], **extra: Any) -> str:
        name = f"dataset-{len(list(tmp_path.iterdir()))}"
        shard = [{"sound": [data]} for data in sounds]
        return write_dataset(tmp_path / name, {"train": [shard]}, sound(**extra))

    return write


def read(uri: Any, **options: Any) -> list[np.ndarray]:
    settings = {"features": "sound", "shuffle": False, **options}
    return list(input_fn(uri, **settings).as_numpy_iterator())


@pytest.mark.parametrize("channels", [1, 2])
def test_clips_of_one_length_are_samples_between_minus_1_and_1(write, channels):
    values = [samples(500, channels, seed) for seed in range(3)]
    uri = write([wav(v) for v in values], sample_rate=RATE, channels=channels, num_frames=500)
    (batch,) = read(uri)
    assert batch.dtype == np.float32
    np.testing.assert_array_equal(batch, np.stack(values) / 32768)
    spec = input_fn(uri, features="sound").element_spec
    assert spec == tf.TensorSpec((None, 500, channels), tf.float32)


def test_clips_of_different_lengths_are_padded_with_silence(write):
    values = [samples(length) for length in (300, 100, 200)]
    (batch,) = read(write([wav(v) for v in values], **ALIKE))
    assert batch.shape == (3, 300, 1)
    for row, value in zip(batch, values, strict=True):
        np.testing.assert_array_equal(row[: len(value)], value / 32768)
        assert not row[len(value) :].any()


@pytest.mark.parametrize("seconds", [0.02, 1, 0.025003])
def test_clips_are_cut_or_padded_to_audio_seconds(write, seconds):
    values = [samples(length) for length in (160, 240, 500, 3)]
    uri = write([wav(v) for v in values], **ALIKE)
    count = round(seconds * RATE)
    (batch,) = read(uri, audio_seconds=seconds)
    expected = np.zeros((4, count, 1), np.float32)
    for row, value in zip(expected, values, strict=True):
        row[: len(value)] = value[:count] / 32768
    np.testing.assert_array_equal(batch, expected)
    spec = input_fn(uri, features="sound", audio_seconds=seconds).element_spec
    assert spec == tf.TensorSpec((None, count, 1), tf.float32)


def test_audio_seconds_with_mixed_rates_depend_on_the_record(write, subtests):
    values, rates = samples(1000), (4000, 8000)
    uri = write([wav(values, rate) for rate in rates], channels=1)
    for batch_size in (None, 1):
        with subtests.test(batch_size=batch_size):
            got = read(uri, audio_seconds=0.05, batch_size=batch_size)
            assert [sound.shape[-2] for sound in got] == [200, 400]
            for one, count in zip(got, (200, 400), strict=True):
                np.testing.assert_array_equal(one.reshape(-1, 1), values[:count] / 32768)


def test_mixed_rates_and_channels_are_refused_with_a_fix(write, subtests):
    for extra, options, cure in (
        ({"channels": 1}, {"audio_seconds": 1}, "sample_rate=16"),
        ({"sample_rate": RATE}, {}, "channels=1"),
    ):
        with subtests.test(extra=extra):
            uri = write([wav(samples(10))] * 2, **extra)
            with pytest.raises(ConfigError, match=rf"AudioExampleGen\({cure}"):
                read(uri, **options)
            assert len(read(uri, batch_size=None, **options)) == 2


def test_a_record_of_another_rate_than_declared_is_an_error(write):
    uri = write([wav(samples(10)), wav(samples(10), 4000)], **ALIKE)
    with pytest.raises(tf.errors.InvalidArgumentError, match="rate"):
        read(uri)


def test_clips_may_be_ragged(write):
    values = [samples(length) for length in (300, 100)]
    (batch,) = input_fn(
        write([wav(v) for v in values], **ALIKE), features="sound", shuffle=False, ragged=True
    )
    assert isinstance(batch, tf.RaggedTensor)
    for row, value in zip(batch, values, strict=True):
        np.testing.assert_array_equal(row, value / 32768)
