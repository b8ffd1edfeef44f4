"""Texts of the same words but few are found, others are not; against Jaccard's index itself."""

import itertools
import random

import pytest

from tests.trainer_utils.auditing.prose import altered, paragraphs
from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.similar_texts import LEAST_JACCARD, unite_similar_texts
from trainer_utils.auditing.text_sketch import TextSketches, split_words


def groups_of(texts: list[str]) -> list[int]:
    with TextSketches() as sketches:
        sketches.add(texts)
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


@pytest.mark.parametrize("share", [0.0, 0.03, 0.08])
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
