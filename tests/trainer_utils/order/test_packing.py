"""Packs against plain Python: slices of one long list, chunks of each, best fit decreasing."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format.slices import FileRange, RecordName
from trainer_utils.order.packing import STRATEGIES, PackIndex, PackOptions

LENGTHS = st.lists(st.integers(0, 60), max_size=60)
EOS = st.sampled_from([None, 3])
Piece = tuple[int, int, int]  # document, offset, length


def packs_of(index: PackIndex) -> list[list[Piece]]:
    found: list[list[Piece]] = [[] for _ in range(index.num_packs)]
    rows, *pieces = (one.tolist() for one in index.pieces(np.arange(index.num_packs)))
    for row, *piece in zip(rows, *pieces, strict=True):
        found[row].append((piece[0], piece[1], piece[2]))
    return found


def concatenated(sizes: list[int], length: int) -> list[list[Piece]]:
    tokens = [(number, place) for number, size in enumerate(sizes) for place in range(size)]
    packs = []
    for start in range(0, len(tokens), length):
        by_document = itertools.groupby(tokens[start : start + length], key=lambda token: token[0])
        parts = [(number, [place for _, place in group]) for number, group in by_document]
        packs.append([(number, places[0], len(places)) for number, places in parts])
    return packs


def alone(sizes: list[int], length: int) -> list[list[Piece]]:
    return [
        [(number, start, min(length, size - start))]
        for number, size in enumerate(sizes)
        for start in range(0, size, length)
    ]


def best_fit_rows(sizes: list[int], length: int) -> int:
    """Return the number of rows that best fit decreasing needs for the rest of each document."""
    rooms: list[int] = []
    for size in sorted((size % length for size in sizes if size % length), reverse=True):
        fitting = [number for number, room in enumerate(rooms) if room >= size]
        if fitting:
            rooms[min(fitting, key=lambda number: rooms[number])] -= size
        else:
            rooms.append(length - size)
    return len(rooms) + sum(size // length for size in sizes)


@given(LENGTHS, st.integers(2, 40), EOS)
def test_packs_equal_plain_pythons(lengths, length, eos):
    sizes = [size + (eos is not None) for size in lengths]
    for strategy, expected in (("concat", concatenated), ("one_document", alone)):
        options = PackOptions(length=length, strategy=strategy, eos=eos)
        index = PackIndex(np.array(lengths, np.uint32), options)
        assert packs_of(index) == expected(sizes, length)


@given(LENGTHS, st.integers(2, 40), EOS)
def test_best_fit_takes_as_many_rows_as_best_fit_decreasing(lengths, length, eos):
    sizes = [size + (eos is not None) for size in lengths]
    options = PackOptions(length=length, strategy="best_fit", eos=eos)
    index = PackIndex(np.array(lengths, np.uint32), options)
    packs = packs_of(index)
    assert len(packs) == best_fit_rows(sizes, length)
    assert all(sum(size for *_, size in pack) <= length for pack in packs)
    assert all(pack == sorted(pack) for pack in packs)
    assert [pack[0][0] for pack in packs] == sorted(pack[0][0] for pack in packs)
    # A document is only cut if it fills rows by itself.
    assert sorted(piece for pack in packs for piece in pack) == sorted(
        piece for pack in alone(sizes, length) for piece in pack
    )
    tokens = sum(sizes)
    assert index.num_tokens == tokens
    assert index.padding == pytest.approx(1 - tokens / max(len(packs) * length, 1))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_documents_are_packed_in_windows(strategy):
    """Find each token once; windows only affect best fit."""
    lengths = np.random.default_rng(0).integers(0, 400, 200_000).astype(np.uint32)
    index = PackIndex(lengths, PackOptions(length=64, strategy=strategy))
    rows, records, offsets, counts = index.pieces(np.arange(index.num_packs))
    fill = np.bincount(rows, counts, index.num_packs)
    assert 0 < fill.min() <= fill.max() <= 64
    order = np.lexsort((offsets, records))
    starts, sizes = offsets[order], counts[order]
    is_first = np.diff(records[order], prepend=-1) > 0
    assert (starts[is_first] == 0).all()
    assert (starts[1:] == starts[:-1] + sizes[:-1])[~is_first[1:]].all()
    assert (np.bincount(records, counts, len(lengths)) == lengths).all()
    assert strategy == "one_document" or index.padding < 0.001


def test_packs_name_their_documents_and_documents_their_packs(subtests):
    ranges = [FileRange("a", 5, 2), FileRange("b", 0, 2)]
    index = PackIndex(np.array([3, 4, 0, 9]), PackOptions(length=5), ranges)
    for made in (index, pickle.loads(pickle.dumps(index))):
        with subtests.test(made=made):
            assert [tuple(part) for part in made.documents(1)] == [
                (RecordName("a", 6), 2, 2),
                (RecordName("b", 1), 0, 3),
            ]
            assert made.packs_of(RecordName("b", 1)) == [1, 2, 3]
            assert made.packs_of(RecordName("b", 0)) == []


def test_bad_options_are_refused(subtests):
    for settings in ({"length": 1}, {"strategy": "first"}, {"eos": -1}, {"length": True}):
        with subtests.test(settings=settings):
            with pytest.raises(ValueError, match=next(iter(settings))):
                PackOptions(**settings)
