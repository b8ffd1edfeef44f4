"""Every command and code block of README.md and docs/*.md runs as written.

Each page has its own folder with photos, audio clips and tables. Its blocks run in order in one
process, so that TFX is imported once.
"""

import csv
import linecache
import os
import re
import shlex
import shutil
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("tfx", reason="the pages show the components")
from pipelines.cli.app import app
from tests.docs.inputs_of_others import write_inputs_of_others
from tests.docs.markdown import PAGES, REPOSITORY, blocks, sessions, shell_lines

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
RUN = [
    page for page in PAGES if any(b.language in ("sh", "console", "python") for b in blocks(page))
]
MAKES_OUT = ("README.md", "cli.md")  # these pages write `out/` themselves


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Write photos, audio clips, tables and a user's pipeline, and convert the data."""
    import pipelines
    from pipelines.examples.demo_photos import make_photos

    world = tmp_path_factory.mktemp("world")
    make_photos(str(world / "photos"))
    make_sounds(world / "clips")
    rows = [[f"review number {n} of many", n % 5 + 0.5, "ab"[n % 2]] for n in range(200)]
    with (world / "reviews.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["text", "stars", "label"], *rows])
    (world / "my_pipeline.py").write_text(PIPELINE)
    pipelines.convert(world / "photos", world / "out", num_shards={"train": 4, "eval": 2})
    single = pipelines.convert(world / "photos", world / "single", num_shards=1)
    shutil.copytree(single, world / "damaged")
    damage(world / "damaged")
    write_tokens(world / "tokens")
    make_two_versions(world)
    return world


PIPELINE = """
from tfx import v1 as tfx
from components import ImageExampleGen

def create_pipeline(pipeline_root):
    images = ImageExampleGen(input_base="gs://bucket/photos")
    return tfx.dsl.Pipeline("mine", pipeline_root, components=[images])
"""


def make_sounds(folder):
    import soundfile

    for number in range(20):
        path = folder / ("yes" if number % 2 else "no") / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.sin(np.arange(800) * (number + 1) / 50), 8000)


def damage(dataset):
    """Damage a byte of a record, and cut off the end of a file."""
    train = dataset / "Split-train/data_tfrecord-00000-of-00001"
    data = bytearray(train.read_bytes())
    data[len(data) // 2] ^= 1
    train.write_bytes(data)
    evaluation = dataset / "Split-eval/data_tfrecord-00000-of-00001"
    evaluation.write_bytes(evaluation.read_bytes()[:-1000])


def make_two_versions(world):
    """Write `before` and `after`: one record added, one with a new label, one in another split."""
    import pipelines

    photos = sorted((world / "photos/palace_sky").iterdir())[1:41]
    names = [f"{('cat', 'palace')[n % 2]}/{n:04}.jpg" for n in range(len(photos))]
    rows = [[name, "ab"[n % 3 == 0], ("eval", "train")[n > 12]] for n, name in enumerate(names)]
    for name, photo in zip(names, photos, strict=True):
        (world / "versions" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, world / "versions" / name)
    changed = [list(row) for row in rows]
    changed[20][1] = "ab"[changed[20][1] == "a"]
    changed[11][2] = "train"
    for version, listed in {"before": rows[:-2] + rows[-1:], "after": changed}.items():
        path = world / f"versions/{version}.csv"
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([["image", "label", "split"], *listed])
        uri = pipelines.convert(path, world / f"out-{version}")
        (world / version).symlink_to(uri)


def write_tokens(folder):
    import tensorflow as tf

    (folder / "Split-train").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "Split-train/data_tfrecord-00000-of-00001")) as writer:
        for number in range(100):
            example = tf.train.Example()
            example.features.feature["tokens"].int64_list.value.extend(range(number % 40 + 1))
            example.features.feature["label"].int64_list.value.append(number % 2)
            writer.write(example.SerializeToString())


@pytest.fixture
def folder(world, tmp_path, monkeypatch, page):
    for path in world.iterdir():
        if path.name != "out" or page.name not in MAKES_OUT:
            (tmp_path / path.name).symlink_to(path)
    commands = tmp_path / ".commands"
    commands.mkdir()
    for name, module in {"tfx-shards": "-m pipelines.cli ", "python": ""}.items():
        program = commands / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return tmp_path


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_examples_of_a_page_work(page, folder):
    names = prelude(page.name, folder)
    for block in blocks(page):
        if block.language == "python" and block.is_run:
            run_python(block, names)
        elif block.language == "python" and ("kfp" not in block.text or "newer" in block.note):
            compile(block.text, block.place, "exec")  # the block needs a bucket, for example
        elif block.language == "python":
            with mock.patch("kfp.Client", autospec=True):  # checks the signatures of calls
                run_python(block, dict(names))
        elif block.language == "sh" and block.is_run:
            for line in shell_lines(block.text):
                status, output = run(line)
                assert status == 0, f"{block.place}: {line}\n{output}"
        elif block.language == "console" and block.is_run:
            is_fixed = not block.note.startswith("output: ")
            for command, expected in sessions(block.text):
                check_session(block.place, command, expected, folder, is_fixed=is_fixed)


def run_python(block, names):
    source = block.text.splitlines(keepends=True)
    linecache.cache[block.place] = (len(block.text), None, source, block.place)  # for kfp
    exec(compile(block.text, block.place, "exec"), names)


def run(line):
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        return 0, ""  # see test_said.py
    if words[0] == "tfx-shards":
        result = CliRunner().invoke(app, words[1:])
        return result.exit_code, result.output
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def check_session(place, command, expected, folder, *, is_fixed):
    """Run a command and compare its output, numbers included; `…` matches anything."""
    if command.startswith("make "):
        return  # see test_said.py
    shows_status = command.endswith("; echo $?")
    status, output = run(command.removesuffix("; echo $?"))
    if shows_status:
        assert str(status) == expected.pop(), f"{place}: {command}\n{output}"
    elif expected and expected[-1].startswith("Error: "):
        assert status in (1, 2)
    elif is_fixed:
        assert status == 0, f"{place}: {command}\n{output}"
    printed = [plain(line, folder) for line in output.splitlines()]
    for line in expected if is_fixed else ():
        if line.strip() != "…":
            wanted = ".*".join(map(re.escape, plain(line, folder).split("…")))
            is_there = any(re.fullmatch(wanted, one) for one in printed)
            assert is_there, f"{place}: {command}\n{line!r} not in\n{output}"


# Times differ from run to run; sizes, offsets and checksums of JPEGs between versions of Pillow.
VARYING = re.compile(
    r"0x(?:[0-9a-f]{8}|…)|\bbyte \d+|\b[\d.,]+ (?:[kMG]?B|m?s|min|h)(?:/s)?\b|\b[\d.,]+/s\b"
    r"|\d{4}-\d\d-\d\d[\d:TZ. ]*"
)


def plain(line, folder):
    """Return a line without times, sizes, checksums, column widths and the folder of its files."""
    for home in (os.path.realpath(folder / "photos/.."), str(folder), "/home/you"):
        line = line.replace(home, "HOME")
    return " ".join(VARYING.sub("#", re.sub(r"-{2,}", "", line)).split())


def prelude(name, folder):
    """Return the names that the code of a page expects from the reader."""
    import trainer_utils

    names = {"trainer_utils": trainer_utils, "uri": "out/latest"}
    return {**names, **PRELUDES.get(name, lambda folder: {})(folder)}


def of_readme(folder):
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    def make_model():
        model = tf.keras.Sequential(
            [tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(5)]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss)
        return model

    def train_step(batch):
        images, labels = batch
        assert images.shape[1:] == (224, 224, 3)
        assert labels.shape[0] == images.shape[0]

    return {"strategy": strategy, "make_model": make_model, "train_step": train_step}


def of_coming_from(folder):
    write_inputs_of_others(folder)
    return {}


def of_balancing(folder):
    from trainer_utils.format import Manifest

    uri = folder / "out/latest"
    (folder / "examples").symlink_to(uri)
    manifest = Manifest.from_json((uri / "manifest.json").read_text(), path=str(uri))
    shard = manifest.shards[0]
    name = os.path.basename(shard.path).removeprefix("data_tfrecord")
    index = uri / f"index/{shard.split}{name}.npy"
    return {
        "data": index.read_bytes(),
        "path": str(index),
        "shard": shard,
        "stream": (uri / shard.path).open("rb"),
    }


def of_format(folder):
    for name in ("croissant.json", "manifest.json"):
        (folder / name).symlink_to(folder / f"out/latest/{name}")
    return {}


def of_kubeflow(folder):
    from kfp import dsl

    @dsl.component(base_image="python:3.10")
    def my_trainer(dataset: dsl.Input[dsl.Dataset]):
        pass

    return {"my_trainer": my_trainer}


def of_language_model(folder):
    pytest.importorskip("tokenizers")
    return {}


PRELUDES = {
    "README.md": of_readme,
    "balancing.md": of_balancing,
    "coming-from.md": of_coming_from,
    "format.md": of_format,
    "kubeflow.md": of_kubeflow,
    "language-model.md": of_language_model,
    "reading.md": lambda folder: {"uri": str(folder / "tokens")},
    "workers.md": lambda folder: {"step": 1},
}
