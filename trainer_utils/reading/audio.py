"""Sound that is kept as 16-bit WAV, as samples of float32.

Source: RIFF, "Multimedia Programming Interface and Data Specifications 1.0" (1991).
"""

import io
import wave
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError, Feature


def is_audio(feature: Feature) -> bool:
    """Whether a feature's bytes are a WAV file."""
    return feature.type == "string" and feature.extra.get("encoding") == "wav"


def check_batches(features: Mapping[str, Feature], seconds: float | None) -> None:
    """Refuses sounds that no batch can hold, of several rates or numbers of channels."""
    for name, feature in features.items():
        if not is_audio(feature):
            continue
        for key, setting, needed in (
            ("sample_rate", "sample_rate=16_000", seconds is not None),
            ("channels", "channels=1", True),
        ):
            if needed and feature.extra.get(key) is None:
                raise ConfigError(
                    f"audio_seconds: expected one {key} for all records of {name!r}, got several, "
                    f"which no batch can hold. Make them alike, AudioExampleGen({setting}), or "
                    "read records one by one, with batch_size=None, each at its own.",
                    setting="audio_seconds",
                )


def decode_wav(data: bytes, feature: Feature, seconds: float | None) -> npt.NDArray[np.float32]:
    """`(samples, channels) float32` in [-1, 1) of a WAV file of 16-bit PCM.

    Raises:
        ValueError: it is no such file, or has another rate than the dataset says.
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            frames = file.readframes(file.getnframes())
    except (EOFError, wave.Error) as error:
        raise ValueError(f"no WAV file: {error}") from error
    known = feature.extra.get("sample_rate")
    if width != 2 or known not in (None, rate):
        raise ValueError(f"a WAV file of {8 * width} bits and {rate} Hz")
    samples = np.frombuffer(frames, "<i2").reshape(-1, channels).astype(np.float32) / 32768
    if seconds is None:
        return samples
    count = round(rate * seconds)
    return np.pad(samples[:count], [(0, max(count - len(samples), 0)), (0, 0)])
