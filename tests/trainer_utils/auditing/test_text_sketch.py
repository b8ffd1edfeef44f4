"""Words are split and hashed for many texts at once, as Python splits them one by one."""

import itertools
import random

import numpy as np
import pytest

from tests.trainer_utils.auditing.prose import paragraphs
from trainer_utils.auditing.text_sketch import (
    BANDS,
    TextSketches,
    jaccard,
    sketch_texts,
    split_words,
)

STRANGE = [
    "",
    " … !",
    "one",
    "Ünïcode STRASSE straße ﬁne",
    "日本語のテキスト、二つ。",
    "ภาษาไทย ok",
    "\ud800 b \x00c",
    "a_b c-d e.f 1,000",
    "x" * 70_000,
    "한국어 단어",
    "😀 smile",
]


def sketched(texts: list[str]) -> TextSketches:
    sketches = TextSketches()
    sketches.add(texts)
    return sketches


def words_of(sketches: TextSketches, number: int) -> np.ndarray:
    return sketches.words[sketches.ends[number] : sketches.ends[number + 1]]


def test_hashes_stand_for_the_words_that_python_finds():
    texts = [*paragraphs(200), *STRANGE]
    random.Random(0).shuffle(texts)
    with sketched(texts) as sketches:
        assert len(sketches) == len(texts)
        word_of: dict[int, str] = {}
        for number, text in enumerate(texts):
            hashes, words = words_of(sketches, number).tolist(), split_words(text)
            assert len(hashes) == len(words), text
            for value, word in zip(hashes, words, strict=True):
                assert word_of.setdefault(value, word) == word
        assert len(set(word_of.values())) == len(word_of) > 1000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The CAT, sat!", ["the", "cat", "sat"]),
        ("Straße ﬁn", ["strasse", "fin"]),
        ("東京 tower", ["東", "京", "tower"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("、。", []),
    ],
)
def test_letters_of_scripts_without_spaces_are_words(text, words):
    assert split_words(text) == words


def test_a_sketch_does_not_depend_on_what_stands_beside_it():
    texts = [*paragraphs(50), *STRANGE]
    together = [row.tobytes() for part in sketch_texts(texts) for row in part.keys]
    alone = [row.tobytes() for text in texts for part in sketch_texts([text]) for row in part.keys]
    assert together == alone


def exact(one: list[str], other: list[str]) -> float:
    sets = [{*words, *itertools.pairwise(words)} for words in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


@pytest.mark.parametrize(("common", "other"), [(6, 3), (20, 20), (200, 40), (5000, 400)])
def test_equal_values_estimate_jaccards_index_which_is_exact_from_the_words(common, other):
    estimates, truth = [], 0.0
    for trial in range(20):
        rng = random.Random(trial)
        words = [
            [
                *(f"w{trial}x{n}" for n in range(common)),
                *(f"{rng.random()}"[2:] for _ in range(other)),
            ]
            for _ in range(2)
        ]
        truth = exact(*words)
        with sketched([" ".join(some) for some in words]) as sketches:
            pairs = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
            found = jaccard(sketches.words, sketches.ends, pairs)
            assert found == pytest.approx([truth, 1, 1, truth], abs=1e-3)  # 32 bits a word
            values = sketches.keys[:, BANDS:].copy().view(np.uint8)
        estimates.append((values[0] == values[1]).mean())
    assert np.mean(estimates) == pytest.approx(truth, abs=0.1)


def test_nothing_is_no_text():
    with sketched([]) as sketches:
        assert (len(sketches), len(sketches.words), sketches.keys.shape) == (0, 0, (0, 56))
