"""Compare converting photos between buckets with the same conversion on the local disk.

    python benchmarks/remote_conversion.py --workdir bench --count 10000

It uses a real S3 server on this machine (`make stores`), directly and behind a proxy that adds 20
ms to each request. Both take CPU time from the converting cores, unlike a remote store. So that
time is printed next to each rate. With `--apart` all conversions, including the local one, have one
core, and the servers have the others. The photos are `--distinct` different ones under `--count`
names.
"""

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))  # for the servers of the tests

# Import these first: some packages that the others import also have a package `tests`.
# isort: off
from tests.object_stores import Store, faulty, s3_server  # noqa: E402
from common import compare, make_jpegs  # noqa: E402
from image_conversion import run_executor  # noqa: E402

# isort: on
from tfx.proto import example_gen_pb2  # noqa: E402

from components.image_example_gen import Executor  # noqa: E402
from trainer_utils import storage  # noqa: E402

_UPLOADS = 16


def linked(photos: Path, folder: Path, count: int) -> Path:
    """Make a folder of `count` links to the photos of another, by class."""
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        paths = itertools.cycle(sorted(photos.rglob("*.jpg")))
        for number, path in zip(range(count), paths, strict=False):
            target = unfinished / path.parent.name / f"{number:06d}.jpg"
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.link(path, target)
        unfinished.rename(folder)
    return folder


def upload(folder: Path, uri: str) -> None:
    """Copy photos to a bucket, several at once."""

    def copy(path: str) -> None:
        target = f"{uri}/{path}"
        with storage.write_atomically(target, temporary_folder=uri) as stream:
            stream.write((folder / path).read_bytes())

    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(copy, [file.path for file in storage.list_files(str(folder))]))


def remote(store: Store) -> Callable[[Path], None]:
    """Return a function that converts the uploaded photos, each time to another place."""
    numbers = itertools.count()

    def run(_: Path) -> None:
        os.environ.update(store.environment)
        target = f"{store.base}/out-{store.address}-{next(numbers)}"
        convert(f"{store.base}/photos", target)

    return run


def convert(photos: str, target: str) -> None:
    """Run the measured conversion."""
    split = example_gen_pb2.SplitConfig.Split(name="train", hash_buckets=1)
    output = example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=[split]))
    run_executor(Executor, photos, target, output)  # type: ignore[arg-type]


def cpu_seconds_of(process_ids: list[int]) -> float:
    """Return the CPU seconds that running processes have spent so far."""
    ticks = 0
    for process_id in process_ids:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def keep_to(cores: set[int], process_id: int | str = "self") -> None:
    """Restrict all threads of a process, and later ones, to some cores."""
    for task in Path(f"/proc/{process_id}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(int(task.name), cores)


def children() -> list[int]:
    """Return the process ids of the servers that this process has started."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(number) for task in tasks for number in task.read_text().split()]


def main() -> None:
    """Measure all peers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--distinct", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--apart", action="store_true", help="a core of its own for the conversion")
    arguments = parser.parse_args()
    workdir, count = arguments.workdir.resolve(), arguments.count
    distinct = workdir / f"photos-{arguments.distinct}"
    make_jpegs(distinct, count=arguments.distinct)
    photos = linked(distinct, workdir / f"names-{count}-{arguments.distinct}", count)
    megabytes = sum(path.stat().st_size for path in photos.rglob("*.jpg")) / 1e6
    with tempfile.TemporaryDirectory(dir=workdir) as name:
        temporary = Path(name)
        with s3_server(temporary / "server") as store, faulty(store, delay=0.02) as slow:
            servers = children()
            os.environ.update(store.environment)
            upload(photos, f"{store.base}/photos")
            if arguments.apart:
                first_core, *others = sorted(os.sched_getaffinity(0))
                keep_to({first_core})
                for process_id in servers:
                    keep_to(set(others), process_id)
            spent: dict[str, float] = {}

            def noting(name: str, run: Callable[[Path], None]) -> Callable[[Path], None]:
                def noted(target: Path) -> None:
                    before = cpu_seconds_of(servers)
                    run(target)
                    spent[name] = cpu_seconds_of(servers) - before

                return noted

            peers = {
                "local disk": lambda to: convert(str(photos), str(to)),
                "bucket": noting("bucket", remote(store)),
                "bucket, 20 ms a request": noting("bucket, 20 ms a request", remote(slow)),
            }
            rates = compare(
                peers,
                records=count,
                megabytes=megabytes,
                target=workdir / "out",
                runs=arguments.runs,
            )
    first = rates.pop("local disk")
    for name, rate in rates.items():
        print(
            f"{name}: {rate / first:.2f} of local (goal: 0.7); "
            f"its server took {spent[name]:.1f} s of CPU of the {count / rate:.1f} s"
        )


if __name__ == "__main__":
    main()
