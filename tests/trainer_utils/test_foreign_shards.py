"""A shard of the same size from another run: refused at the first read, however it is read."""

import shutil
from pathlib import Path

import pytest

from trainer_utils import DatasetError, DatasetWriter, iterate

RECORDS, SHARDS = 600, 3
_BYTES = 4000  # a shard is more than is checked whole as it is opened


def _write(folder: Path, run: int) -> Path:
    with DatasetWriter(str(folder), num_shards={"train": SHARDS}) as writer:
        for number in range(RECORDS):
            text = b"%d %05d " % (run, number)
            example = {"id": b"%05d" % number, "run": run, "text": text * (_BYTES // len(text))}
            writer.write("train", example)
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> str:
    """A dataset of run 0 whose first shard is that of run 1, of the same size."""
    base = tmp_path_factory.mktemp("foreign")
    ours, others = (_write(base / str(run), run) for run in (0, 1))
    name = min(path.name for path in (ours / "Split-train").iterdir())
    target = ours / "Split-train" / name
    size = target.stat().st_size
    shutil.copyfile(others / "Split-train" / name, target)
    assert target.stat().st_size == size
    return str(ours)


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.parametrize("shuffle", [False, True, "global"])
@pytest.mark.parametrize("cache", [None, "folder"])
def test_no_record_of_another_run_is_served(foreign, tmp_path, on_corrupt, shuffle, cache):
    folder = None if cache is None else str(tmp_path)
    settings = {"shuffle": shuffle, "on_corrupt": on_corrupt, "cache": folder, "batch_size": 8}
    seen: list[int] = []

    def read() -> None:
        for batch in iterate(foreign, "train", features=["run"], **settings):
            seen.extend(batch["run"].tolist())

    with pytest.raises(DatasetError, match="00000-of-00003"):
        read()
    assert set(seen) <= {0}
