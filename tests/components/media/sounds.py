"""Audio files of every kind, and their samples read by TensorFlow's decoder and by soundfile."""

import functools
import io
import struct

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from components.inputs.rejects import RejectedInputError
from components.media.audio import StoredAudio, store_audio
from components.media.options import AudioOptions

CODES = {
    *("DAMAGED_AUDIO", "EMPTY_FILE", "NOT_AUDIO", "NO_SAMPLES", "TOO_LARGE", "TRUNCATED_AUDIO"),
    "UNSUPPORTED_FORMAT",
}


def tone(frames: int, channels: int = 1, rate: int = 8000, hertz: float = 440) -> np.ndarray:
    """Return a sine in each channel, with a different pitch in each."""
    seconds = np.arange(frames) / rate
    return np.stack(
        [0.5 * np.sin(2 * np.pi * hertz * (1 + c / 4) * seconds) for c in range(channels)], 1
    )


def noise(frames: int, channels: int = 1) -> np.ndarray:
    """Return noise, which does not compress, so that its files have many frames and pages."""
    return np.random.default_rng(0).normal(0, 0.1, (frames, channels))


def encode(samples: np.ndarray, kind: str, subtype: str, rate: int = 8000, **options) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=kind, subtype=subtype, **options)
    return stream.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    """Return a RIFF chunk; a chunk of odd size has a padding byte that its size does not count."""
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def form(
    channels: int = 1, rate: int = 8000, bits: int = 16, *, encoding: int = 1, more: bytes = b""
) -> bytes:
    frame = channels * bits // 8
    fields = (encoding, channels, rate, rate * frame % 2**32, frame % 2**16, bits)
    return chunk(b"fmt ", struct.pack("<HHIIHH", *fields) + more)


PCM = np.rint(tone(500) * 32767).astype("<i2").tobytes()
DATA = chunk(b"data", PCM)
PLAIN = riff(form(), DATA)


def store(data: bytes, filename: str = "sound", **options) -> StoredAudio:
    return store_audio(data, AudioOptions(**options), filename=filename)


def stored_or_none(data: bytes, **options) -> StoredAudio | None:
    try:
        return store(data, **options)
    except RejectedInputError as error:
        if error.code not in CODES:
            raise
        return None


def rejected(data: bytes, **options) -> RejectedInputError:
    with pytest.raises(RejectedInputError) as caught:
        store(data, **options)
    return caught.value


def heard(stored: StoredAudio) -> np.ndarray:
    """Return the samples that `tf.audio.decode_wav` reads, in 16-bit steps, and check the sizes."""
    samples, rate = tf.audio.decode_wav(stored.data)
    assert samples.shape == (stored.num_frames, stored.channels)
    assert int(rate) == stored.sample_rate
    return samples.numpy() * 32768


def by_soundfile(data: bytes, frames: int = -1) -> np.ndarray:
    """Return the samples that soundfile reads, in 16-bit steps."""
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        samples = file.read(frames, dtype="float64", always_2d=True)
    return np.clip(samples * 32768, -32768, 32767)


@functools.cache
def mp3(mode: str = "CONSTANT") -> bytes:
    """Return an MP3 of noise, then silence; frames of a variable rate do not give their count."""
    samples = np.concatenate([noise(20_000), np.zeros((20_000, 1))])
    return encode(
        samples, "MP3", "MPEG_LAYER_III", 44_100, bitrate_mode=mode, compression_level=0.5
    )


COVER = b"ID3\4\0\0" + bytes([0, 0, 100, 0]) + bytes(100 * 128)  # ID3v2, of the size of a picture


def with_flac_frames(flac: bytes, frames: int) -> bytes:
    """Replace the total of STREAMINFO, which is the low 36 bits of bytes 18 to 25."""
    fields = int.from_bytes(flac[18:26], "big") >> 36 << 36
    return flac[:18] + (fields | frames).to_bytes(8, "big") + flac[26:]


TEXT = b"INFOISFT" + struct.pack("<I", 4) + b"abc\0"
KEPT = {
    "mono": PLAIN,
    "stereo": encode(tone(500, 2), "WAV", "PCM_16"),
    "six channels": encode(tone(500, 6), "WAV", "PCM_16"),
    "one frame": riff(form(), chunk(b"data", PCM[:2])),
    "fmt of 18 bytes": riff(form(more=b"\0\0"), DATA),
    "LIST before the samples": riff(form(), chunk(b"LIST", TEXT), DATA),
    "LIST after the samples": riff(form(), DATA, chunk(b"LIST", TEXT)),
    "JUNK before fmt": riff(chunk(b"JUNK", bytes(28)), form(), DATA),
    "RIFF size of a stream": b"RIFF\xff\xff\xff\xff" + PLAIN[8:],
}


OF_KIND = {
    "WAV": PLAIN,
    "FLAC": encode(tone(500), "FLAC", "PCM_16"),
    "OGG": encode(tone(500), "OGG", "VORBIS"),
    "MP3": encode(tone(500), "MP3", "MPEG_LAYER_III"),
}
