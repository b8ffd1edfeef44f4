"""ImageExampleGen writes the same bytes with any runner or file system, and after a failed run."""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from components.image_example_gen import Executor
from components.runtime import processes
from tests.components.runs import run
from tests.docs.markdown import REPOSITORY
from tests.make import everything, photo
from tests.make import write_files as write_tree
from trainer_utils.format.sealing import seal

# Photos in seven classes, four bad files and a hidden one.
FILES = {
    **{f"class-{number % 7}/{number:03d}.jpg": photo(number) for number in range(120)},
    "class-1/empty.jpg": b"",
    "class-2/text.jpg": b"no photo",
    "class-3/cut.jpg": photo(1)[:-2],
    "stray.jpg": photo(2),
    "class-4/.hidden": b"x",
}


def convert(base: Path, uri: Path, *arguments: str) -> dict[str, bytes]:
    """Run the executor with Beam's arguments as TFX passes them; return all files by name."""
    settings: dict[str, Any] = {"max_reject_fraction": 0.5, "target_shard_bytes": 10_000}
    run(Executor, base, uri, beam_args=[*arguments] or None, **settings)
    return everything(uri)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tree(tmp_path_factory.mktemp("photos"), FILES)


@pytest.fixture(scope="module")
def reference(folder, tmp_path_factory) -> dict[str, bytes]:
    """Return the files of one plain run: several shards per split, rejects, a vocabulary."""
    made = convert(folder, tmp_path_factory.mktemp("reference"))
    assert sum(name.startswith("Split-") for name in made) > 5
    assert {"manifest.json", "rejects.jsonl", "vocab/label.txt"} < made.keys()
    return made


def test_second_run_into_the_same_uri_writes_the_same_bytes(folder, reference, tmp_path):
    convert(folder, tmp_path / "out")
    assert convert(folder, tmp_path / "out") == reference


@pytest.mark.parametrize(
    "arguments",
    [
        ["--runner=DirectRunner"],
        ["--direct_num_workers=0", "--direct_running_mode=multi_threading"],
        ["--direct_num_workers=3"],
    ],
    ids=["in memory", "a thread a core", "processes"],
)
def test_bytes_do_not_depend_on_runner_and_workers(
    folder, reference, tmp_path, monkeypatch, arguments
):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX would parse it with Beam's arguments
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))  # for workers in other processes
    monkeypatch.setattr(processes, "_WORTH_SECONDS", 0.0)
    used, map_them = [], processes.Pool.map

    def record(self, call, tasks, number, **options):
        used.append(number)
        return map_them(self, call, tasks, number, **options)

    monkeypatch.setattr(processes.Pool, "map", record)
    assert convert(folder, tmp_path / "out", *arguments) == reference
    if arguments == ["--direct_num_workers=3"]:
        assert used == [3]


def test_place_times_and_order_of_photos_do_not_matter(folder, reference, tmp_path, subtests):
    files = list(FILES.items())
    random.Random(0).shuffle(files)
    base = write_tree(tmp_path / "else where" / "ü", dict(files))
    for number, (name, _) in enumerate(files):
        os.utime(base / name, (number, number))
    made = convert(base, tmp_path / "out")
    said = made["lineage.json"].decode().replace(str(base), str(folder))
    made["lineage.json"] = seal(said).encode()
    # Updates and tokens use the times of files, so `listing` and `listing.json` differ.
    reference = dict(reference)
    listings = [json.loads(files.pop("listing.json")) for files in (made, reference)]
    for name in ("checksum", "fingerprint", "newest"):
        with subtests.test(name=name):
            assert listings[0].pop(name) != listings[1].pop(name)
    assert listings[0] == listings[1]
    shards = [json.loads(files.pop("inputs.json"))["shards"] for files in (made, {**reference})]
    assert [{**shard, "listing": None} for shard in shards[0]] == [
        {**shard, "listing": None} for shard in shards[1]
    ]
    assert made == {name: data for name, data in reference.items() if name != "inputs.json"}
