"""Sets united pair by pair, against scipy's connected components."""

import numpy as np
import pytest

from trainer_utils.auditing.disjoint_sets import DisjointSets

csgraph = pytest.importorskip("scipy.sparse.csgraph")


@pytest.mark.parametrize("pairs", [0, 10, 60, 400])
def test_groups_are_connected_components(pairs):
    from scipy.sparse import coo_matrix

    some = np.random.default_rng(pairs).integers(0, 100, (pairs, 2))
    sets = DisjointSets(100)
    sets.unite(some)
    graph = coo_matrix((np.ones(pairs), (some[:, 0], some[:, 1])), (100, 100))
    _, labels = csgraph.connected_components(graph, directed=False)
    first = [labels.tolist().index(label) for label in labels.tolist()]
    assert sets.groups().tolist() == first
    assert sets.apart(some).tolist() == [False] * pairs
