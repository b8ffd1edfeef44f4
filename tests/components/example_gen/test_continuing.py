"""Test that a killed conversion resumes with the same bytes and rewrites one shard per process."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.components.killed_runs import begin, digests_at, finish, inodes_at, kill_at

PROCESSES = 2
# Long enough for a kill in the middle, and without TFX.
SCRIPT = """
import sys, time
from absl import logging
from components.runtime import processes
from components.runtime.runners import Runner
from components.runtime.workspace import run_in
from components.example_gen import text_conversion
from components.example_gen import input_selection
from components.example_gen.settings import ImageSettings, TextSettings
from components.steps import conversion_of

kind, base, uri, number = sys.argv[1:]
processes._WORTH_SECONDS = 0.0
text_conversion.BUCKET_BYTES = 2500  # as a shard is, or some small ones: what a call writes
logging.set_verbosity(logging.INFO)
settings_class = {"images": ImageSettings, "texts": TextSettings}[kind]
with run_in(uri), Runner(processes=int(number)) as runner:
    settings = settings_class(target_shard_bytes=2000)
    selection = input_selection.InputSelection(base=base)
    conversion = conversion_of(selection, settings, runner)
    written = conversion.write(conversion.plan(uri), uri)
print(written.fingerprint, sum(shard.records for shard in written.shards))
"""


@pytest.fixture(scope="module")
def bases(tmp_path_factory, photos) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("in")
    for number in range(120):
        path = base / f"images/{'ab'[number % 2]}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photos[number % len(photos)]).rotate(number).save(path)
    (base / "texts").mkdir()
    rows = "".join(f"{n} {'word ' * 50},{n % 3}\n" for n in range(400))
    (base / "texts/t.csv").write_text("text,label\n" + rows)
    return {kind: base / kind for kind in ("images", "texts")}


def run(kind: str, base: Path, uri: Path) -> "subprocess.Popen[str]":
    return begin(SCRIPT, kind, base, uri, PROCESSES)


@pytest.fixture(scope="module")
def whole(bases, tmp_path_factory) -> dict[str, tuple[dict[str, str], str]]:
    found = {}
    for kind, base in bases.items():
        uri = tmp_path_factory.mktemp("whole") / "out"
        out, _ = finish(run(kind, base, uri))
        found[kind] = digests_at(uri), out
    assert all(len(digests) > 12 for digests, _ in found.values())
    return found


@pytest.mark.parametrize(
    ("kind", "goes_on_in"), [("images", "the same folder"), ("texts", "another one beside it")]
)
def test_killed_conversion_resumes(bases, whole, tmp_path, kind, goes_on_in):
    uri, digests = tmp_path / "1", whole[kind][0]
    wanted = random.Random(kind + goes_on_in).randrange(2, len(digests) - 4)
    before = kill_at(run(kind, bases[kind], uri), uri, shards=wanted)
    assert before
    if goes_on_in != "the same folder":
        uri = tmp_path / "2"
    out, err = finish(run(kind, bases[kind], uri))
    assert "resuming: " in err
    assert (digests_at(uri), out) == whole[kind]
    after = inodes_at(uri)
    made_again = [name for name, inode in before.items() if after[name] != inode]
    assert len(made_again) <= PROCESSES


def test_leftovers_of_other_inputs_are_not_reused(bases, whole, tmp_path):
    base, uri = tmp_path / "in", tmp_path / "out"
    shutil.copytree(bases["images"], base)
    kill_at(run("images", base, uri), uri, shards=3)
    (base / "a/0.png").write_bytes((base / "b/1.png").read_bytes())
    out, err = finish(run("images", base, uri))
    assert "resuming" not in err
    assert out != whole["images"][1]
    finish(run("images", base, tmp_path / "x/fresh"))
    assert digests_at(uri) == digests_at(tmp_path / "x/fresh")
