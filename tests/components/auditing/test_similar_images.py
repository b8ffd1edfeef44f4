"""Copies of images are found, other images are not."""

import itertools

import numpy as np
import pytest

from components.auditing.grouping import DisjointSets
from components.auditing.images import look_at_image, unite_similar_images
from tests.components.auditing.pictures import copies_of, cut_tiles, jpeg


def groups_of(images: list[bytes]) -> list[int]:
    looks = [look_at_image(data) for data in images]
    sets = DisjointSets(len(images))
    unite_similar_images(np.stack([look.thumbnail for look in looks]), sets)
    return sets.groups().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("side", [213, 107])
def test_planted_copies_are_found_and_others_are_not(side):
    images, owners = [], []
    tiles = [tile for tile in cut_tiles(side) if look_at_image(jpeg(tile)).contrast > 12]  # no sky
    for owner, tile in enumerate(tiles):
        made = [jpeg(tile), *(data for _, data in copies_of(tile))]
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
    images = [data for tile in tiles for _, data in copies_of(tile)]
    order = random.permutation(len(images))
    straight = groups_of(images)
    shuffled = groups_of([images[n] for n in order])
    for (one, a), (other, b) in itertools.combinations(enumerate(order.tolist()), 2):
        assert (shuffled[one] == shuffled[other]) == (straight[a] == straight[b])
