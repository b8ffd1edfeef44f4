"""ImageExampleGen gives the same bytes whatever the runner, the file system or a broken run."""

import dataclasses
import functools
import io
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts

from components.common import worker_pool
from components.image_example_gen import Executor
from trainer_utils import DatasetError, input_fn
from trainer_utils.format import InputError
from trainer_utils.format.sealing import seal

REPOSITORY = Path(__file__).parents[3]


@functools.cache
def sample_photo() -> Image.Image:
    return Image.fromarray(load_sample_images().images[0])


def photo(number: int) -> bytes:
    """An encoded cut of a real photo; another number gives another cut."""
    x, y = number % 600, number // 600
    stream = io.BytesIO()
    sample_photo().crop((x, y, x + 32, y + 24)).save(stream, "PNG" if number % 5 == 0 else "JPEG")
    return stream.getvalue()


def write_tree(base: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return base


def properties_of(base: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "input_base": str(base),
        "input_config": '{"splits": [{"name": "all", "pattern": "*"}]}',
        "output_config": "{}",
        "max_reject_fraction": 0.5,
        "target_shard_bytes": 10_000,
        **settings,
    }


def convert(
    base: Path, uri: Path, *, beam_pipeline_args: list[Any] | None = None, **settings: Any
) -> None:
    """Runs the executor; with Beam's arguments as TFX hands them to it."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    context = None
    if beam_pipeline_args is not None:
        context = BaseBeamExecutor.Context(
            beam_pipeline_args=beam_pipeline_args, tmp_dir=f"{uri}.tmp", unique_id="1"
        )
    Executor(context).Do({}, {"examples": [artifact]}, properties_of(base, settings))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file's bytes, and every folder, below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def filenames(uri: Path, split: str) -> list[bytes]:
    """The filenames of a split, in order, by TensorFlow's own reader."""
    paths = sorted(str(path) for path in (uri / f"Split-{split}").iterdir())
    examples = [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(paths)]
    return [example.features.feature["filename"].bytes_list.value[0] for example in examples]


def tree_of(count: int) -> dict[str, bytes]:
    """Photos in seven classes, four bad files and a hidden one."""
    return {
        **{f"class-{number % 7}/{number:03d}.jpg": photo(number) for number in range(count)},
        "class-1/empty.jpg": b"",
        "class-2/text.jpg": b"no photo",
        "class-3/cut.jpg": photo(1)[:-2],
        "stray.jpg": photo(2),
        "class-4/.hidden": b"x",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tree(tmp_path_factory.mktemp("photos"), tree_of(120))


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Path:
    """Photos for some small shards, one of them of a bad file alone, so that others are renamed."""
    files = {
        "train/a/1.jpg": photo(1),
        "train/b/2.jpg": photo(2),
        "train/a/bad.jpg": b"",
        "eval/b/3.jpg": photo(3),
    }
    return write_tree(tmp_path_factory.mktemp("few"), files)


@pytest.fixture(scope="module")
def reference(folder, tmp_path_factory) -> dict[str, bytes | None]:
    """What one plain run makes: some shards a split, rejects, a vocabulary."""
    uri = tmp_path_factory.mktemp("reference")
    convert(folder, uri)
    made = contents(uri)
    assert sum(name.startswith("Split-") and data is not None for name, data in made.items()) > 5
    assert {"manifest.json", "rejects.jsonl", "vocab/label.txt"} < made.keys()
    return made


# Runs ---------------------------------------------------------------------------------------------


def test_a_second_run_makes_the_same_bytes(folder, reference, tmp_path):
    convert(folder, tmp_path / "out")
    assert contents(tmp_path / "out") == reference


def test_a_second_run_into_the_same_uri_makes_the_same_bytes(folder, reference, tmp_path):
    convert(folder, tmp_path / "out")
    convert(folder, tmp_path / "out")
    assert contents(tmp_path / "out") == reference


def test_compressed_shards_are_the_same_bytes_too(folder, tmp_path):
    for name in ("one", "two"):
        convert(folder, tmp_path / name, compression="gzip")
    made = contents(tmp_path / "one")
    assert any(name.endswith(".gz") for name in made)
    assert contents(tmp_path / "two") == made


@pytest.mark.parametrize(
    "arguments",
    [
        ["--runner=DirectRunner"],
        ["--direct_num_workers=3", "--direct_running_mode=multi_threading"],
        ["--direct_num_workers=0", "--direct_running_mode=multi_threading"],
        pytest.param(
            ["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["in memory", "three threads", "a thread a core", "two processes"],
)
def test_the_runner_and_its_workers_do_not_change_a_byte(
    folder, reference, tmp_path, monkeypatch, arguments
):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX parses it together with Beam's arguments
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))  # for workers that are processes
    convert(folder, tmp_path / "out", beam_pipeline_args=arguments)
    assert contents(tmp_path / "out") == reference


def test_processes_of_the_in_process_runner_do_not_change_a_byte(
    folder, reference, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])
    monkeypatch.setattr(worker_pool, "_WORTH_SECONDS", 0.0)
    started = []
    popen = subprocess.Popen

    def start(arguments: list[str], **more: Any) -> "subprocess.Popen[bytes]":
        started.append(arguments)
        return popen(arguments, **more)

    monkeypatch.setattr(subprocess, "Popen", start)
    convert(folder, tmp_path / "out", beam_pipeline_args=["--direct_num_workers=3"])
    assert (
        len([one for one in started if any("worker_process" in part for part in one)]) == 2
    )  # and this one
    assert contents(tmp_path / "out") == reference


# The file system ----------------------------------------------------------------------------------


def test_place_time_and_order_of_writing_of_the_photos_do_not_matter(folder, reference, tmp_path):
    files = list(tree_of(120).items())
    random.Random(0).shuffle(files)
    base = write_tree(tmp_path / "else where" / "ü", dict(files))
    for number, (name, _) in enumerate(files):
        os.utime(base / name, (number, number))
    convert(base, tmp_path / "out")
    made = contents(tmp_path / "out")
    said = made["lineage.json"].decode().replace(str(base), str(folder))
    assert made | {"lineage.json": seal(said).encode()} == reference


@pytest.mark.parametrize("seed", [1, 2, None], ids=["shuffled", "shuffled again", "backwards"])
def test_the_order_in_which_the_system_lists_files_does_not_matter(
    folder, reference, tmp_path, monkeypatch, seed
):
    scandir = os.scandir
    listed = []

    class Listing:
        """`os.scandir` in another order."""

        def __init__(self, path: str = ".") -> None:
            with scandir(path) as entries:
                self._entries = sorted(entries, key=lambda entry: entry.name, reverse=True)
            if seed is not None:
                random.Random(seed).shuffle(self._entries)
            listed.append(str(path))

        def __enter__(self) -> "Listing":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> "Listing":
            return self

        def __next__(self) -> os.DirEntry:
            if not self._entries:
                raise StopIteration
            return self._entries.pop()

        def close(self) -> None:
            pass

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", Listing)
        convert(folder, tmp_path / "out")
    assert any("class-3" in path for path in listed)
    assert contents(tmp_path / "out") == reference


def test_the_order_of_the_rows_of_a_csv_does_not_matter(folder, tmp_path):
    rows = [f"UNASSIGNED,class-{number % 7}/{number:03d}.jpg,{number % 3}" for number in range(60)]
    base = shutil.copytree(folder, tmp_path / "in")
    made = []
    for name in ("one", "two"):
        (base / "list.csv").write_text("\n".join(rows))
        convert(base, tmp_path / name)
        made.append(contents(tmp_path / name))
        rows.reverse()
    assert made[0] == made[1]


def input_fingerprint(uri: Path) -> str:
    return json.loads((uri / "manifest.json").read_text())["input_fingerprint"]


def test_the_manifest_has_a_fingerprint_of_the_photos_alone(folder, tmp_path):
    convert(folder, tmp_path / "one")
    convert(folder, tmp_path / "two", seed=7, target_shard_bytes=1 << 20, compression="gzip")
    assert input_fingerprint(tmp_path / "one") == input_fingerprint(tmp_path / "two")


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(photo(999)),
        lambda path: path.write_bytes(b""),
        lambda path: path.rename(path.with_name("another.jpg")),
        lambda path: path.unlink(),
    ],
    ids=["other bytes", "a reject", "another name", "none"],
)
def test_another_photo_changes_the_fingerprint_in_the_manifest(few, tmp_path, change):
    base = shutil.copytree(few, tmp_path / "in")
    convert(base, tmp_path / "before")
    change(base / "train/a/1.jpg")
    convert(base, tmp_path / "after")
    assert input_fingerprint(tmp_path / "before") != input_fingerprint(tmp_path / "after")


# The seed -----------------------------------------------------------------------------------------


def test_another_seed_gives_another_order_of_the_same_photos(folder, tmp_path):
    orders = []
    for seed in (0, 1, -1):
        uri = tmp_path / str(seed)
        convert(folder, uri, seed=seed)
        orders.append(filenames(uri, "train") + filenames(uri, "eval"))
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])
    assert len(orders[0]) == 120


def test_the_order_is_the_seeds_own_in_splits_that_the_folders_name(tmp_path):
    files = {f"train/{number % 2}/{number:02d}.jpg": photo(number) for number in range(40)}
    base = write_tree(tmp_path / "in", {**files, "eval/0/1.jpg": photo(50)})
    orders = []
    for seed in (0, 1):
        convert(base, tmp_path / str(seed), seed=seed)
        orders.append(filenames(tmp_path / str(seed), "train"))
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(name.encode() for name in files)


def test_the_order_mixes_the_classes(folder, tmp_path):
    split_config = {"splits": [{"name": "all", "hash_buckets": 1}]}
    convert(folder, tmp_path, output_config=json.dumps({"split_config": split_config}))
    classes = [name.split(b"/")[0] for name in filenames(tmp_path, "all")]
    changes = sum(one != two for one, two in itertools.pairwise(classes))
    # 102 of the 119 pairs of neighbours are expected to differ, with a standard deviation of 3.8;
    # sorted by class just 6 would.
    assert changes > 83


# Broken runs --------------------------------------------------------------------------------------

# Runs the executor again and again, each time in a forked process of its own and into a uri of its
# own. The first is killed just before its first change to the file system, the second before its
# second, and so on, until one comes to its end or there were as many as asked for. An audit hook
# sees each file being opened, renamed or removed, so that nothing of the package is replaced.
KILLED_RUNS = """
import json, os, signal, sys
from tfx.types import standard_artifacts
from components.image_example_gen import Executor

def changes(event, arguments, uri):
    if event == "open":
        path, _, flags = arguments
        return str(path).startswith(uri) and flags & (os.O_WRONLY | os.O_RDWR)
    if event == "os.rename":
        return str(arguments[0]).startswith(uri)
    if event in ("os.remove", "os.rmdir"):  # relative to an open folder where a tree is removed
        return str(arguments[0]).startswith(uri) or arguments[1] != -1
    return False

def run(uri, properties, fatal):
    seen = 0

    def kill_before(event, arguments):
        nonlocal seen
        if changes(event, arguments, uri):
            seen += 1
            if seen == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    artifact = standard_artifacts.Examples()
    artifact.uri = uri
    sys.addaudithook(kill_before)
    Executor().Do({}, {"examples": [artifact]}, properties)

properties, *series = map(json.loads, sys.argv[1:])
for folder, most in series:
    for fatal in range(1, most + 1):
        child = os.fork()
        if child == 0:
            try:
                run(f"{folder}/{fatal:03d}", properties, fatal)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
    assert status in (0, signal.SIGKILL), (folder, fatal, status)
"""


A_SHARD_A_FILE = {"target_shard_bytes": 1}


def fresh(base: Path, uri: Path, **settings: Any) -> dict[str, bytes | None]:
    convert(base, uri, **settings)
    return contents(uri)


@dataclasses.dataclass
class KilledRuns:
    """The uris of runs, each killed one change later than the one before.

    Args:
        of_nothing: into uris where nothing was; the last of them came to its end.
        over_another: the same, where there was the dataset of another seed; the first 25 of them.
        another: that dataset.
    """

    of_nothing: list[Path]
    over_another: list[Path]
    another: dict[str, bytes | None]


@pytest.fixture(scope="module")
def killed(few, tmp_path_factory) -> KilledRuns:
    folder = tmp_path_factory.mktemp("killed")
    another = fresh(few, folder / "another", seed=1, **A_SHARD_A_FILE)
    over_another = [folder / "over" / f"{number:03d}" for number in range(1, 26)]
    for uri in over_another:
        shutil.copytree(folder / "another", uri)
    series = [[f"{folder}/nothing", 999], [f"{folder}/over", len(over_another)]]
    arguments = [properties_of(few, A_SHARD_A_FILE), *series]
    finished = subprocess.run(
        [sys.executable, "-c", KILLED_RUNS, *map(json.dumps, arguments)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return KilledRuns(sorted((folder / "nothing").iterdir()), over_another, another)


def opens(uri: Path) -> bool:
    try:
        input_fn(str(uri), "train", batch_size=None)
    except DatasetError:
        return False
    return True


def test_a_run_in_another_process_makes_the_same_bytes(few, killed, tmp_path):
    assert contents(killed.of_nothing[-1]) == fresh(few, tmp_path / "out", **A_SHARD_A_FILE)


def test_a_run_killed_anywhere_leaves_a_manifest_only_with_all_the_rest(killed):
    *unfinished, finished = killed.of_nothing
    whole = contents(finished)
    assert len(unfinished) > 20
    assert [
        uri.name
        for uri in unfinished
        if (uri / "manifest.json").exists() and not whole.items() <= contents(uri).items()
    ] == []


def test_what_a_killed_run_leaves_cannot_be_opened(killed):
    *unfinished, finished = killed.of_nothing
    opened = [uri.name for uri in unfinished if opens(uri)]
    assert [
        name for name in opened if not (finished.parent / name / "manifest.json").exists()
    ] == []
    assert opens(finished)


def test_a_run_killed_over_another_dataset_leaves_that_or_nothing_to_open(killed):
    opened = [uri for uri in killed.over_another if opens(uri)]
    assert [uri.name for uri in opened if not contents(uri).items() >= killed.another.items()] == []
    assert len(opened) < len(killed.over_another)


def test_a_run_after_a_killed_one_makes_the_whole_dataset(few, killed, tmp_path):
    *unfinished, finished = killed.of_nothing
    whole = contents(finished)
    differing = {}
    for uri in unfinished:
        again = shutil.copytree(uri, tmp_path / uri.name)
        if (made := fresh(few, again, **A_SHARD_A_FILE)) != whole:
            differing[uri.name] = sorted(made.keys() - whole.keys())
    assert differing == {}


@pytest.mark.parametrize(
    ("settings", "lost"),
    [
        ({"target_shard_bytes": 1 << 20}, None),
        (A_SHARD_A_FILE, "train/a/bad.jpg"),
        (A_SHARD_A_FILE, "train/b/2.jpg"),
    ],
    ids=["other settings", "no reject any more", "a shard less"],
)
def test_what_another_run_left_does_not_show(few, killed, tmp_path, settings, lost):
    base = shutil.copytree(few, tmp_path / "in")
    if lost:
        (base / lost).unlink()
    expected = fresh(base, tmp_path / "fresh", **settings)
    for uri in [*killed.of_nothing[5:-1:8], killed.of_nothing[-1]]:
        again = shutil.copytree(uri, tmp_path / uri.name)
        assert fresh(base, again, **settings) == expected, uri.name


def test_a_second_run_takes_the_manifest_away_before_it_writes(few, tmp_path):
    manifest = tmp_path / "out" / "manifest.json"
    while_writing = []

    def make_pipeline() -> beam.Pipeline:
        while_writing.append(manifest.exists())
        return beam.Pipeline(runner="apache_beam.runners.portability.fn_api_runner.FnApiRunner")

    artifact = standard_artifacts.Examples()
    artifact.uri = str(tmp_path / "out")
    executor = Executor(BaseBeamExecutor.Context(make_beam_pipeline_fn=make_pipeline))
    for _ in range(2):
        executor.Do({}, {"examples": [artifact]}, properties_of(few, {}))
        assert manifest.exists()
    assert while_writing == [False, False]


def test_a_second_run_that_fails_leaves_nothing_of_the_first_to_open(few, tmp_path):
    convert(few, tmp_path / "out")
    with pytest.raises(InputError, match="1 of 4 inputs were rejected"):
        convert(few, tmp_path / "out", max_reject_fraction=0)
    assert not opens(tmp_path / "out")
