"""The beginning of a sound file as samples, for the searches for copies.

    samples, rate = read_beginning(data, 60)       # None where it cannot be decoded

WAV of 16 bits, which is what datasets hold, is read by the standard library; FLAC, OGG, MP3 and
other WAV by soundfile, which gives the same values of the former. A trainer's container may do
without it.
"""

import io
import wave

import numpy as np
import numpy.typing as npt

from trainer_utils.format import DatasetError

__all__ = ["read_beginning"]

_MOST_SAMPLES = 1 << 26  # of all channels: a file may be a thousandth of what it decodes to

Sound = tuple[npt.NDArray[np.float32], int]


def read_beginning(data: bytes, seconds: int) -> Sound | None:
    """The first seconds of a sound, `(frames, channels) float32` in [-1, 1], and its rate in Hz.

    Args:
        data: a whole file.
        seconds: that are decoded at the most.

    Returns:
        None where it cannot be decoded.

    Raises:
        DatasetError: it takes soundfile, which is not installed.
    """
    found = _read_wav(data, seconds)
    return _read_any(data, seconds) if found is None else found


def _read_wav(data: bytes, seconds: int) -> Sound | None:
    """Of WAV of 16 bits; None of all else."""
    try:
        with wave.open(io.BytesIO(data)) as file:
            if file.getsampwidth() != 2:
                return None
            channels, rate = file.getnchannels(), file.getframerate()
            octets = file.readframes(_most_frames(seconds, channels, rate))
    except (wave.Error, EOFError, RuntimeError):
        return None
    whole = len(octets) // (2 * channels) * 2 * channels
    samples = np.frombuffer(octets[:whole], "<i2").reshape(-1, channels)
    return samples.astype(np.float32) / 32768, rate


def _read_any(data: bytes, seconds: int) -> Sound | None:
    try:
        import soundfile  # which loads a C library
    except (ImportError, OSError) as error:
        raise DatasetError(
            "sounds: expected the package soundfile, to compare those that are no WAV of 16 bits, "
            f"got {str(error)!r}. Run pip install soundfile."
        ) from error
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            file.seekable = lambda: False  # some codecs cannot, nor FLAC of unknown length
            frames = _most_frames(seconds, file.channels, file.samplerate)
            samples = file.read(frames, "float32", always_2d=True)
            rate = file.samplerate
    except (soundfile.LibsndfileError, RuntimeError, TypeError):
        return None
    return (samples, rate) if np.isfinite(samples).all() else None


def _most_frames(seconds: int, channels: int, rate: int) -> int:
    return min(seconds * rate, _MOST_SAMPLES // channels)
