"""What was made of one recording is found, whatever was done to it; other recordings are not."""

import collections

import numpy as np
import pytest

from tests.trainer_utils.auditing.sounds import RATE, copies_of, decoded, encoded, make_sound
from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.similar_sounds import are_copies, unite_similar_sounds
from trainer_utils.auditing.sound_sketch import SoundSketches, sketch_sound

LENGTHS = (0.4, 1.0, 2.0)  # seconds
RECORDINGS = 24


def groups_of(files: list[bytes]) -> list[int]:
    with SoundSketches() as sketches:
        for data in files:
            sketches.add(sketch_sound(*decoded(data)))
        sets = DisjointSets(len(files))
        unite_similar_sounds(sketches, sets)
    return sets.groups().tolist()


@pytest.fixture(scope="module")
def planted() -> list[tuple[int, str, bytes]]:
    """Of each recording, whose it is, how it was changed, and its file; itself first."""
    noise = np.random.default_rng(0)
    found = []
    for number in range(RECORDINGS):
        sound = make_sound(number, LENGTHS[number // 4 % len(LENGTHS)])
        found.append((number, "itself", encoded(sound, RATE)))
        found += [(number, how, data) for how, data in copies_of(sound, RATE, noise)]
    return found


def test_copies_are_found_and_no_others(planted):
    groups = groups_of([data for *_, data in planted])
    own = {owner: groups[n] for n, (owner, how, _) in enumerate(planted) if how == "itself"}
    assert len({*own.values()}) == RECORDINGS
    lost = collections.Counter(
        how for n, (owner, how, _) in enumerate(planted) if groups[n] != own[owner]
    )
    assert lost.total() <= 0.01 * (len(planted) - RECORDINGS), lost


def test_each_copy_is_like_the_recording_itself(planted):
    """Not by way of others."""
    noise = np.random.default_rng(1)
    for number in (0, 1, 2, 3):
        sound = make_sound(number, 1.0)
        own = sketch_sound(sound, RATE).levels
        for how, data in copies_of(sound, RATE, noise):
            other = sketch_sound(*decoded(data)).levels
            assert any(are_copies(own, other, shift) for shift in range(-5, 6, 2)), how


def test_other_recordings_of_the_same_kind_are_none():
    levels = [sketch_sound(make_sound(n, 1.0), RATE).levels for n in range(3, 100, 4)]
    for number, one in enumerate(levels):
        for other in levels[:number]:
            assert not any(are_copies(one, other, shift) for shift in (-4, 0, 4))


def test_a_sound_that_only_begins_alike_is_none():
    one, other = make_sound(0, 2.0), make_sound(4, 2.0)
    joined = np.concatenate([one[: len(one) // 2], other[: len(other) // 2]])
    assert groups_of([encoded(sound, RATE) for sound in (one, other, joined)]) == [0, 1, 2]


def test_steady_tones_are_told_apart_by_their_pitch():
    seconds = np.arange(RATE) / RATE
    tones = [0.5 * np.sin(2 * np.pi * hertz * seconds)[:, np.newaxis] for hertz in (300, 700, 1500)]
    files = [encoded(tone * gain, RATE, "OGG") for tone in tones for gain in (1.0, 0.2)]
    assert groups_of(files) == [0, 0, 2, 2, 4, 4]


def test_nothing_has_no_copies():
    assert groups_of([]) == []
