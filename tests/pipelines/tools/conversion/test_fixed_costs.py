"""Fixed costs of a small conversion and of a first batch, in imports, listings and processes.

The counts come from Python's audit events, which libraries cause too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

REPOSITORY = Path(__file__).parents[4]
FRAMEWORKS = ("apache_beam", "jax", "keras", "ml_metadata", "tensorflow", "tfx", "torch")
COUNTED = """
import collections, json, os, sys
events = collections.defaultdict(list)
def note(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "subprocess.Popen"):
        events[event].append(str(arguments[0]))
sys.addaudithook(note)
{code}
modules = [name for name in sys.modules if sys.modules[name] is not None]
json.dump({{"modules": modules, "events": events}}, sys.stdout)
os._exit(0)  # without the threads of the input
"""
CONVERT = """
from components import steps
from components.example_gen.settings import ImageSettings
steps.convert(sys.argv[1], sys.argv[2], ImageSettings())
"""
CONVERT_ALL = """
import pipelines
pipelines.convert(sys.argv[1], sys.argv[2], splits={"train": 1})
"""
CONVERT_IN_COMMAND_LINE = """
import gc
counts = collections.Counter()
gc.callbacks.append(lambda phase, _: counts.update([phase]))
from pipelines.cli.app import main
try:
    main(["convert", sys.argv[1], sys.argv[2], "--json"])
except SystemExit as error:
    assert not error.code
events["collections"] = [counts["start"]]
"""
ITERATE = """
import trainer_utils
next(iter(trainer_utils.iterate(sys.argv[1], "train", batch_size=8, image_size=(32, 32))))
"""
ITERATE_AND_CONVERT = f"{ITERATE}\nimport pipelines\npipelines.convert(sys.argv[1], sys.argv[2])"
# The path of a photo by its number
LAYOUTS = {
    "files": "{n}.jpg",
    "classes": "class-{label}/{n}.jpg",
    "splits": "{split}/class-{label}/{n}.jpg",
    "nested": "class-{label}/{split}-{n}/a/{n}.jpg",
}
LISTS = {"csv": "images.csv", "csv without header": "automl.csv", "jsonl": "metadata.jsonl"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    state = np.random.default_rng(0)
    for number in range(60):
        path = folder / f"class-{number % 3}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(state.integers(0, 255, (40, 50, 3), np.uint8)).save(path)
    return folder


def run(code, *arguments):
    """Run code in a fresh process; return the modules and events of that process."""
    command = [sys.executable, "-c", COUNTED.format(code=code), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert not done.returncode, done.stderr[-3000:]
    result = json.loads(done.stdout[done.stdout.index('{"modules"') :])
    return set(result["modules"]), result["events"]


def modules_of_ours(modules):
    return {
        name
        for name in modules
        if name.partition(".")[0] in ("components", "pipelines", "trainer_utils")
    }


@pytest.fixture(scope="module")
def converted(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, *run(CONVERT_ALL, photos, out / "datasets")


def test_small_conversion_starts_no_process(converted):
    _, _, events = converted
    assert events.get("subprocess.Popen", []) == []


def test_conversion_lists_each_class_folder_twice_at_most(photos, converted):
    _, _, events = converted
    listings = [path.rstrip("/") for path in events["os.listdir"] + events["os.scandir"]]
    assert listings.count(str(photos)) <= 3
    for folder in photos.iterdir():
        assert listings.count(str(folder)) <= 2, folder


def test_conversion_opens_each_photo_once(photos, converted):
    _, _, events = converted
    for path in photos.rglob("*.jpg"):
        opened = [name for name in events["open"] if name.endswith(f"/{path.name}")]
        assert len(opened) <= 1, path


def test_conversion_reads_metadata_of_a_package_once(converted):
    _, _, events = converted
    read = [path for path in events["open"] if path.endswith("METADATA")]
    assert sorted(read) == sorted(set(read))


def test_conversion_imports_no_framework(photos, tmp_path):
    modules, _ = run(CONVERT, photos, tmp_path / "examples")
    assert modules.isdisjoint(FRAMEWORKS)
    assert len(modules_of_ours(modules)) <= 170


def test_command_line_collects_garbage_rarely(photos, tmp_path):
    _, events = run(CONVERT_IN_COMMAND_LINE, photos, tmp_path / "out")
    assert events["collections"][0] < 100  # 196 by Python's default threshold


def test_first_batch_imports_neither_pandas_nor_arrow(converted):
    out, _, _ = converted
    modules, _ = run(ITERATE, out / "datasets")
    assert modules.isdisjoint({*FRAMEWORKS, "pandas", "pyarrow"})
    assert "components" not in modules
    assert len(modules_of_ours(modules)) <= 112


def test_first_batch_opens_each_file_once(converted):
    out, _, _ = converted
    _, events = run(ITERATE, out / "datasets")
    of_dataset = [path for path in events["open"] if str(out) in path]
    assert sorted(of_dataset) == sorted(set(of_dataset))


def write_photos(folder, layout="files"):
    for n in range(12):
        name = LAYOUTS[layout].format(n=n, label=n % 2, split=("train", "eval")[n % 3 == 2])
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 50), (n, n, n)).save(path)


def check_without_pandas(photos, out):
    pytest.importorskip("pandas")
    modules, _ = run(ITERATE_AND_CONVERT, photos, out)
    assert "components.raw_inputs.opening" in modules
    assert modules.isdisjoint({"pandas", "pyarrow.parquet", "yaml"})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_raw_folders_import_no_pandas(layout, tmp_path):
    write_photos(tmp_path / "photos", layout)
    check_without_pandas(tmp_path / "photos", tmp_path / "out")


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_photos_import_no_pandas(name, tmp_path):
    write_photos(tmp_path / "photos")
    rows = [
        {"file_name": f"{n}.jpg", "label": "ab"[n % 2], "age": n, "score": n / 7 if n % 5 else None}
        for n in range(12)
    ]
    if name == "jsonl":
        lines = [json.dumps({**row, "tags": ["x", "y"][: row["age"] % 3]}) for row in rows]
    elif name == "csv":
        lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
        lines.insert(0, ",".join(rows[0]))
    else:
        lines = [f"TRAINING,{row['file_name']},{row['label']}" for row in rows]
    (tmp_path / "photos" / LISTS[name]).write_text("\n".join(lines) + "\n")
    check_without_pandas(tmp_path / "photos", tmp_path / "out")
