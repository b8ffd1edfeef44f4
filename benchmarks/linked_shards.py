"""Read a dataset of ever more shards of small records, made of hard links to one shard.

    python benchmarks/linked_shards.py                       # 16, 1,000 and 8,000 shards
    python benchmarks/linked_shards.py --shards 16,8000 --shuffle global --seconds 20

Each shard has a million records of 127 bytes: 8,000 shards simulate 8.4 billion records and
1 TB, while the disk holds one. The first batch, the rate, the CPU time per record and the growth of
anonymous memory are printed. Every size runs in a separate process; the rounds alternate.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_RECORDS, _BATCH = 1_050_000, 64


def write_shard(folder: Path) -> None:
    """Write the dataset of one shard that the others link to."""
    import trainer_utils

    text = b"x" * 60
    with trainer_utils.DatasetWriter(folder, num_shards={"train": 1}) as writer:
        for number in range(_RECORDS):
            writer.write("train", {"id": b"%07d" % number, "label": number % 10, "text": text})


def link_shards(one: Path, folder: Path, count: int) -> None:
    """Write a dataset of `count` hard links to a shard."""
    from trainer_utils.format import Accounting, Manifest
    from trainer_utils.format.manifest import FileDigest

    manifest = Manifest.from_json((one / "manifest.json").read_text(), path="manifest.json")
    (shard,) = manifest.shards
    (folder / "Split-train").mkdir(parents=True)
    (folder / "index").mkdir()
    shards = []
    for number in range(count):
        place = f"{number:05d}-of-{count:05d}"
        linked = shard._replace(path=f"Split-train/data_tfrecord-{place}")
        os.link(one / shard.path, folder / linked.path)
        os.link(one / "index/train-00000-of-00001.npy", folder / f"index/train-{place}.npy")
        shards.append(linked)
    for name in manifest.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(one / name, folder / name)
    (folder / "shard_info.json").unlink()
    records = {linked.path: linked.records for linked in shards}
    (folder / "shard_info.json").write_text(json.dumps({"train": records}))
    total = shard.records * count
    changed = dataclasses.replace(
        manifest,
        shards=tuple(shards),
        accounting={"train": Accounting(found=total, written=total)},
        files={name: FileDigest.of((folder / name).read_bytes()) for name in manifest.files},
    )
    (folder / "manifest.json").write_text(changed.to_json())


def anonymous_bytes() -> int:
    """Return the memory of this process that no file backs."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def measure(uri: str, shuffle: str, seconds: float) -> dict[str, float]:
    """Read batches for some seconds."""
    import trainer_utils

    before, started = anonymous_bytes(), time.perf_counter()
    order: bool | str = "global" if shuffle == "global" else True
    batches = iter(
        trainer_utils.iterate(uri, "train", batch_size=_BATCH, shuffle=order, repeat=True)
    )
    next(batches)
    first = time.perf_counter() - started
    for _ in range(200):
        next(batches)
    records, started, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        next(batches)
        records += _BATCH
    elapsed = time.perf_counter() - started
    return {
        "first": first,
        "rate": records / elapsed,
        "cpu": (time.process_time() - cpu) / records * 1e6,
        "memory": (anonymous_bytes() - before) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shards", default="16,1000,8000")
    parser.add_argument("--shuffle", choices=("block", "global"), default="block")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workdir", help="default: a temporary folder")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.shuffle, arguments.seconds)))
        return
    counts = [*map(int, arguments.shards.split(","))]
    with tempfile.TemporaryDirectory(dir=arguments.workdir) as work:
        write_shard(Path(work) / "one")
        for count in counts:
            link_shards(Path(work) / "one", Path(work) / str(count), count)
        found: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
        for _ in range(arguments.rounds):
            for count in counts:
                command = [sys.executable, __file__, "--measure", f"{work}/{count}"]
                command += ["--shuffle", arguments.shuffle, "--seconds", str(arguments.seconds)]
                found[count].append(json.loads(subprocess.check_output(command)))
        print("| shards | first batch, s | records/s | us of CPU each | anonymous memory, MB |")
        print("|-------:|---------------:|----------:|---------------:|---------------------:|")
        for count, rounds in found.items():
            first, rate, cpu, memory = (
                statistics.median(one[key] for one in rounds)
                for key in ("first", "rate", "cpu", "memory")
            )
            print(f"| {count:6,} | {first:14.2f} | {rate:9,.0f} | {cpu:14.2f} | {memory:20.0f} |")


if __name__ == "__main__":
    main()
