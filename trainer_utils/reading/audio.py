"""Sound that is kept as 16-bit WAV, as samples of float32.

    samples = decode_wav(data, feature, AudioReading(seconds=1.0))    # (16000, 1)

Source: RIFF, "Multimedia Programming Interface and Data Specifications 1.0" (1991), of which
TensorFlow reads PCM of 16 bits.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer_utils.format import ConfigError, Feature

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["AudioReading", "check_batches", "decode_wav", "is_audio", "is_fixed_length"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioReading:
    """What sounds are to become.

    Args:
        seconds: that each example is cut or, with silence at its end, filled up to; None keeps
            their lengths, and batches are filled up to the longest.

    Raises:
        ConfigError: the setting is not allowed.
    """

    seconds: float | None = None

    def __post_init__(self) -> None:
        is_number = isinstance(self.seconds, (int, float)) and not isinstance(self.seconds, bool)
        if self.seconds is not None and not (is_number and 0 < self.seconds < float("inf")):
            raise ConfigError(
                f"audio_seconds: expected seconds above 0, or None, got {self.seconds!r}"
            )


def is_audio(feature: Feature) -> bool:
    """Whether a feature's bytes are a WAV file."""
    return feature.type == "string" and feature.extra.get("encoding") == "wav"


def is_fixed_length(feature: Feature, reading: AudioReading) -> bool:
    """Whether all sounds of a feature come out with one length and number of channels."""
    is_known = reading.seconds is not None and "sample_rate" in feature.extra
    return (is_known or "num_frames" in feature.extra) and "channels" in feature.extra


def check_batches(features: Mapping[str, Feature], reading: AudioReading) -> None:
    """Refuses sounds that no batch can hold.

    Raises:
        ConfigError: seconds are asked for and rates are mixed, or numbers of channels are mixed.
    """
    for name, feature in features.items():
        if not is_audio(feature):
            continue
        for key, setting, needed in (
            ("sample_rate", "sample_rate=16_000", reading.seconds is not None),
            ("channels", "channels=1", True),
        ):
            if needed and feature.extra.get(key) is None:
                raise ConfigError(
                    f"audio_seconds: expected one {key} for all records of {name!r}, got several, "
                    f"which no batch can hold. Make them alike, AudioExampleGen({setting}), or "
                    "read records one by one, with batch_size=None, each at its own."
                )


def decode_wav(encoded: "tf.Tensor", feature: Feature, reading: AudioReading) -> "tf.Tensor":
    """Decodes one sound.

    Args:
        encoded: a scalar string: a WAV file of 16-bit PCM.
        feature: whose `extra` holds `sample_rate`, in Hz, `num_frames` and `channels` where all
            records have the same.
        reading: what it is to become.

    Returns:
        `(samples, channels) float32` in [-1, 1). A record whose header has another rate than the
        dataset says is an `InvalidArgumentError` when it is read.
    """
    import tensorflow as tf  # settings are checked without it

    samples, rate = tf.audio.decode_wav(encoded)
    known = feature.extra.get("sample_rate")
    if known is not None:
        same = tf.debugging.assert_equal(
            rate, known, "The rate of a WAV file is not the dataset's: was it written by hand?"
        )
        with tf.control_dependencies([same]):
            samples = tf.identity(samples)
    length = feature.extra.get("num_frames")
    if reading.seconds is not None:
        wanted = tf.cast(rate, tf.float64) * reading.seconds
        count = tf.cast(tf.round(wanted), tf.int32)
        samples = samples[:count]
        samples = tf.pad(samples, [[0, count - tf.shape(samples)[0]], [0, 0]])
        length = None if known is None else round(known * reading.seconds)
    return tf.ensure_shape(samples, (length, feature.extra.get("channels")))
