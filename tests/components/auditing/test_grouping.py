"""Sets united pair by pair, against scipy's connected components."""

import numpy as np
import pytest

from components.auditing.grouping import DisjointSets, pairs_of_equals

csgraph = pytest.importorskip("scipy.sparse.csgraph")


@pytest.mark.parametrize("pairs", [0, 60])
def test_groups_are_connected_components(pairs):
    from scipy.sparse import coo_matrix

    some = np.random.default_rng(pairs).integers(0, 100, (pairs, 2))
    sets = DisjointSets(100)
    sets.unite(some)
    graph = coo_matrix((np.ones(pairs), (some[:, 0], some[:, 1])), (100, 100))
    _, labels = csgraph.connected_components(graph, directed=False)
    first = [labels.tolist().index(label) for label in labels.tolist()]
    assert sets.groups().tolist() == first


def test_equal_keys_are_paired_with_some_of_those_behind_them():
    keys = np.array([7, 5, 7, 7, 5])
    found = [pair for pairs in pairs_of_equals(keys, most=1) for pair in pairs.tolist()]
    assert sorted(found) == [[0, 2], [1, 4], [2, 3]]
    assert len(np.concatenate([*pairs_of_equals(keys, most=9)])) == 4
