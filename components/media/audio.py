"""Store audio as 16-bit WAV, which `tf.audio.decode_wav` reads.

This module checks that MP3 and Ogg files are complete, since decoders skip damaged frames and
pages. If an MP3 does not contain its length, libsndfile estimates it from the file size and the
bitrate of the first frame, and stops there.

Source: the RIFF container and its `fmt ` and `data` chunks ("Multimedia Programming Interface and
Data Specifications 1.0", 1991); TensorFlow's reader, `tensorflow/core/lib/wav/wav_io.cc`; ISO/IEC
11172-3 and 13818-3, layer III; the `Xing` and `Info` tags as LAME writes them; RFC 3533.
"""

import dataclasses
import io
import math
import os
import struct
import wave
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from components.inputs.rejects import RejectedInputError
from components.media.options import LARGEST_RATE, AudioOptions
from trainer_utils.format.media_formats import (
    EXTENSIONS,
    FORMATS,
    ID3,
    OGG,
    RIFF,
    WAVE,
    other_audio,
    packing_of,
)

_EXTENSIONS = {known.name: known.extensions for known in FORMATS if known.kind == "audio"}
_MAX_BYTES = 1 << 30  # for samples: an Example is one protocol buffer, limited to 2 GiB
_MP3_FRAME = 1152  # samples; a count may be too high by one frame
_UNKNOWN_FRAMES = 1 << 62
_PCM = 1  # format code in a `fmt ` chunk
_UNKNOWN_SIZE = 0xFFFFFFFF  # size in streams whose end was not yet known
# Sizes of the samples in headers written to a pipe, by sox, arecord and ffmpeg among others.
_PLACEHOLDERS = (0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFF000, _UNKNOWN_SIZE)
_MPEG1 = 3  # value of the version's two bits; 2 is MPEG 2, 0 is MPEG 2.5
_KBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44_100, 48_000, 32_000)
_RATE_SHIFT = {3: 0, 2: 1, 0: 2}
_AFTER = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", ID3, b"\0")  # may follow the last frame
_LAST = 4  # bit in an Ogg page's flags
_PAGE = struct.Struct("<4sBBqIIIB")
_CHUNK = struct.Struct("<4sI")  # RIFF: a name, and the number of bytes that follow
# Ogg's CRC processes the bits of each byte from the top, zlib's from the bottom.
_REVERSED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))


@dataclasses.dataclass(frozen=True, slots=True)
class StoredAudio:
    """A clip, ready to be stored in an example."""

    data: bytes  # a 16-bit WAV file; the original bytes if possible
    sample_rate: int  # Hz
    num_frames: int  # samples per channel
    channels: int  # number of channels
    # fixed upper-case words for the differences between the original and the stored file
    conversions: tuple[str, ...] = ()


def store_audio(data: bytes, options: AudioOptions, *, filename: str) -> StoredAudio:
    """Keep a 16-bit WAV file unchanged, and decode other WAV, FLAC, OGG and MP3 files to one.

    The extension of `filename` may be wrong.

    Args:
        data: the content of the file.
        options: the sample rate and channels to convert to.
        filename: the name of the file, to detect a wrong extension.

    Raises:
        RejectedInputError: EMPTY_FILE, NOT_AUDIO, UNSUPPORTED_FORMAT, TRUNCATED_AUDIO,
            DAMAGED_AUDIO, NO_SAMPLES, TOO_LARGE or TOO_MANY_CHANNELS.
    """
    if not data:
        raise RejectedInputError("EMPTY_FILE", "0 bytes")
    finished = finish_stream_header(data)
    data = data if finished is None else finished
    plain = _plain_wav(data)
    kind = "WAV" if plain is not None else _kind(data)
    conversions: tuple[str, ...] = ()
    ending = os.path.splitext(filename)[1].lower()
    if ending in EXTENSIONS["audio"] and ending not in _EXTENSIONS[kind]:
        conversions = ("WRONG_EXTENSION",)
    if finished is not None:
        conversions += ("WAV_STREAM",)
    if plain is not None:
        is_wished = options.sample_rate in (None, plain.sample_rate)
        if is_wished and options.channels in (None, plain.channels):
            return dataclasses.replace(plain, conversions=conversions)
    samples, sample_rate, is_deeper = _decode(data, kind)
    if kind != "WAV":
        conversions += (kind,)
    elif is_deeper:
        conversions += ("BIT_DEPTH",)
    elif plain is None and finished is None:
        conversions += ("WAV_VARIANT",)
    if kind == "WAV" and np.abs(samples).max() > 1:
        conversions += ("CLIPPED",)
    if options.channels not in (None, samples.shape[1]):
        samples = _mixed(samples, options.channels)
        conversions += ("CHANNELS",)
    if options.sample_rate not in (None, sample_rate):
        assert options.sample_rate is not None
        samples = _resample(samples, sample_rate, options.sample_rate)
        sample_rate = options.sample_rate
        conversions += ("RESAMPLED",)
    data = _wav(samples, sample_rate)
    return StoredAudio(data, sample_rate, len(samples), samples.shape[1], conversions)


def finish_stream_header(data: bytes) -> bytes | None:
    """Return a WAV file from a pipe with its true sizes; None for any other file.

    A program that writes to a pipe cannot go back to its header. The header has 0 or a placeholder
    as the size of the samples, which extend to the end of the file.
    """
    if not data.startswith(RIFF[0]) or data[8:12] != WAVE:
        return None
    position, frame_bytes = 12, 1
    while position + 8 <= len(data):
        name, size = _CHUNK.unpack_from(data, position)
        body = position + 8
        if name == b"fmt " and size >= 16 and body + 16 <= len(data):
            frame_bytes = int.from_bytes(data[body + 12 : body + 14], "little") or 1
        elif name == b"data":
            is_unknown = not _are_chunks(data, body) if size == 0 else body + size > len(data)
            if not is_unknown or (size and not _is_placeholder(size, body - 8, frame_bytes)):
                return None
            samples_bytes = (len(data) - body) // frame_bytes * frame_bytes
            padding = b"\0" * (samples_bytes % 2)
            riff_size = body + samples_bytes + len(padding) - 8
            return b"".join(
                [
                    *(RIFF[0], riff_size.to_bytes(4, "little"), data[8 : position + 4]),
                    *(samples_bytes.to_bytes(4, "little"), data[body : body + samples_bytes]),
                    padding,
                ]
            )
        position = body + size + size % 2
    return None


def _is_placeholder(size: int, header_bytes: int, frame_bytes: int) -> bool:
    """Return whether a size is a placeholder, possibly reduced by the header or to whole frames."""
    return any(
        0 <= limit - total < frame_bytes
        for limit in _PLACEHOLDERS
        for total in (size, size + header_bytes)
    )


def _are_chunks(data: bytes, position: int) -> bool:
    """Return whether only complete RIFF chunks follow."""
    while position + 8 <= len(data):
        name, size = _CHUNK.unpack_from(data, position)
        if not (name.isascii() and name.decode("ascii").isprintable()):
            return False
        position += 8 + size
        if position > len(data):
            return False
        position += size % 2
    return position >= len(data)


def _plain_wav(data: bytes) -> StoredAudio | None:
    """Return a WAV file that TensorFlow reads unchanged; None for others, raise if truncated.

    TensorFlow handles neither the padding byte after a chunk of odd size nor an incomplete chunk at
    the end.
    """
    if not data.startswith(RIFF) or data[8:12] != WAVE:
        return None
    position, form, samples_bytes = 12, None, None
    is_plain, large_size = data.startswith(RIFF[0]), _UNKNOWN_SIZE
    while position + 8 <= len(data):
        name = data[position : position + 4]
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        body = position + 8
        if name == b"ds64" and not is_plain:
            large_size = int.from_bytes(data[body + 8 : body + 16], "little")
        elif name == b"fmt " and form is None and samples_bytes is None:
            form = data[body : body + min(size, 16)]
            if len(form) >= 8 and 0 in struct.unpack("<HI", form[2:8]):
                detail = "expected a rate and channels in its header, got 0 of one"
                raise RejectedInputError("DAMAGED_AUDIO", detail)  # libsndfile gives no message
            is_plain &= size in (16, 18)
        elif name == b"data":
            size = large_size if size == _UNKNOWN_SIZE else size
            if samples_bytes is not None:
                raise RejectedInputError("UNSUPPORTED_FORMAT", "its samples are in several chunks")
            if size == _UNKNOWN_SIZE:
                return None
            if body + size > len(data):
                detail = f"expected {size} bytes of samples, got {len(data) - body}"
                raise RejectedInputError("TRUNCATED_AUDIO", detail)
            samples_bytes = size
        is_plain &= size % 2 == 0
        position = body + size + size % 2
    if samples_bytes is None:
        raise RejectedInputError("TRUNCATED_AUDIO", "the WAV file ends before its samples")
    if not is_plain or position != len(data) or form is None:
        return None
    encoding, channels, rate, per_second, frame_bytes, bits = struct.unpack("<HHIIHH", form)
    is_pcm = (encoding, bits, frame_bytes) == (_PCM, 16, 2 * channels)
    frames, rest = divmod(samples_bytes, frame_bytes or 1)
    if not is_pcm or per_second != rate * frame_bytes or not frames or rest:
        return None
    return StoredAudio(data, rate, frames, channels)


def _kind(data: bytes) -> str:
    """Return the format of an audio file; raise RejectedInputError if it cannot be read."""
    import soundfile  # loads a C library, which is only needed for audio

    try:
        name = soundfile.info(io.BytesIO(data)).format
    except (soundfile.LibsndfileError, RuntimeError, TypeError) as error:
        code, detail = "NOT_AUDIO", f"expected WAV, FLAC, OGG or MP3: {_reason(error)}"
        if (packing := packing_of(data)) is not None:
            code, detail = "UNSUPPORTED_FORMAT", f"{packing}. Unpack it first"
        elif (other := other_audio(data)) is not None:
            code, detail = "UNSUPPORTED_FORMAT", f"expected WAV, FLAC, OGG or MP3, got {other}"
        raise RejectedInputError(code, detail) from error
    kind = {"WAVEX": "WAV", "RF64": "WAV", "MPEG": "MP3"}.get(name, name)
    if kind not in _EXTENSIONS:
        detail = f"expected WAV, FLAC, OGG or MP3, got {name}"
        raise RejectedInputError("UNSUPPORTED_FORMAT", detail)
    return str(kind)


def _decode(data: bytes, kind: str) -> tuple[npt.NDArray[np.float32], int, bool]:
    """Return samples `(frames, channels) float32` in [-1, 1], rate, and whether over 16 bits."""
    import soundfile

    class Stream(soundfile.SoundFile):  # type: ignore[misc]
        """A stream read from beginning to end, since some codecs cannot seek."""

        def seekable(self) -> bool:
            return False

    if kind == "OGG":
        check_ogg_pages(data)
    data, least = count_mpeg_frames(data) if kind == "MP3" else (data, None)
    try:
        with Stream(io.BytesIO(data)) as file:
            most = _MAX_BYTES // (4 * file.channels)
            expected = least
            if expected is None and file.frames < _UNKNOWN_FRAMES:
                expected = file.frames
            if expected is not None and expected > most:
                detail = f"expected at most {most} frames, got {expected}"
                raise RejectedInputError("TOO_LARGE", detail)
            samples = file.read(most if expected is None else expected, "float32", always_2d=True)
            rate, subtype = file.samplerate, file.subtype
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise RejectedInputError("DAMAGED_AUDIO", f"cannot be decoded: {_reason(error)}") from error
    if least is None:
        least = max(0, (expected or 0) - (_MP3_FRAME if kind == "MP3" else 0))
    if len(samples) < least:
        raise RejectedInputError("TRUNCATED_AUDIO", f"expected {least} frames, got {len(samples)}")
    if not len(samples):
        raise RejectedInputError("NO_SAMPLES", "the file has no samples")
    if subtype in ("FLOAT", "DOUBLE") and np.isnan(samples).any():
        raise RejectedInputError("DAMAGED_AUDIO", "a sample is not a number")
    return samples, rate, subtype not in ("PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW")


def _reason(error: Exception) -> str:
    """Return the message without soundfile's prefix, the address of our buffer."""
    return str(getattr(error, "error_string", error))


def _mixed(samples: npt.NDArray[np.float32], channels: int | None) -> npt.NDArray[np.float32]:
    if channels == 1:
        return np.asarray(samples.mean(axis=1, keepdims=True))
    if samples.shape[1] > 1:
        detail = f"expected at most 2 channels, got {samples.shape[1]}"
        raise RejectedInputError("TOO_MANY_CHANNELS", detail)
    return np.repeat(samples, 2, axis=1)


def _resample(samples: npt.NDArray[np.float32], rate: int, wished: int) -> npt.NDArray[np.float32]:
    from scipy import signal  # takes a second

    if rate > LARGEST_RATE:  # the filter alone could take gigabytes
        detail = f"expected at most {LARGEST_RATE} Hz to resample, got {rate}"
        raise RejectedInputError("UNSUPPORTED_FORMAT", detail)
    if (octets := -(-len(samples) * wished // rate) * samples.shape[1] * 4) > _MAX_BYTES:
        detail = f"expected at most {_MAX_BYTES} bytes at {wished} Hz, got {octets}"
        raise RejectedInputError("TOO_LARGE", detail)
    common = math.gcd(rate, wished)
    resampled: Any = signal.resample_poly(samples, wished // common, rate // common, axis=0)
    return np.asarray(resampled, np.float32)


def _wav(samples: npt.NDArray[np.float32], sample_rate: int) -> bytes:
    octets: bytes = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()
    channels = samples.shape[1]
    if sample_rate * channels * 2 > _UNKNOWN_SIZE:
        raise RejectedInputError("UNSUPPORTED_FORMAT", f"a WAV cannot hold {sample_rate} Hz")
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((channels, 2, sample_rate, 0, "NONE", ""))
        file.writeframes(octets)
    return stream.getvalue()


# MP3 and Ogg --------------------------------------------------------------------------------------


class _MpegFrame(NamedTuple):
    size: int  # bytes
    tag: int  # possible offset of a tag in the frame
    samples: int  # per channel


def count_mpeg_frames(data: bytes) -> tuple[bytes, int | None]:
    """Check an MP3's frames, and pad it if libsndfile would stop before its end.

    Returns:
        The bytes, and the samples per channel that they decode to, or None if the file has that
        number itself.

    Raises:
        RejectedInputError: TRUNCATED_AUDIO, or DAMAGED_AUDIO if other data is between frames.
    """
    start = position = _after_id3(data)
    first = _mpeg_frame(data, start)
    if first is None:
        return data, None  # free format, or unknown: libsndfile decides
    expected, tag = None, data[start + first.tag : start + first.tag + 12]
    if tag[:4] in (b"Xing", b"Info") and len(tag) == 12:
        flags, frames = struct.unpack(">II", tag[4:])
        expected = frames if flags & 1 else 0
    number = -1 if expected is not None else 0  # the tag's own frame has no samples
    while (frame := _mpeg_frame(data, position)) is not None:
        if position + frame.size > len(data):
            detail = f"expected {frame.size} bytes in its last frame, got {len(data) - position}"
            raise RejectedInputError("TRUNCATED_AUDIO", detail)
        position += frame.size
        number += 1
    if expected is not None and number < expected:
        raise RejectedInputError("TRUNCATED_AUDIO", f"expected {expected} frames, got {number}")
    rest = data[position : position + 16]
    if rest and not rest.startswith(_AFTER):
        code = "TRUNCATED_AUDIO" if len(data) - position < 4 else "DAMAGED_AUDIO"
        raise RejectedInputError(code, f"expected a frame after {number}, got {rest[:4]!r}")
    if expected:
        return data, None
    return data.ljust(start + (number + 1) * first.size, b"\0"), number * first.samples


def _after_id3(data: bytes) -> int:
    position = 0
    while data.startswith(ID3, position) and len(data) >= position + 10:
        sizes = data[position + 6 : position + 10]
        size = sum((octet & 127) << 7 * (3 - place) for place, octet in enumerate(sizes))
        position += 10 + size + (10 if data[position + 5] & 16 else 0)  # a footer
    return position


def _mpeg_frame(data: bytes, position: int) -> _MpegFrame | None:
    """Parse the frame header at a position; return None if it is invalid."""
    if len(data) < position + 4 or data[position] != 0xFF or data[position + 1] & 0xE6 != 0xE2:
        return None
    version = data[position + 1] >> 3 & 3
    bitrate, rate = data[position + 2] >> 4, data[position + 2] >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return None
    is_first = version == _MPEG1
    hertz = _RATES[rate] >> _RATE_SHIFT[version]
    padding = data[position + 2] >> 1 & 1
    size = (144 if is_first else 72) * _KBITS[is_first][bitrate] * 1000 // hertz + padding
    is_mono = data[position + 3] >> 6 == 3
    side_info = (17 if is_mono else 32) if is_first else (9 if is_mono else 17)
    return _MpegFrame(size, 4 + side_info, 1152 if is_first else 576)


def check_ogg_pages(data: bytes) -> None:
    """Raise RejectedInputError if an Ogg page is truncated, damaged, missing or unrelated."""
    position, number, serial, flags = 0, 0, None, 0
    while data.startswith(OGG, position):
        body = position + _PAGE.size
        end = len(data) + 1
        if body <= len(data):
            _, _, flags, _, page_serial, sequence, crc, segments = _PAGE.unpack_from(data, position)
            sizes = data[body : body + segments]
            end = body + segments + sum(sizes)
        if end > len(data):
            raise RejectedInputError("TRUNCATED_AUDIO", f"page {number} is cut short")
        if serial not in (None, page_serial):
            raise RejectedInputError("UNSUPPORTED_FORMAT", "expected one stream, got several")
        page = data[position : position + 22] + bytes(4) + data[position + 26 : end]
        reflected = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
        if int(f"{reflected:032b}"[::-1], 2) != crc:
            raise RejectedInputError("DAMAGED_AUDIO", f"page {number} has a wrong checksum")
        if sequence != number:
            raise RejectedInputError("DAMAGED_AUDIO", f"expected page {number}, got {sequence}")
        serial, position, number = page_serial, end, number + 1
    if not flags & _LAST:
        raise RejectedInputError("TRUNCATED_AUDIO", f"expected a last page after {number}")
