"""Copies of images are found, other images are not."""

import itertools

import numpy as np
import pytest

from tests.trainer_utils.auditing.pictures import copies_of, cut_tiles, jpeg
from trainer_utils.auditing import similar_images
from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.image_sketch import sketch_image
from trainer_utils.auditing.similar_images import unite_similar_images


def groups_of(images: list[bytes]) -> list[int]:
    sketches = [sketch_image(data) for data in images]
    sets = DisjointSets(len(images))
    unite_similar_images(np.stack([sketch.thumbnail for sketch in sketches]), sets)
    return sets.groups().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("side", [213, 107])
def test_planted_copies_are_found_and_others_are_not(side):
    random = np.random.default_rng(side)
    images, owners = [], []
    for owner, tile in enumerate(cut_tiles(side)):
        made = [jpeg(tile), *(data for _, data in copies_of(tile, random))]
        images += made
        owners += [owner] * len(made)
    groups = groups_of(images)
    first = {owner: owners.index(owner) for owner in owners}
    found = [groups[n] == groups[first[owner]] for n, owner in enumerate(owners)]
    planted = [n for n, owner in enumerate(owners) if n != first[owner]]
    assert sum(found[n] for n in planted) >= 0.99 * len(planted)
    pairs = list(itertools.combinations(sorted(set(owners)), 2))
    false = [pair for pair in pairs if groups[first[pair[0]]] == groups[first[pair[1]]]]
    assert len(false) <= 0.001 * len(pairs)


def test_groups_do_not_depend_on_the_order_of_images():
    random = np.random.default_rng(0)
    tiles = cut_tiles(213)[6:]
    images = [data for tile in tiles for _, data in copies_of(tile, random)]
    order = random.permutation(len(images))
    straight = groups_of(images)
    shuffled = groups_of([images[n] for n in order])
    for (one, a), (other, b) in itertools.combinations(enumerate(order.tolist()), 2):
        assert (shuffled[one] == shuffled[other]) == (straight[a] == straight[b])


def test_what_is_ruled_out_at_once_would_be_no_copy_either(monkeypatch):
    random = np.random.default_rng(3)
    tiles = cut_tiles(107)[::4]
    images = [data for tile in tiles for _, data in copies_of(tile, random)]
    found = groups_of(images)
    compared: list[int] = []

    def all_may(some: np.ndarray, others: np.ndarray) -> np.ndarray:
        compared.append(len(some))
        return np.ones(len(some), bool)

    monkeypatch.setattr(similar_images, "_may_agree", all_may)
    assert groups_of(images) == found
    assert sum(compared) > len(images)
    assert len(set(found)) > 1
