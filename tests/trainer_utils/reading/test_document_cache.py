"""Long documents are read once while their packs are read, and only the needed parts decoded."""

import numpy as np
import pytest

import trainer_utils
from tests.make import write_rows
from trainer_utils.format import varints
from trainer_utils.order.packing import PackOptions
from trainer_utils.reading import packing, record_reader
from trainer_utils.reading.document_cache import Document, DocumentCache

DOCUMENTS, TOKENS = 12, 20_000


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    """Write 12 documents of 20,000 tokens, the n-th with tokens from n * 20,000."""
    rows = (
        {"tokens": [*range(n * TOKENS, (n + 1) * TOKENS)], "loss_mask": [float(n % 2)] * TOKENS}
        for n in range(DOCUMENTS)
    )
    return write_rows(tmp_path_factory.mktemp("long") / "set", rows, num_shards=2)


@pytest.fixture
def read(monkeypatch) -> list[int]:
    """Record the documents that are read."""
    records: list[int] = []
    read = packing.RecordReader.read

    def record(self, positions):
        records.extend(positions.tolist())
        return read(self, positions)

    monkeypatch.setattr(packing.RecordReader, "read", record)
    return records


def open_packs(uri: str, **settings: object):
    pack = PackOptions(length=512, eos=7)
    return trainer_utils.iterate(uri, "train", batch_size=4, pack=pack, **settings)


@pytest.mark.parametrize("shuffle", [False, True, "global"])
def test_each_long_document_is_read_once(uri, read, shuffle):
    source = open_packs(uri, shuffle=shuffle)
    read.clear()
    for epoch in range(2):
        for step in range(source.input_steps):
            source.batch(epoch, step)
    assert sorted(read) == [*range(DOCUMENTS)]


@pytest.mark.parametrize("shuffle", [True, "global"])
@pytest.mark.parametrize("kept", [0, 100_000])
def test_batches_do_not_depend_on_the_space(uri, read, monkeypatch, shuffle, kept):
    source = open_packs(uri, shuffle=shuffle)
    want = [source.batch(0, step) for step in range(source.input_steps)]
    monkeypatch.setattr(packing, "_KEPT_BYTES", kept)
    source = open_packs(uri, shuffle=shuffle)
    read.clear()
    for step, batch in enumerate(want):
        found = source.batch(0, step)
        assert found.keys() == batch.keys()
        for name, values in batch.items():
            np.testing.assert_array_equal(found[name], values)
    assert len(read) > 10 * DOCUMENTS


def test_documents_are_read_some_at_a_time(uri, read, monkeypatch):
    want = open_packs(uri, shuffle="global").batch(0, 0)
    monkeypatch.setattr(packing, "_READ_TOKENS", 30_000)
    found = open_packs(uri, shuffle="global").batch(0, 0)
    for name, values in want.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("eos", [None, 7])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("is_packed", [True, False])
def test_parts_match_decoded_documents(tmp_path, monkeypatch, is_packed, mask, eos):
    random = np.random.default_rng(3)
    documents = [random.integers(0, 60_000, size) for size in (0, 1, 900, 64, 65, 5000)]
    rows = [
        {"tokens": tokens.tolist()}
        | ({"loss_mask": (tokens % 2).astype(np.float32).tolist()} if mask else {})
        for tokens in documents
    ]
    uri = write_rows(tmp_path / "set", rows)
    if not is_packed:
        monkeypatch.setattr(record_reader, "find_lists", lambda *_: None)
    settings = {"batch_size": 4, "shuffle": "global", "pack": PackOptions(length=64, eos=eos)}
    want = [*trainer_utils.iterate(uri, "train", **settings)]
    for min_long, kept in (0, 0), (0, 1 << 20), (1000, 1 << 20):
        monkeypatch.setattr(packing, "_MIN_LONG", min_long)
        monkeypatch.setattr(packing, "_KEPT_BYTES", kept)
        got = [*trainer_utils.iterate(uri, "train", **settings)]
        assert len(got) == len(want)
        for batch, expected in zip(got, want, strict=True):
            for name, values in expected.items():
                np.testing.assert_array_equal(batch[name], values)


def test_only_the_parts_that_packs_need_are_decoded(uri, monkeypatch):
    decoded = []
    decode = varints.decode_varints

    def count(data, stops):
        decoded.append(len(stops))
        return decode(data, stops)

    source = open_packs(uri, shuffle="global")
    monkeypatch.setattr(varints, "decode_varints", count)
    for step in range(source.input_steps):
        source.batch(0, step)
    assert sum(decoded) <= DOCUMENTS * TOKENS * 1.02  # each piece and the token after it


def test_least_recently_used_documents_are_dropped():
    cache = DocumentCache(4000)
    for record in range(3):
        cache.keep(record, Document(np.full(1000, record), None))
        cache.get([0])
    assert {*cache.get(range(3))} == {0, 2}
    cache.keep(3, Document(np.full(1000, 1 << 20), None))  # four bytes each
    assert {*cache.get(range(4))} == {3}
    cache.keep(4, Document(np.zeros(2001, np.int64), None))  # larger than the limit
    assert {*cache.get(range(5))} == {3}


def test_kept_tokens_and_masks_are_the_same():
    tokens, mask = np.array([0, 65_535, 3]), np.array([0, 1, 0.5], np.float32)
    cache = DocumentCache(1000)
    cache.keep(0, Document(tokens, mask))
    kept = cache.get([0])[0]
    assert kept.tokens.tolist() == tokens.tolist()
    assert kept.mask is not None
    assert kept.mask.tolist() == mask.tolist()
    assert kept.num_bytes == 3 * (2 + 4)
