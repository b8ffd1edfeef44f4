"""The cases of `growth.py` for reading: planning, opening and resuming ever more shards.

    python benchmarks/growth.py --case plan --sizes 25000,50000,100000

The datasets are complete except for their records. Shards are sparse files of 10,000 records each,
of the size in the manifest. So 100,000 of them, a billion records, take no disk space. Each has a
record index and an (empty) file of names next to it, like our datasets. Another process makes them,
and its time and memory are not counted.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["CASES", "SIZES"]

_RECORDS = 10_000  # records of a shard
_RECORD_BYTES = 116  # bytes of a framed record
_WORKERS = 4096
_BATCH = 4 * _WORKERS
_TOKEN_FILE = "token.json"  # next to the dataset


def plan(size: int) -> None:
    """Plan the reading of `size` shards by 4,096 workers."""
    import trainer_utils

    with _sparse_dataset(size) as (uri, _):
        planned = trainer_utils.plan(uri, "train", workers=_WORKERS, batch_size=_BATCH)
        assert planned.records == size * _RECORDS
        assert len(planned.workers) == _WORKERS


def opening(size: int) -> None:
    """Open `size` shards with `input_fn`, ready to be iterated over."""
    import trainer_utils

    with _sparse_dataset(size) as (uri, _):
        trainer_utils.input_fn(uri, "train", batch_size=_BATCH)


def resuming(size: int) -> None:
    """Open `size` shards in the middle of an epoch."""
    import trainer_utils

    with _sparse_dataset(size) as (uri, token):
        dataset = trainer_utils.input_fn(uri, "train", batch_size=_BATCH, state=token)
        assert dataset.input_start.step == dataset.input_steps // 2


CASES: dict[str, Callable[[int], None]] = {"plan": plan, "opening": opening, "resuming": resuming}
SIZES = dict.fromkeys(CASES, (12_500, 25_000, 50_000, 100_000))


@contextlib.contextmanager
def _sparse_dataset(shards: int) -> Iterator[tuple[str, str]]:
    """Yield the uri of a dataset of `shards` shards, and a token of the middle of its epoch."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, folder, str(shards)], check=True)
        yield f"{folder}/dataset", (Path(folder) / _TOKEN_FILE).read_text()


def _write(folder: Path, num_shards: int) -> None:
    from trainer_utils.dataset.selection import digest_of, open_sources
    from trainer_utils.format import Feature, Manifest, Shard
    from trainer_utils.format.accounting import Accounting
    from trainer_utils.format.datum import render_features
    from trainer_utils.format.manifest import FileDigest
    from trainer_utils.format.naming import (
        DATUM_TYPES_FILE,
        INDEX_FOLDER,
        MANIFEST_FILE,
        ShardName,
        index_file,
    )
    from trainer_utils.order import InputOrder, OrderOptions

    uri = folder / "dataset"
    (uri / "Split-train").mkdir(parents=True)
    (uri / INDEX_FOLDER).mkdir()
    shards = []
    for number in range(num_shards):
        path = ShardName(split="train", shard_index=number, num_shards=num_shards).path
        size = _RECORDS * _RECORD_BYTES
        with (uri / path).open("wb") as stream:
            stream.truncate(size)
        (uri / index_file(path)).touch()
        sums = {"crc32c": number, "content": number << 32, "index_crc32c": number}
        shards.append(Shard(path=path, split="train", records=_RECORDS, bytes=size, **sums))
    features = render_features({"label": Feature(type="int")})
    (uri / DATUM_TYPES_FILE).write_text(features)
    written = num_shards * _RECORDS
    manifest = Manifest(
        shards=tuple(shards),
        accounting={"train": Accounting(found=written, written=written)},
        producer="benchmark",
        config={},
        input_fingerprint="0",
        files={DATUM_TYPES_FILE: FileDigest.of(features.encode())},
    )
    (uri / MANIFEST_FILE).write_text(manifest.to_json())
    (source,) = open_sources(str(uri), "train")
    options = OrderOptions(batch_size=_BATCH)
    order = InputOrder(
        source.ranges,
        options,
        mean_record_bytes=source.mean_bytes,
        digest=digest_of([source]),
    )
    token = order.state(order.steps_per_epoch // 2).to_json()
    (folder / _TOKEN_FILE).write_text(token)


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]))
