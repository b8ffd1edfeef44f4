"""What becomes of an audio file: 16-bit WAV, which `tf.audio.decode_wav` reads.

store_audio(data, AudioOptions(sample_rate=16_000), filename="clips/1.flac")
# StoredAudio(data=…, sample_rate=16000, num_frames=48000, channels=1, conversions=('FLAC', …))

Source: the RIFF container and its `fmt ` and `data` chunks ("Multimedia Programming Interface and
Data Specifications 1.0", 1991); what TensorFlow takes, `tensorflow/core/lib/wav/wav_io.cc`.
"""

import dataclasses
import io
import math
import os
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from components.common.checks import check_choice, check_number
from components.common.rejects import RejectedInputError

__all__ = ["AUDIO_EXTENSIONS", "AudioOptions", "StoredAudio", "store_audio"]

_EXTENSIONS = {
    "WAV": (".wav", ".wave"),
    "FLAC": (".flac",),
    "OGG": (".ogg", ".oga", ".opus"),
    "MP3": (".mp3",),
}
AUDIO_EXTENSIONS = frozenset(ending for endings in _EXTENSIONS.values() for ending in endings)
_MOST_BYTES = 1 << 30  # of samples: an Example, being one protocol buffer, ends at 2 GiB
_LARGEST_RATE = 768_000
_HEAD_BYTES = 8 << 10
_MP3_FRAME = 1152  # samples
_PCM = 1  # of a `fmt ` chunk
_UNKNOWN_SIZE = 0xFFFFFFFF  # of a stream whose end was not known when it began


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioOptions:
    """What is to become of audio.

    Args:
        sample_rate: in Hz, to which all is resampled; None leaves each file's own.
        channels: 1 mixes all into one, 2 doubles a single one; None leaves each file's own.
    """

    sample_rate: int | None = None
    channels: int | None = None

    def __post_init__(self) -> None:
        if self.sample_rate is not None:
            check_number("sample_rate", self.sample_rate, 1, _LARGEST_RATE)
        check_choice("channels", self.channels, (None, 1, 2))


@dataclasses.dataclass(frozen=True, slots=True)
class StoredAudio:
    """What goes into an example.

    Args:
        data: a WAV file of 16 bits; the given bytes themselves, where they are one.
        sample_rate: in Hz.
        num_frames: samples of each channel.
        channels: how many.
        conversions: why it is not what it was, or not what it seemed: fixed upper-case words.
    """

    data: bytes
    sample_rate: int
    num_frames: int
    channels: int
    conversions: tuple[str, ...] = ()


def store_audio(data: bytes, options: AudioOptions, *, filename: str) -> StoredAudio:
    """Keeps a WAV file of 16 bits as it is, and decodes WAV, FLAC, OGG and MP3 into one.

    Args:
        data: a whole file.
        options: of the component.
        filename: whose extension may be wrong.

    Raises:
        RejectedInputError: EMPTY_FILE, NOT_AUDIO, UNSUPPORTED_FORMAT, TRUNCATED_AUDIO,
            DAMAGED_AUDIO, NO_SAMPLES, TOO_LARGE or TOO_MANY_CHANNELS.
    """
    if not data:
        raise RejectedInputError("EMPTY_FILE", "0 bytes")
    plain = _plain_wav(data)
    kind = "WAV" if plain is not None else _kind(data)
    conversions: tuple[str, ...] = ()
    ending = os.path.splitext(filename)[1].lower()
    if ending in AUDIO_EXTENSIONS and ending not in _EXTENSIONS[kind]:
        conversions = ("WRONG_EXTENSION",)
    if (
        plain is not None
        and options.sample_rate in (None, plain.sample_rate)
        and options.channels in (None, plain.channels)
    ):
        return dataclasses.replace(plain, conversions=conversions)
    samples, sample_rate, is_deeper = _decode(data)
    if kind != "WAV":
        conversions += (kind,)
    elif is_deeper:
        conversions += ("BIT_DEPTH",)
    elif plain is None:
        conversions += ("WAV_VARIANT",)
    if options.channels not in (None, samples.shape[1]):
        samples = _mixed(samples, options.channels)
        conversions += ("CHANNELS",)
    if options.sample_rate not in (None, sample_rate):
        assert options.sample_rate is not None
        samples = _resample(samples, sample_rate, options.sample_rate)
        sample_rate = options.sample_rate
        conversions += ("RESAMPLED",)
    return StoredAudio(
        _wav(samples, sample_rate), sample_rate, len(samples), samples.shape[1], conversions
    )


def _plain_wav(data: bytes) -> StoredAudio | None:
    """A WAV file that TensorFlow reads as it is; None for any other.

    Raises:
        RejectedInputError: it is one, but cut short.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    position, form = 12, None
    while position + 8 <= len(data):
        name, size = (
            data[position : position + 4],
            int.from_bytes(data[position + 4 :][:4], "little"),
        )
        body = position + 8
        if name == b"fmt ":
            form = data[body : body + 16] if size in (16, 18) else None
        if name == b"data":
            return _of_chunks(form, body, size, data)
        position = body + size + size % 2
    raise RejectedInputError("TRUNCATED_AUDIO", "the WAV file ends before its samples")


def _of_chunks(form: bytes | None, start: int, size: int, data: bytes) -> StoredAudio | None:
    if size == _UNKNOWN_SIZE:
        return None
    if start + size > len(data):
        raise RejectedInputError(
            "TRUNCATED_AUDIO",
            f"expected {size} bytes of samples as its header says, got {len(data) - start}",
        )
    if form is None or len(form) < 16:
        return None
    encoding, channels, rate, _, frame_bytes, bits = struct.unpack("<HHIIHH", form)
    if encoding != _PCM or bits != 16 or not channels or frame_bytes != 2 * channels or not rate:
        return None
    if size < frame_bytes or size % frame_bytes:
        return None
    return StoredAudio(data, rate, size // frame_bytes, channels)


def _kind(data: bytes) -> str:
    """`WAV`, `FLAC`, `OGG` or `MP3`."""
    import soundfile  # loads a C library; only those who have audio pay

    try:
        name = soundfile.info(io.BytesIO(data)).format
    except (soundfile.LibsndfileError, RuntimeError, TypeError) as error:
        raise RejectedInputError("NOT_AUDIO", f"expected WAV, FLAC, OGG or MP3: {error}") from error
    kind = {"WAVEX": "WAV", "RF64": "WAV", "MPEG": "MP3"}.get(name, name)
    if kind not in _EXTENSIONS:
        raise RejectedInputError(
            "UNSUPPORTED_FORMAT", f"expected WAV, FLAC, OGG or MP3, got {name}"
        )
    return str(kind)


def _decode(data: bytes) -> tuple[npt.NDArray[np.float32], int, bool]:
    """Samples, `(frames, channels) float32` in [-1, 1], their rate, if they had over 16 bits."""
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.frames * file.channels * 4 > _MOST_BYTES:
                raise RejectedInputError(
                    "TOO_LARGE", f"expected at most {_MOST_BYTES} bytes, got {file.frames} frames"
                )
            samples = file.read(dtype="float32", always_2d=True)
            rate, expected = file.samplerate, file.frames
            subtype, container = file.subtype, file.format
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise RejectedInputError("DAMAGED_AUDIO", f"cannot be decoded: {error}") from error
    if len(samples) < _least_frames(data, container, expected):
        raise RejectedInputError(
            "TRUNCATED_AUDIO", f"expected {expected} frames, got {len(samples)}"
        )
    if not len(samples):
        raise RejectedInputError("NO_SAMPLES", "there is no sound in it")
    return samples, rate, subtype not in ("PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW")


def _mixed(samples: npt.NDArray[np.float32], channels: int | None) -> npt.NDArray[np.float32]:
    """The mean of all channels, or twice a single one.

    Raises:
        RejectedInputError: TOO_MANY_CHANNELS, to be made two of.
    """
    if channels == 1:
        return samples.mean(axis=1, keepdims=True)
    if samples.shape[1] > 1:
        raise RejectedInputError(
            "TOO_MANY_CHANNELS", f"expected at most 2 channels, got {samples.shape[1]}"
        )
    return np.repeat(samples, 2, axis=1)


def _least_frames(data: bytes, container: str, expected: int) -> int:
    """How many frames a whole file gives."""
    if container in ("MP3", "MPEG"):
        # Without this tag the length is a guess; with it, a frame of padding may be counted.
        has_count = any(tag in data[:_HEAD_BYTES] for tag in (b"Xing", b"Info"))
        return expected - _MP3_FRAME if has_count else 0
    if container == "OGG" and (last := data.rfind(b"OggS")) >= 0:
        table = data[last + 27 : last + 27 + data[last + 26]] if last + 26 < len(data) else b""
        is_whole = bool(table) and last + 27 + len(table) + sum(table) <= len(data)
        return expected if is_whole else expected + 1
    return expected


def _resample(samples: npt.NDArray[np.float32], rate: int, wished: int) -> npt.NDArray[np.float32]:
    from scipy import signal  # takes a second

    common = math.gcd(rate, wished)
    resampled: Any = signal.resample_poly(samples, wished // common, rate // common, axis=0)
    return np.asarray(resampled, np.float32)


def _wav(samples: npt.NDArray[np.float32], sample_rate: int) -> bytes:
    """A WAV file of 16 bits, rounded to the nearest."""
    octets = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()
    channels = samples.shape[1]
    form = struct.pack(
        "<HHIIHH", _PCM, channels, sample_rate, sample_rate * channels * 2, channels * 2, 16
    )
    chunks = b"fmt " + struct.pack("<I", len(form)) + form
    chunks += b"data" + struct.pack("<I", len(octets)) + octets
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks
