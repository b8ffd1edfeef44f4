"""The cases of `growth.py` for records: reading, shuffling, unpacking, packing, remote shards.

    python benchmarks/growth.py --case global --sizes 250,500,1000

Sizes are numbers of shards, megabytes or documents. Shards of `blocks` and `global` are hard links
to one shard, so that thousands take the space of one. Calls and bytes must not grow faster than the
size; CPU seconds depend on the machine.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from growth_counting import report_store, start_counting

__all__ = ["CASES", "SIZES"]

_REPOSITORY = Path(__file__).parents[1]
_LINKED_RECORDS = 20_000  # of the shard that others link to
_READ = 64 * 256  # records read in each case of links
_DOCUMENT_TOKENS = 20_000


def blocks(size: int) -> None:
    """Open `size` linked shards, and read a fixed number of records in blocks."""
    _read_links(size, shuffle=True)


def global_shuffle(size: int) -> None:
    """Open `size` linked shards, and read a fixed number of records from all of them."""
    _read_links(size, shuffle="global")


def _read_links(size: int, *, shuffle: bool | str) -> None:
    import linked_shards

    import trainer_utils

    with tempfile.TemporaryDirectory() as folder:
        one, linked = Path(folder, "one"), Path(folder, "linked")
        _write(one, [{"id": b"%07d" % n, "label": n % 10} for n in range(_LINKED_RECORDS)])
        linked_shards.link_shards(one, linked, size)
        start_counting()
        source = trainer_utils.iterate(str(linked), "train", batch_size=64, shuffle=shuffle)
        for step in range(0, min(_READ // 64, source.input_steps), 8):
            source.batches(0, range(step, step + 8))


def bare(size: int) -> None:
    """Open `size` MB of TFRecords without metadata, and read an epoch; then open them again."""
    import trainer_utils

    with _cache(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.tfrecord")
        megabyte = _frames(1000)
        with path.open("wb") as stream:
            for _ in range(size):
                stream.write(megabyte)
        start_counting()
        for _ in range(2):
            source = trainer_utils.iterate(str(path), batch_size=256, shuffle=True)
        for _ in source:
            pass


def gzip(size: int) -> None:
    """Read two epochs of `size` gzip shards, which are unpacked once."""
    import trainer_utils

    with _cache(), tempfile.TemporaryDirectory() as folder:
        rows = [{"id": n, "text": os.urandom(500).hex()} for n in range(200 * size)]
        _write(Path(folder, "set"), rows, num_shards=size, compression="gzip")
        start_counting()
        for _ in trainer_utils.iterate(f"{folder}/set", "train", batch_size=64, repeat=2):
            pass


def packing(size: int) -> None:
    """Read an epoch of packs of 512 tokens from `size` documents of 20,000 tokens."""
    _read_packs([[*range(_DOCUMENT_TOKENS)]] * size, num_shards=2)


def long_documents(size: int) -> None:
    """Read an epoch of packs of 512 tokens from 4 documents of `size` thousand tokens."""
    _read_packs([[n % 1000 for n in range(1000 * size)]] * 4, num_shards=1)


def _read_packs(documents: list[list[int]], *, num_shards: int) -> None:
    import trainer_utils
    from trainer_utils.order.packing import PackOptions

    with _cache(), tempfile.TemporaryDirectory() as folder:
        rows = [{"tokens": tokens} for tokens in documents]
        _write(Path(folder, "set"), rows, num_shards=num_shards)
        start_counting()
        source = trainer_utils.iterate(
            f"{folder}/set", "train", batch_size=8, pack=PackOptions(length=512)
        )
        for step in range(source.input_steps):
            source.batch(0, step)


def external_shuffle(size: int) -> None:
    """Shuffle `size` times as many records as fit into memory.

    Each level of the shuffle divides by 4 here, instead of 16 to 256, so that small sizes have
    several levels. Sizes should be powers of 4: between these, the number of pieces rises and falls
    with the rounding of the levels.
    """
    from unittest import mock

    import numpy as np

    from components.runtime.workspace import prepare_workspace
    from components.shuffle import external
    from components.shuffle.external import ExternalShuffle, frames_of, plan_tasks, run_of
    from components.shuffle.split_layout import SplitLayout
    from trainer_utils.format import read_blocks

    memory = 8 << 10
    divides = mock.patch.object(external, "_MIN_FAN_OUT", 4)
    with divides, tempfile.TemporaryDirectory() as folder:
        prepare_workspace(f"{folder}/out")
        count, shards = size * (memory // 1016), max(1, size // 64)
        bounds = tuple(count * number // shards for number in range(shards + 1))
        layout = SplitLayout(split="train", bounds=bounds, seed=7)
        tasks = plan_tasks(layout, [np.full(count, 1016)], memory_bytes=memory)
        shuffle = ExternalShuffle(uri=f"{folder}/out", layout=layout, tasks=tasks, run_bytes=memory)
        path = Path(folder, "part")
        start_counting()
        step = memory // 1016
        for number, first in enumerate(range(0, count, step)):
            stop = min(first + step, count)
            path.write_bytes(_frames(stop - first))
            with path.open("rb") as stream:
                frames = [*map(frames_of, read_blocks(stream, path=""))]
            shuffle.scatter(f"{number}", run_of(frames, [layout.positions(first, stop)]))
        for level, groups in enumerate(shuffle.divisions, 1):
            for group in groups:
                shuffle.divide(*group)
            shuffle.remove_runs(level)
        for task in range(len(tasks)):
            shuffle.gather(task)


def remote(size: int) -> None:
    """Read an epoch of `size` shards of 256 KiB from an S3 server of this machine."""
    import trainer_utils
    from trainer_utils import storage

    sys.path.insert(0, str(_REPOSITORY))
    from tests.object_stores import faulty, s3_server

    with _cache(), tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        (Path(folder) / "store").mkdir()
        server = stack.enter_context(s3_server(Path(folder, "store")))
        store = stack.enter_context(faulty(server))
        os.environ.update(store.environment)
        rows = [{"id": n, "text": b"x" * 1000} for n in range(256 * size)]
        _write(Path(folder, "set"), rows, num_shards=size)
        uri = f"{store.base}/growth-{size}"
        for file in storage.list_files(f"{folder}/set"):
            with storage.write_atomically(f"{uri}/{file.path}", temporary_folder=uri) as stream:
                stream.write(storage.read_bytes(f"{folder}/set/{file.path}"))
        store.counts(reset=True)
        start_counting()
        for _ in trainer_utils.iterate(uri, "train", batch_size=64):
            pass
        counts = store.counts()
        report_store(counts["requests"], counts["bytes_down"])


@contextlib.contextmanager
def _cache() -> Iterator[None]:
    """Use an empty cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        before, os.environ["TMPDIR"] = os.environ.get("TMPDIR"), folder
        tempfile.tempdir = None
        try:
            yield
        finally:
            os.environ.pop("TMPDIR")
            if before is not None:
                os.environ["TMPDIR"] = before
            tempfile.tempdir = None


def _write(folder: Path, rows: list[dict[str, Any]], **settings: Any) -> None:
    import trainer_utils

    settings.setdefault("num_shards", 1)
    with trainer_utils.DatasetWriter(str(folder), **settings) as writer:
        for row in rows:
            writer.write("train", row)


def _frames(count: int) -> bytes:
    """Return framed examples of a thousand bytes each."""
    from trainer_utils.format import encode_example
    from trainer_utils.format.tfrecord import frame_parts

    parts = encode_example({"text": [b"x" * 960]})
    header, footer = frame_parts(parts)
    frame = b"".join([header, *parts, footer])
    return frame * count


CASES: dict[str, Callable[[int], None]] = {
    "blocks": blocks,
    "global": global_shuffle,
    "bare": bare,
    "gzip": gzip,
    "packing": packing,
    "documents": long_documents,
    "shuffle": external_shuffle,
    "remote": remote,
}
SIZES: dict[str, tuple[int, ...]] = {
    "blocks": (500, 1000, 2000, 4000),
    "global": (500, 1000, 2000, 4000),
    "bare": (64, 128, 256, 512),
    "gzip": (25, 50, 100, 200),
    "packing": (50, 100, 200, 400),
    "documents": (50, 100, 200, 400),
    "shuffle": (256, 1024, 4096),
    "remote": (8, 16, 32, 64),
}
SMALL: dict[str, tuple[int, int, int]] = {
    "blocks": (50, 100, 200),
    "global": (50, 100, 200),
    "bare": (4, 8, 16),
    "gzip": (8, 16, 32),
    "packing": (10, 20, 40),
    "documents": (10, 20, 40),
    "shuffle": (64, 256, 1024),
    "remote": (4, 8, 16),
}
