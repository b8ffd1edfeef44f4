"""Read a folder of photos as batches, next to PyTorch's DataLoader over the same folder.

    python benchmarks/raw_input.py --workdir bench

Measured are the time from the call to the first batch, and the rate of later batches of 224 x 224
pixels in a random order, with as many processes on both sides. The plain dataset reads, decodes
and resizes each photo with the same decoder as tfx-shards; torchvision's ImageFolder, if it is
installed, uses Pillow. Next come the time and the memory of opening many files, next to a plain
`os.scandir` with the size of each file. With `--bucket`, the same photos are read from an S3 server
on this machine (`make stores`) behind a proxy that adds 20 ms to each request, next to a pool of 64
threads that requests the same files, and that decodes them with the same decoder.
"""

import argparse
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))  # for the servers of the tests

# Import this first: some packages that the others import also have a package `tests`.
# isort: off
from tests.object_stores import faulty, s3_server  # noqa: E402

# isort: on
from trainer_utils import InputOptions, iterate, storage  # noqa: E402
from trainer_utils.dataset.raw_inputs import open_raw  # noqa: E402
from trainer_utils.reading.images import ImageDecoder  # noqa: E402

SIZE = (224, 224)
BATCH = 64


class PlainFolder:
    """A folder of classes as ImageFolder reads it, with the decoder of tfx-shards."""

    def __init__(self, folder: Path) -> None:
        classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        self._files = [
            (entry.path, label)
            for label, name in enumerate(classes)
            for entry in sorted(os.scandir(folder / name), key=lambda one: one.name)
        ]
        self._decoder = ImageDecoder(InputOptions(image_size=SIZE), channels=3)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        path, label = self._files[index]
        return self._decoder.decode([Path(path).read_bytes()], None)[0], label


def plain(folder: Path, processes: int) -> Iterator[Any]:
    from torch.utils.data import DataLoader

    return iter(
        DataLoader(PlainFolder(folder), batch_size=BATCH, shuffle=True, num_workers=processes)
    )


def torchvision_folder(folder: Path, processes: int) -> Iterator[Any]:
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    steps = [transforms.Resize(SIZE), transforms.PILToTensor()]
    dataset = datasets.ImageFolder(str(folder), transforms.Compose(steps))
    return iter(DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=processes))


def raw(folder: Path, processes: int) -> Iterator[Any]:
    conversion = {"splits": {"train": 1}}
    found = iterate(
        str(folder), "train", batch_size=BATCH, shuffle="global", features="image", label="label",
        image_size=SIZE, processes=processes, conversion=conversion,
    )  # fmt: skip
    return iter(found)


def measure(read: Callable[[Path, int], Iterator[Any]], folder: Path, processes: int) -> Any:
    """Return the seconds to the first batch, and the photos per second afterwards."""
    begin = time.perf_counter()
    batches = read(folder, processes)
    next(batches)
    first = time.perf_counter() - begin
    begin, count = time.perf_counter(), 0
    for images, _ in batches:
        count += len(images)
    return first, count / (time.perf_counter() - begin)


def scan(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    total = 0
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            total += scan(Path(entry.path))
        else:
            total += entry.stat(follow_symlinks=False).st_size
    return total


def measure_opening(folder: Path, count: int) -> None:
    """Print CPU seconds of a scan and of opening, and the memory of the opened inputs."""
    if not folder.exists():
        for number in range(count):
            path = folder / f"class{number % 100:02d}/{number:08d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"0")
    times: dict[str, list[float]] = {"scan": [], "open": []}
    for _ in range(3):
        begin = time.process_time()
        scan(folder)
        times["scan"].append(time.process_time() - begin)
        begin = time.process_time()
        records: Any = open_raw(str(folder), {}).raw
        times["open"].append(time.process_time() - begin)
    scanned, opened = (min(values) for values in times.values())
    size = records.rows.nbytes + sum(rows.nbytes for rows in records.order.values())
    print(
        f"{count:,} files: os.scandir {scanned:.2f} s, open {opened:.2f} s of CPU "
        f"(1.5 scans + 3 us a file: {1.5 * scanned + 3e-6 * count:.2f} s), "
        f"{size / count:.0f} bytes a file"
    )


def measure_bucket(folder: Path, runs: int) -> None:
    """Print the rates of reading photos from a bucket, next to a pool of 64 threads."""
    decoder = ImageDecoder(InputOptions(image_size=SIZE), channels=3)
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as name,
        s3_server(Path(name)) as store,
        faulty(store, delay=0.02) as proxy,
    ):
        shutil.copytree(folder, Path(name, "objects", "data", "photos"))
        os.environ.update(proxy.environment)
        uri = f"{proxy.base}/photos"
        files = storage.list_files(uri)

        def request(file: storage.InputFile) -> bytes:
            return storage.read_bytes_of_size(f"{uri}/{file.path}", file.size)

        def with_pool(work: Callable[[storage.InputFile], object]) -> int:
            with ThreadPoolExecutor(64) as pool:
                return sum(1 for _ in pool.map(work, files))

        def reader(**settings: Any) -> Callable[[], int]:
            conversion = {"splits": {"train": 1}}
            found = iterate(
                uri, "train", batch_size=BATCH, shuffle="global", conversion=conversion, **settings
            )
            return lambda: sum(len(batch) for batch in found)  # an epoch

        peers: dict[str, Callable[[], int]] = {
            "pool": lambda: with_pool(request),
            "raw": reader(features="filename"),
            "pool, decoded": lambda: with_pool(lambda f: decoder.decode([request(f)], None)),
            "raw, decoded": reader(features="image", image_size=SIZE),
        }
        rates: dict[str, list[float]] = {name: [] for name in peers}
        for _ in range(runs):
            for name, work in peers.items():
                begin = time.perf_counter()
                rates[name].append(work() / (time.perf_counter() - begin))
    for name, values in rates.items():
        print(f"bucket, 20 ms   {name:14} {statistics.median(values):10.0f} photos/s")
    for what in ("", ", decoded"):
        ratios = [a / b for a, b in zip(rates[f"raw{what}"], rates[f"pool{what}"], strict=True)]
        print(f"raw / pool{what}: {statistics.median(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bucket", action="store_true", help="read from a bucket only")
    given = parser.parse_args()
    folder = given.workdir / "raw-input-photos"
    if not folder.exists():
        from photos import make_jpegs

        make_jpegs(folder, count=given.count)
    if given.bucket:
        measure_bucket(folder, given.runs)
        return
    readers: dict[str, Callable[[Path, int], Iterator[Any]]] = {"plain": plain, "raw": raw}
    try:
        import torchvision  # noqa: F401

        readers["torchvision"] = torchvision_folder
    except ImportError:
        print("torchvision is not installed")
    print("processes   reader        first batch, s   photos/s")
    for processes in (0, 1, 2):
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
        for _ in range(given.runs):
            for name, read in readers.items():
                found[name].append(measure(read, folder, processes))
        rates = {}
        for name, values in found.items():
            first, rates[name] = (statistics.median(column) for column in zip(*values, strict=True))
            print(f"{processes:9}   {name:12} {first:15.2f} {rates[name]:10.0f}")
        print(f"raw / plain: {rates['raw'] / rates['plain']:.2f}")
    measure_opening(given.workdir / "raw-input-many", given.files)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:,} MiB")


if __name__ == "__main__":
    main()
