"""What `tfx-shards diff` takes for two datasets of texts, or of photos, in another order each.

    python benchmarks/diff.py --workdir bench            # 1,000,000 texts of 90 characters
    python benchmarks/diff.py --workdir bench --photos bench/photos-3000

No shard of one is a shard of the other, so that every record has to be looked at: one percent of
them is changed, half a percent is added, half a percent removed.

The claim: seconds for a million texts.
"""

import argparse
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

from common import texts_of_this_machine

from pipelines.tools.diff import compare_datasets
from trainer_utils import DatasetWriter

_SHARDS = (8, 6)  # of the first dataset and of the second


def write_both(folder: Path, names: Sequence[str], values: Sequence[bytes], feature: str) -> None:
    """Two datasets of these records in a folder, if they are not there yet."""
    numbers = list(range(len(names)))
    few = len(numbers) // 200
    sides = numbers[:-few], random.Random(0).sample(numbers[few:], len(numbers) - few)
    for side, shards, chosen in zip("ab", _SHARDS, sides, strict=True):
        if (folder / side).exists():
            continue
        with DatasetWriter(str(folder / side), num_shards={"train": shards}) as writer:
            for number in chosen:
                label = number % 7 + (side == "b" and number % 100 == 0)
                writer.write(
                    "train",
                    {"filename": names[number], feature: values[number % len(values)], "n": label},
                )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--photos", type=Path, help="a folder of JPEGs, in place of texts")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.photos:
        paths = sorted(map(str, arguments.photos.rglob("*.jpg")))
        values = [Path(path).read_bytes() for path in paths]
        names, kind = [os.path.relpath(path, arguments.photos) for path in paths], "image"
    else:
        values = [t.encode() for t in texts_of_this_machine(count=5000, characters=90)]
        names, kind = [f"reviews.csv:{number}" for number in range(arguments.records)], "text"
    folder = arguments.workdir / f"diff-{kind}-{len(names)}"
    write_both(folder, names, values, kind)
    for _ in range(arguments.runs):
        started, spent = time.perf_counter(), time.process_time()
        found = compare_datasets(str(folder / "a"), str(folder / "b"))
        seconds, cpu = time.perf_counter() - started, time.process_time() - spent
        print(f"{seconds:.2f} s, {cpu:.2f} s of CPU for {len(names):,} records: {found.counts}")


if __name__ == "__main__":
    main()
