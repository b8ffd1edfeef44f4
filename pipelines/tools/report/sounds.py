"""Sounds of examples: how long they are, and their wave form.

sound = read_sound(example, "audio")
sound.seconds, sound.peaks
"""

import dataclasses
import io
import wave

import numpy as np

from pipelines.tools.records import Example

__all__ = ["Sound", "read_sound"]

_PEAKS = 160  # of a wave form: two pixels each


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sound:
    """One sound.

    Args:
        name: what its example is called.
        seconds: its length.
        sample_rate: in samples a second.
        channels: how many.
        peaks: the greatest amplitude of each part of it, in [0, 1], parts in order.
    """

    name: str
    seconds: float
    sample_rate: int
    channels: int
    peaks: tuple[float, ...]


def read_sound(example: Example, feature: str) -> Sound | None:
    """The sound that a feature holds; None where it holds none, or none kept as plain WAV."""
    value = example.values[feature]
    if value.format != "WAV" or not value.is_file:
        return None
    try:
        with wave.open(io.BytesIO(value.content)) as reader:
            rate, channels = reader.getframerate(), reader.getnchannels()
            width = reader.getsampwidth()
            frames = reader.readframes(reader.getnframes())
    except (wave.Error, EOFError, ValueError):  # floating point, for one
        return None
    if width != 2 or not rate or not channels:
        return None
    samples = np.frombuffer(frames[: len(frames) // 2 * 2], "<i2").astype(np.int32)
    parts = np.array_split(np.abs(samples), min(_PEAKS, max(len(samples), 1)))
    return Sound(
        name=example.name,
        seconds=len(samples) / channels / rate,
        sample_rate=rate,
        channels=channels,
        peaks=tuple(float(part.max(initial=0)) / 32768 for part in parts),
    )
