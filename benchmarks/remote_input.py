"""Compare reading from a bucket with reading from the local disk: rate, bytes, faults.

    python benchmarks/remote_input.py --workdir bench --count 3000

It uses a real S3 server on this machine (`make stores`), behind a proxy that adds 20 ms to each
request. One run measures:

- images/s from a cache that holds all, after an epoch that fills it, relative to the local rate;
- bytes fetched over three epochs with space for half of the data, relative to the offline optimum
(Belady's) for the same order and the same parts;
- the maximum size of the cache's folder, watched from outside;
- whether every record came once with 1% of the requests dropped, 1% answered by 503, 1% cut, and a
reader killed in the middle;
- seconds until the first batch of shards of 128 MiB.
"""

import argparse
import collections
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))  # for the servers of the tests

# Import these first: some packages that the others import also have a package `tests`.
# isort: off
from tests.object_stores import faulty, s3_server  # noqa: E402
from common import compare, make_jpegs  # noqa: E402
from image_input import convert, drain, ours  # noqa: E402

# isort: on
from trainer_utils import CacheOptions, input_fn, iterate, storage  # noqa: E402
from trainer_utils.dataset import read_index  # noqa: E402
from trainer_utils.dataset.selection import open_sources  # noqa: E402
from trainer_utils.storage.cache_folder import PART_BYTES  # noqa: E402

Part = tuple[str, int, int]  # a path, and the begin and end of some bytes

_EPOCHS = 3
_SMALL_SHARD, _LARGE_SHARD = 32 << 20, 128 << 20
_READER = """
import sys
from trainer_utils import input_fn
uri, folder, most, start = sys.argv[1:]
batches = input_fn(uri, features="filename", batch_size=64, repeat=2, state=int(start),
                   cache={"folder": folder, "max_bytes": int(most)})
for batch in batches:
    print(b"\\t".join(batch.numpy().tolist()).decode(), flush=True)
"""


def upload(folder: str, uri: str) -> None:
    """Copy a dataset to a bucket."""
    for file in storage.list_files(folder):
        with storage.write_atomically(f"{uri}/{file.path}", temporary_folder=uri) as stream:
            stream.write(storage.read_bytes(f"{folder}/{file.path}"))


def offline_optimum(uses: Sequence[Part], capacity: int) -> int:
    """Return the bytes to fetch if the part used last in the future is evicted, or never kept."""
    following = collections.defaultdict(collections.deque)
    for position, part in enumerate(uses):
        following[part].append(position)
    kept: dict[Part, float] = {}
    fetched = 0
    for part in uses:
        following[part].popleft()
        size = part[2] - part[1]
        if part not in kept:
            fetched += size
        kept[part] = following[part][0] if following[part] else float("inf")
        while sum(p[2] - p[1] for p in kept) > capacity:
            del kept[max(kept, key=lambda p: kept[p])]
    return fetched


def uses_of(uri: str, epochs: int, folder: Path, **settings: Any) -> list[Part]:
    """Return the parts that an input reads, each once an epoch, in the order of the plan."""
    order = iterate(uri, features="filename", cache=str(folder), **settings).order
    (source,) = open_sources(uri, None)
    offsets = {shard.path: read_index(shard).offsets for shard in source.dataset.shard_files}
    uses = []
    for epoch in range(epochs):
        found: dict[Part, None] = {}
        for step in range(order.steps_per_epoch):
            for path, number in order.records(epoch=epoch, step=step, worker=0):
                begin, end = offsets[path][number : number + 2].tolist()
                for part in range(begin // PART_BYTES, -(-end // PART_BYTES)):
                    first = part * PART_BYTES
                    found[path, first, min(first + PART_BYTES, int(offsets[path][-1]))] = None
        uses += found
    return uses


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[list[int]]:
    """Yield a list whose only item is the largest size of a folder while other code runs."""
    seen, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            total = 0
            for file in folder.rglob("*"):
                with contextlib.suppress(FileNotFoundError):
                    total += file.stat().st_blocks * 512
            seen[0] = max(seen[0], total)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def rates(local: str, remote: str, workdir: Path, count: int, megabytes: float) -> None:
    """Print images/s from the warm cache relative to the disk."""
    folder = str(workdir / "all")
    drain(input_fn(remote, "train", batch_size=64, features="filename", cache=folder))
    peers = {"local disk": ours(local, 1), "bucket, warm": ours(remote, 1, cache=folder)}
    compare(peers, records=count, megabytes=megabytes, target=workdir / "target")


def bytes_over_epochs(remote: str, store: Any, workdir: Path, size: int) -> None:
    """Print the bytes that three epochs fetch with space for half, and the optimum."""
    folder, most = workdir / "half", size // 2
    uses = uses_of(remote, _EPOCHS, workdir / "plan", batch_size=64)
    optimum = offline_optimum(uses, most)
    store.counts(reset=True)
    with watched(folder) as seen:
        drain(
            input_fn(
                remote,
                features="filename",
                batch_size=64,
                repeat=_EPOCHS,
                cache=CacheOptions(folder=str(folder), max_bytes=most),
            )
        )
    fetched = store.counts()["bytes_down"]
    print(f"\n{_EPOCHS} epochs of {size:,} bytes, room for {most:,}:")
    print(f"  fetched {fetched:,}, offline optimum {optimum:,}: {fetched / optimum:.3f}")
    print(f"  most that the folder took {seen[0]:,}: {seen[0] / most:.3f} of the bound")


def once_under_faults(local: str, remote: str, store: Any, workdir: Path, size: int) -> None:
    """Read two epochs through faults, with one reader killed."""
    folder = workdir / "faults"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    for fault in ("drop", "busy", "cut"):
        store.ask(f"set?{fault}=0.01")

    def start(step: int) -> "subprocess.Popen[str]":
        arguments = [remote, str(folder), str(size // 2), str(step)]
        command = [sys.executable, "-c", _READER, *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    with watched(folder) as seen, start(0) as reader:
        lines = [reader.stdout.readline() for _ in range(11)]
        reader.send_signal(signal.SIGKILL)
        reader.communicate()
        with start(11) as other:
            lines += other.communicate()[0].splitlines()
    for fault in ("drop", "busy", "cut"):
        store.ask(f"set?{fault}=0")
    found = [name for line in lines for name in line.strip().split("\t")]
    expected = input_fn(local, features="filename", batch_size=64, repeat=2)
    names = [name.decode() for batch in expected for name in batch.numpy().tolist()]
    same = "the same records in the same order" if found == names else "OTHER RECORDS"
    print(f"\nfaults of 3% of the requests, and SIGKILL: {same} as from the disk ({len(found)})")
    print(
        f"  most that the folder took: {seen[0] / (size // 2):.3f} of the bound; {store.counts()}"
    )


def first_batch(local: str, base: str, workdir: Path) -> None:
    """Print the seconds from `input_fn` to a batch, for shards of 128 MiB."""
    upload(local, f"{base}/large")
    for shuffle in (True, False):
        began = time.perf_counter()
        folder = str(workdir / f"first-{shuffle}")
        dataset = input_fn(
            f"{base}/large", features="filename", batch_size=64, shuffle=shuffle, cache=folder
        )
        next(iter(dataset))
        print(f"first batch, shuffle={shuffle}: {time.perf_counter() - began:.2f} s")


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--count", type=int, default=3_000)
    arguments = parser.parse_args()
    workdir = arguments.workdir.resolve()
    photos = workdir / f"photos-{arguments.count}"
    megabytes = make_jpegs(photos, count=arguments.count)
    small = convert(photos, workdir / f"small-{arguments.count}", target_shard_bytes=_SMALL_SHARD)
    large = convert(photos, workdir / f"large-{arguments.count}", target_shard_bytes=_LARGE_SHARD)
    size = sum(file.size for file in storage.list_files(f"{small}/Split-train"))
    with tempfile.TemporaryDirectory(dir=workdir) as name:
        temporary = Path(name)
        with s3_server(temporary / "server") as store, faulty(store, delay=0.02) as proxy:
            os.environ.update(proxy.environment)
            remote = f"{store.base}/small"
            upload(small, remote)
            input_fn(remote, features="filename", cache=str(temporary / "warm"))
            first_batch(large, store.base, temporary)
            rates(small, remote, temporary, arguments.count, megabytes)
            bytes_over_epochs(remote, proxy, temporary, size)
            once_under_faults(small, remote, proxy, temporary, size)


if __name__ == "__main__":
    main()
