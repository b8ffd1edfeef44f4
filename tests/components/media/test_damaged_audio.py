"""Test damaged, truncated, hostile and non-audio files: rejected, or read as TensorFlow does.

Also test MP3 files with and without a count of their frames.
"""

import contextlib
import itertools
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.components.media import damage
from tests.components.media.sounds import (
    CODES,
    COVER,
    KEPT,
    OF_KIND,
    PCM,
    by_soundfile,
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
    """Limit the additional memory of the process; beyond it, MemoryError is raised."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def ogg(subtype: str, rate: int, frames: int) -> bytes:
    data = encode(noise(frames), "OGG", subtype, rate)
    assert data.count(b"OggS") > 3  # pages of headers, and two of audio
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
    """Return cuts at every byte of a small file; for a large file, many, and all near its pages."""
    seams = [0, len(data)]
    while (found := data.find(b"OggS", seams[-2] + 1)) > 0:
        seams.insert(-1, found)
    near = {seam + step for seam in seams for step in range(-40, 40)}
    spread = range(0, len(data), 1 + len(data) // 1500)
    return sorted(cut for cut in near.union(spread) if 0 <= cut < len(data))


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE)
def test_file_cut_anywhere_is_rejected_or_loses_no_sample(data):
    whole = heard(store(data))
    lost = {
        cut: stored.num_frames
        for cut in cuts(data)
        if (stored := stored_or_none(data[:cut])) and len(heard(stored)) < len(whole)
    }
    assert not lost, f"of {len(whole)} frames and {len(data)} bytes, frames left by bytes left"


@pytest.mark.parametrize("kind", ["FLAC", "Vorbis", "Opus"])
def test_flipped_byte_is_rejected_or_loses_no_sample(kind):
    """Test formats with checksums, whose decoders may silently skip a bad page."""
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


def test_file_that_claims_an_enormous_size_is_rejected(subtests):
    for data in CLAIMS.values():
        with subtests.test(data=data), at_most(2 << 30):
            assert rejected(data).code in CODES - {"EMPTY_FILE"}


def test_absurd_sample_rate_is_rejected_on_resampling(subtests):
    for rate, frames in ((1, 60_000), (2**30 - 1, 8000), (15_999_989, 8000)):
        with subtests.test(rate=rate):
            samples = chunk(b"data", bytes(2 * frames))
            with at_most(2 << 30):
                error = rejected(riff(form(rate=rate), samples), sample_rate=16_000)
            assert error.code in ("TOO_LARGE", "UNSUPPORTED_FORMAT", "DAMAGED_AUDIO")


def test_stored_damaged_audio_is_readable_by_tensorflow():
    wavs = [KEPT["mono"], KEPT["stereo"], encode(tone(500), "WAVEX", "PCM_16")]
    files = [*OF_KIND.values(), *wavs, *wavs]
    made = damage.damaged(files, 3000, seed=1, head_bytes=60)
    stored = [one for one in map(stored_or_none, made) if one is not None]
    assert len(stored) > 500
    for one in stored:
        heard(one)


# MPEG audio, layer III, as ISO 11172-3 and 13818-3 frame it -------------------------------------

_KBITS = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG 2
}


def mp3_frames(data: bytes) -> list[int]:
    """Return the start of each frame, and the end of the last."""
    starts, position = [], 0
    while data[position : position + 1] == b"\xff":
        starts.append(position)
        version = data[position + 1] >> 3 & 3
        rate = (44100, 48000, 32000)[data[position + 2] >> 2 & 3] // (2 if version == 2 else 1)
        kbits = _KBITS[version][data[position + 2] >> 4]
        padding = data[position + 2] >> 1 & 1
        position += (144 if version == 3 else 72) * kbits * 1000 // rate + padding
    assert position == len(data)
    return [*starts, position]


def without_tag(mp3: bytes) -> bytes:
    """Return the file without the frame that counts the others, like streams and old encoders."""
    start = mp3_frames(mp3)[1]
    assert b"Xing" in mp3[:start] or b"Info" in mp3[:start]
    return mp3[start:]


@pytest.mark.parametrize(("channels", "rate"), [(1, 16_000), (2, 44_100)])
def test_mp3_equals_soundfiles_samples(channels, rate):
    data = encode(tone(3000, channels, rate), "MP3", "MPEG_LAYER_III", rate)
    stored = store(data)
    assert (stored.sample_rate, stored.channels, stored.num_frames) == (rate, channels, 3000)
    assert stored.conversions == ("MP3",)
    assert np.abs(heard(stored) - by_soundfile(data)).max() <= 0.51


@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE", "AVERAGE"])
def test_mp3_without_a_frame_count_is_read_to_its_end(mode):
    data = without_tag(mp3(mode))
    stored = store(data)
    assert len(heard(stored)) == 1152 * (len(mp3_frames(data)) - 1)
    assert np.abs(heard(stored)[:19_000]).max() > 1000


def test_cut_mp3_without_a_count_ends_at_a_frame_or_is_rejected():
    data = without_tag(mp3())
    starts = mp3_frames(data)
    for frame, (start, end) in enumerate(itertools.pairwise(starts)):
        if frame < 2:  # too little to recognise it as MP3
            continue
        assert (at_seam := stored_or_none(data[:start])) is not None
        assert at_seam.num_frames == 1152 * frame
        for cut in (start + 2, start + 5, (start + end) // 2, end - 1):
            assert (left := stored_or_none(data[:cut])) is None or left.num_frames > 1152 * frame
