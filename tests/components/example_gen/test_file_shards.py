"""Files come in their order with their sums, whether they are read here or ahead by threads."""

import itertools
import threading

import google_crc32c
import numpy as np
import pytest

from components.common.entry import Blob, BlobReader, Entry
from components.common.rejects import RejectedInputError
from components.example_gen import file_shards

FILES = 100


@pytest.mark.parametrize(
    ("waits_each", "reads_ahead"), [(0, False), (8, False), (9, True), (16, True)]
)
def test_threads_read_ahead_once_every_other_file_is_waited_for(
    tmp_path, monkeypatch, waits_each, reads_ahead
):
    content = {
        f"{number}.bin": np.random.default_rng(number).bytes(number) for number in range(FILES)
    }
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    entries = [Entry(name, None, (Blob(name, len(data)),)) for name, data in content.items()]
    waits = itertools.count(0, waits_each)
    monkeypatch.setattr(file_shards, "_count_waits", lambda: next(waits))
    readers = []
    read = BlobReader.read

    def noted(self: BlobReader, blob: Blob) -> bytes:
        readers.append((blob.path, threading.current_thread() is threading.main_thread()))
        return read(self, blob)

    monkeypatch.setattr(BlobReader, "read", noted)
    found = [*file_shards._read_ahead(entries, str(tmp_path), ())]

    assert [entry for entry, _, _ in found] == entries
    assert sorted(path for path, _ in readers) == sorted(content)
    assert [path for path, is_here in readers if is_here] == [*content][
        : 16 if reads_ahead else None
    ]
    for entry, blobs, sums in found[1:]:
        assert (blobs, sums) == (
            [content[entry.name]],
            [google_crc32c.value(content[entry.name])],
        )
    _, empty, sums = found[0]
    assert (empty, sums) == ([b""], [0])


def test_files_that_went_are_rejected_in_their_place(tmp_path):
    (tmp_path / "here.bin").write_bytes(b"here")
    entries = [
        Entry(name, None, (Blob(name, 4),)) for name in ["gone.bin", "here.bin", "lost.bin"] * 20
    ]
    for entry, blobs, sums in file_shards._read_ahead(entries, str(tmp_path), ()):
        if entry.name == "here.bin":
            assert blobs == [b"here"]
        else:
            assert isinstance(blobs, RejectedInputError)
            assert (blobs.code, sums) == ("VANISHED", [None])
