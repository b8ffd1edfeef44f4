"""Texts of the same words but few are found, others are not; against Jaccard's index itself."""

import itertools
import random

import pytest

from components.auditing.grouping import DisjointSets
from components.auditing.texts import (
    LEAST_JACCARD,
    TextSketches,
    sketch_texts,
    split_words,
    unite_similar_texts,
)
from tests.components.auditing.prose import altered, paragraphs


def groups_of(texts: list[str]) -> list[int]:
    with TextSketches() as sketches:
        for start in range(0, len(texts), 700):
            words = map(split_words, texts[start : start + 700])
            sketches.add(sketch_texts([*words]))
        sets = DisjointSets(len(texts))
        unite_similar_texts(sketches, sets)
    return sets.groups().tolist()


def true_groups(texts: list[str]) -> list[int]:
    """The first of those that every two texts' indices connect."""
    members = []
    for text in texts:
        words = split_words(text)
        members.append({*words, *itertools.pairwise(words)})
    groups = list(range(len(texts)))
    for one, other in itertools.combinations(range(len(texts)), 2):
        few, many = sorted((members[one], members[other]), key=len)
        if len(few) < LEAST_JACCARD * len(many):
            continue
        if len(few & many) >= LEAST_JACCARD * len(few | many):
            first, second = sorted((groups[one], groups[other]))
            groups = [first if group == second else group for group in groups]
    return groups


@pytest.mark.parametrize("share", [0.0, 0.08])
def test_texts_with_a_few_other_words_are_found_and_no_others(share):
    rng = random.Random(0)
    own = paragraphs(500)
    texts = [*own, *(altered(text, share, rng) for text in own)]
    found, truth = groups_of(texts), true_groups(texts)
    planted = [n for n in range(500) if truth[n] == truth[n + 500]]
    assert len(planted) > 470
    assert sum(found[n] == found[n + 500] for n in planted) >= 0.99 * len(planted)
    assert all(truth[n] == truth[found[n]] for n in range(1000))


def test_many_texts_made_of_one_pattern_are_told_apart_from_others():
    numbers = [f"invoice {n} of customer {n * 7919} over {n * 31} pounds" for n in range(2000)]
    kept = " ".join(f"k{n}" for n in range(40))
    groups = groups_of([*numbers, *(f"{kept} and {n}" for n in range(2000)), "x", "X!", "y"])
    assert len({*groups[2000:4000]}) == 1
    assert groups[4000] == groups[4001] != groups[4002]
    assert len({*groups[:2000]}) == 2000


def test_texts_without_words_are_like_no_other():
    assert groups_of(["…", "!", "", "…"]) == [0, 1, 2, 3]


STRANGE = ["Ünïcode STRASSE straße ﬁne", "\ud800 b \x00c", "x" * 70_000, "😀 smile", "a_b c-d e.f"]


def test_a_sketch_does_not_depend_on_what_stands_beside_it():
    words = [split_words(text) for text in (*paragraphs(50), "", *STRANGE)]
    together = sketch_texts(words)
    alone = [sketch_texts([some]) for some in words]
    assert together.keys.tolist() == [one.keys[0].tolist() for one in alone]
    assert together.members.tolist() == [n for one in alone for n in one.members.tolist()]


def test_letters_of_scripts_without_spaces_are_words():
    for text, words in (
        ("The CAT, sat!", ["the", "cat", "sat"]),
        ("Straße ﬁn", ["strasse", "fin"]),
        ("東京 tower", ["東", "京", "tower"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("、。", []),
    ):
        assert split_words(text) == words
