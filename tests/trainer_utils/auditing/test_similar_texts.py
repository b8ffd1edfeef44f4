"""Texts of the same words but few are found, others are not; against Jaccard's index itself."""

import itertools
import random

import numpy as np
import pytest

from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.similar_texts import sketch_text, unite_similar_texts

WORDS = [f"{a}{b}{c}" for a, b, c in itertools.product("bdfgklmnprst", "aeiou", "nrsltm")]


def groups_of(texts: list[str]) -> list[int]:
    sets = DisjointSets(len(texts))
    unite_similar_texts(np.stack([sketch_text(text) for text in texts]), sets)
    return sets.groups().tolist()


def test_texts_with_a_few_other_words_are_found():
    rng = random.Random(0)
    texts, changed = [], []
    for _ in range(300):
        words = rng.choices(WORDS, k=rng.randrange(25, 120))
        texts.append(" ".join(words))
        for place in rng.sample(range(len(words)), max(len(words) // 20, 1)):
            words[place] = rng.choice(WORDS)
        changed.append(" ".join(words).upper() + "!")
    groups = groups_of(texts + changed)
    assert sum(groups[n] == groups[n + 300] for n in range(300)) >= 297
    assert len({groups[n] for n in range(300)}) == 300


@pytest.mark.parametrize(("one", "other"), [(20, 20), (200, 40), (5000, 400)])
def test_equal_values_estimate_jaccards_index(one, other):
    rng = random.Random(one)
    common = [f"w{n}" for n in range(one)]
    sketches = [
        sketch_text(" ".join([*common, *(f"{rng.random()}"[2:] for _ in range(other))]))
        for _ in range(2)
    ]

    def members(sketch_words: list[str]) -> set[object]:
        return {*sketch_words, *itertools.pairwise(sketch_words)}

    texts = [[*common, *(f"{side}-{n}" for n in range(other))] for side in "ab"]
    exact = len(members(texts[0]) & members(texts[1])) / len(members(texts[0]) | members(texts[1]))
    assert (sketches[0] == sketches[1]).mean() == pytest.approx(exact, abs=0.17)  # four deviations


def test_a_text_without_words_has_no_sketch():
    assert sketch_text(" … !") is None


def test_hostile_texts_have_one():
    for text in ("\x00a", "\ud800 b", "x" * 100_000, "日本語 テキスト", "a " * 50_000):
        assert sketch_text(text).shape == (128,)
