"""Sounds that are damaged, cut, hostile or none: rejected, or heard as TensorFlow hears them."""

import contextlib
import io
import random
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from components.common.rejects import RejectedInputError
from components.media.audio import store_audio
from components.media.options import AudioOptions
from tests.components.media.sounds import (
    CODES,
    COVER,
    OF_KIND,
    PCM,
    chunk,
    encode,
    form,
    heard,
    mp3,
    noise,
    rejected,
    riff,
    store,
    stored_or_none,
    tone,
    with_flac_frames,
)


@contextlib.contextmanager
def at_most(more_bytes: int) -> Iterator[None]:
    """Lets the process take so much more memory; beyond it, MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def ogg(subtype: str, rate: int, frames: int) -> bytes:
    data = encode(noise(frames), "OGG", subtype, rate)
    assert data.count(b"OggS") > 3  # pages of headers, and two of sound
    return data


WHOLE = {
    "WAV": riff(form(), chunk(b"data", PCM[:400])),
    "WAV of 8 bits, odd": encode(tone(301), "WAV", "PCM_U8"),
    "WAV of 24 bits": encode(tone(200), "WAV", "PCM_24"),
    "WAV ADPCM": encode(tone(1500), "WAV", "IMA_ADPCM"),
    "RF64": encode(tone(200), "RF64", "PCM_16"),
    "FLAC": encode(noise(12_000), "FLAC", "PCM_16"),
    "Vorbis": ogg("VORBIS", 22_050, 30_000),
    "Opus": ogg("OPUS", 48_000, 72_000),
    "MP3": mp3(),
    "MP3 of variable rate": mp3("VARIABLE"),
    "MP3 after a cover": COVER + mp3(),
}


def cuts(data: bytes) -> list[int]:
    """Every byte of a small file; of a large one many, and all about the seams of its pages."""
    seams = [0, len(data)]
    while (found := data.find(b"OggS", seams[-2] + 1)) > 0:
        seams.insert(-1, found)
    near = {seam + step for seam in seams for step in range(-40, 40)}
    spread = range(0, len(data), 1 + len(data) // 1500)
    return sorted(cut for cut in near.union(spread) if 0 <= cut < len(data))


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE)
def test_a_file_cut_anywhere_is_rejected_or_loses_no_sample(data):
    whole = heard(store(data))
    lost = {
        cut: stored.num_frames
        for cut in cuts(data)
        if (stored := stored_or_none(data[:cut])) and len(heard(stored)) < len(whole)
    }
    assert not lost, f"of {len(whole)} frames and {len(data)} bytes, frames left by bytes left"


@pytest.mark.parametrize("kind", ["FLAC", "Vorbis", "Opus"])
def test_a_flipped_byte_is_rejected_or_loses_no_sample(kind):
    """These have checksums; a decoder that leaves out a bad page must not pass for a whole file."""
    data = WHOLE[kind]
    frames = store(data).num_frames
    lost = {}
    for place in range(0, len(data), len(data) // 60):
        flipped = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        stored = stored_or_none(flipped)
        if stored and len(heard(stored)) < frames:
            lost[place] = stored.num_frames
    assert not lost, f"of {frames} frames, frames left by place"


RF64_SIZES = struct.pack("<QQQI", 2**60, 2**59, 2**58, 0)
CLAIMS = {
    "WAV of 4 GiB": riff(form(), b"data\xf0\xff\xff\xff" + PCM),
    "WAV of 24 bits, of 4 GiB": riff(form(bits=24), b"data\xf0\xff\xff\xff" + PCM),
    "LIST of 4 GiB": riff(form(), b"LIST\xf0\xff\xff\xff" + PCM),
    "RF64 of an exabyte": (
        b"RF64\xff\xff\xff\xffWAVE"
        + chunk(b"ds64", RF64_SIZES)
        + form()
        + b"data\xff\xff\xff\xff"
        + PCM
    ),
    "FLAC of 2 ** 36 - 1 frames": with_flac_frames(OF_KIND["FLAC"], 2**36 - 1),
    "FLAC of 2 ** 28 frames": with_flac_frames(OF_KIND["FLAC"], 2**28),
    "ID3 of 256 MiB": b"ID3\4\0\0" + bytes([127, 127, 127, 127]) + mp3(),
}


def test_a_file_that_claims_to_be_enormous_is_a_reject():
    for data in CLAIMS.values():
        with at_most(2 << 30):
            assert rejected(data).code in CODES - {"EMPTY_FILE"}


def test_a_mad_rate_is_a_reject_where_it_would_be_resampled():
    for rate, frames in ((1, 60_000), (2**30 - 1, 8000), (15_999_989, 8000)):
        samples = chunk(b"data", bytes(2 * frames))
        with at_most(2 << 30):
            error = rejected(riff(form(rate=rate), samples), sample_rate=16_000)
        assert error.code in ("TOO_LARGE", "UNSUPPORTED_FORMAT", "DAMAGED_AUDIO")


@settings(max_examples=150)
@given(st.binary(max_size=300), st.sampled_from([b"", b"RIFF0000WAVE", b"fLaC", b"OggS", b"ID3"]))
def test_any_bytes_are_rejected_or_heard(tail, head):
    if stored := stored_or_none(head + tail):
        heard(stored)


def _damaged_sounds(number: int) -> Iterator[bytes]:
    """Sounds with bytes changed, cut off or put in, most of them in the header."""
    chance = random.Random(1)
    wave = np.sin(np.arange(3000) / 9) * 0.5
    files = []
    for channels in (1, 2):
        kinds = {"WAV": "PCM_16", "FLAC": "PCM_16", "OGG": "VORBIS", "MP3": None, "WAVEX": "PCM_16"}
        for kind, subtype in kinds.items():
            stream = io.BytesIO()
            soundfile.write(stream, np.stack([wave] * channels, 1), 8000, subtype, format=kind)
            files += [stream.getvalue()] * (3 if kind == "WAV" else 1)
    for _ in range(number):
        data = bytearray(chance.choice(files))
        end = 60 if chance.random() < 0.7 else len(data)
        place = chance.randrange(end)
        match chance.randrange(4):
            case 0:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                data[place] = chance.randrange(256)
            case 2:
                del data[chance.randrange(20, len(data)) :]
            case _:
                data[place:place] = chance.randbytes(chance.randrange(20))
        yield bytes(data)


def test_of_damaged_sounds_nothing_is_stored_that_tensorflow_reads_otherwise():
    stored = 0
    for data in _damaged_sounds(3000):
        try:
            sound = store_audio(data, AudioOptions(), filename="sound")
        except RejectedInputError:
            continue
        samples, rate = tf.audio.decode_wav(sound.data)
        assert (tuple(samples.shape), int(rate)) == (
            (sound.num_frames, sound.channels),
            sound.sample_rate,
        )
        stored += 1
    assert stored > 500
