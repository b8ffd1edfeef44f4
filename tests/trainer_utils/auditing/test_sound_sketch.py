"""Levels say what a sound is like, whatever its rate and gain; keys are the same in copies."""

import numpy as np
import pytest

from tests.trainer_utils.auditing.sounds import RATE, copies_of, decoded, make_sound, resampled
from trainer_utils.auditing.sound_sketch import (
    MOST_SECONDS,
    SOUND_BANDS,
    SOUND_KEYS,
    SoundSketches,
    sketch_sound,
)


def tone(hertz: float, *, rate: int, seconds: float = 1.0) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)[:, np.newaxis]


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 7919])
@pytest.mark.parametrize("hertz", [250, 1000, 3000])
def test_a_tone_is_loud_in_the_band_of_its_pitch(hertz, rate):
    edges = np.geomspace(200, 3400, SOUND_BANDS + 1)
    levels = sketch_sound(tone(hertz, rate=rate), rate).levels
    assert levels.shape == (32, SOUND_BANDS)
    assert (levels[4:-4].argmax(axis=1) == np.searchsorted(edges, hertz) - 1).all()
    assert (levels[4:-4].max(axis=1) == 160).all()  # 40 dB


@pytest.mark.parametrize("gain", [0.01, 0.3, 2.0])
def test_gain_and_channels_change_nothing(gain):
    sound = make_sound(4, 1.0)
    stereo = np.repeat(sound * gain, 2, axis=1)
    own, other = sketch_sound(sound, RATE), sketch_sound(stereo, RATE)
    assert np.abs(own.levels.astype(int) - other.levels).max() <= 1
    assert len({*own.keys.tolist()} & {*other.keys.tolist()}) > 0.8 * SOUND_KEYS


def test_the_rate_changes_little():
    sound = make_sound(1, 1.0)
    levels = [
        sketch_sound(resampled(sound, RATE, rate), rate).levels.astype(int)
        for rate in (8000, 11_025, 44_100)
    ]
    assert all(np.abs(some[4:-4] - levels[0][4:-4]).mean() < 2 for some in levels)


def test_copies_keep_keys_and_say_where_they_begin():
    sound = make_sound(0, 2.0)
    later = sketch_sound(sound[2560:], RATE)  # five frames
    own = sketch_sound(sound, RATE)
    place_of = dict(zip(own.keys.tolist(), own.places.tolist(), strict=True))
    shifts = [
        place_of[key] - place
        for key, place in zip(later.keys.tolist()[:64], later.places.tolist(), strict=False)
        if key and key in place_of
    ]
    assert len(shifts) > 16
    assert np.mean([shift == 5 for shift in shifts]) > 0.9


@pytest.mark.parametrize("frames", [0, 1, 100, 8000])
def test_silence_has_no_sketch(frames):
    assert sketch_sound(np.zeros((frames, 1), np.float32), 8000) is None


@pytest.mark.parametrize("frames", [1, 7, 255, 2049])
def test_a_short_sound_has_one(frames):
    sketch = sketch_sound(make_sound(2, 1.0)[8000 : 8000 + frames], RATE)
    assert len(sketch.levels) == 8


def test_only_the_first_minute_is_looked_at():
    sound = np.random.default_rng(0).standard_normal((8000 * (MOST_SECONDS + 1), 1))
    changed = sound.copy()
    changed[8000 * MOST_SECONDS :] = 0
    assert np.array_equal(sketch_sound(sound, 8000).levels, sketch_sound(changed, 8000).levels)


def test_sketches_come_back_from_the_disk():
    files = [data for _, data in copies_of(make_sound(3, 0.5), RATE, np.random.default_rng(0))]
    made = [sketch_sound(*decoded(data)) for data in files]
    with SoundSketches() as sketches:
        assert sketches.keys.shape == (0, SOUND_KEYS)
        for sketch in made:
            sketches.add(sketch)
        for number, sketch in enumerate(made):
            start, stop = sketches.ends[number : number + 2]
            assert np.array_equal(sketches.levels[start:stop], sketch.levels)
            assert np.array_equal(sketches.keys[number], sketch.keys)
            assert np.array_equal(sketches.places[number], sketch.places)


@pytest.mark.parametrize("rate", [0, 768_001, 4_294_967_291])
def test_what_has_the_rate_of_no_sound_has_no_sketch(rate):
    assert sketch_sound(make_sound(0, 0.5), rate) is None
