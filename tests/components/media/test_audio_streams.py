"""MP3 files: with and without a count of their frames, tagged and cut."""

import itertools

import numpy as np
import pytest

from tests.components.media.sounds import (
    by_soundfile,
    encode,
    heard,
    mp3,
    store,
    stored_or_none,
    tone,
)

# MPEG audio, layer III, as ISO 11172-3 and 13818-3 frame it -------------------------------------

_KBITS = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG 2
}


def mp3_frames(data: bytes) -> list[int]:
    """Where each frame begins, and the end."""
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
    """As streams and older encoders have it: without the frame that counts the others."""
    start = mp3_frames(mp3)[1]
    assert b"Xing" in mp3[:start] or b"Info" in mp3[:start]
    return mp3[start:]


@pytest.mark.parametrize(("channels", "rate"), [(1, 16_000), (2, 44_100)])
def test_mp3_comes_out_as_soundfile_decodes_it(channels, rate):
    data = encode(tone(3000, channels, rate), "MP3", "MPEG_LAYER_III", rate)
    stored = store(data)
    assert (stored.sample_rate, stored.channels, stored.num_frames) == (rate, channels, 3000)
    assert stored.conversions == ("MP3",)
    assert np.abs(heard(stored) - by_soundfile(data)).max() <= 0.51


@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE", "AVERAGE"])
def test_an_mp3_without_a_count_is_heard_to_its_end(mode):
    data = without_tag(mp3(mode))
    stored = store(data)
    assert len(heard(stored)) == 1152 * (len(mp3_frames(data)) - 1)
    assert np.abs(heard(stored)[:19_000]).max() > 1000


def test_an_mp3_without_a_count_is_cut_at_a_frame_or_rejected():
    data = without_tag(mp3())
    starts = mp3_frames(data)
    for frame, (start, end) in enumerate(itertools.pairwise(starts)):
        if frame < 2:  # too little for anybody to know it for MP3
            continue
        assert (at_seam := stored_or_none(data[:start])) is not None
        assert at_seam.num_frames == 1152 * frame
        for cut in (start + 2, start + 5, (start + end) // 2, end - 1):
            assert (left := stored_or_none(data[:cut])) is None or left.num_frames > 1152 * frame
