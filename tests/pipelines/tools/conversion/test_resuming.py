"""Interrupted conversions keep finished shards, and the next run writes the same bytes."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import pipelines
from components.example_gen import row_pieces
from components.example_gen.settings import TextSettings
from components.runtime import workspace
from components.runtime.runners import Runner
from components.steps import convert as convert_step
from pipelines.cli.app import app
from pipelines.tools.conversion import convert as conversion
from pipelines.tools.conversion import run_steps
from pipelines.tools.verification import verify_dataset
from tests.docs.markdown import REPOSITORY
from tests.make import everything, photo, write_files
from trainer_utils import ConfigError, storage
from trainer_utils.storage import MachineError, retrying
from trainer_utils.writing.working_folder import working_folder

SECONDS = 300  # time limit for a process
SHARDS = 240
EXAMPLES = "artifacts/ImageExampleGen/examples/1"
COMMAND = """
import sys
from components.runtime import processes
from pipelines.cli.app import main
from pipelines.tools.conversion import convert
convert.has_tfx = lambda: False
processes._WORTH_SECONDS = 0.0
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    files = {
        f"{'ab'[n % 2]}/{n:04d}.png": photo(n, "PNG", size=(20, 30)) for n in range(2 * SHARDS)
    }
    return write_files(tmp_path_factory.mktemp("many"), files)


@pytest.fixture
def pictures(tmp_path) -> Path:
    files = {f"{'ab'[n % 2]}/{n}.png": photo(n, "PNG", size=(20 + n, 30)) for n in range(30)}
    return write_files(tmp_path / "in", files)


@pytest.fixture
def without_tfx(monkeypatch):
    monkeypatch.setattr(conversion, "has_tfx", lambda: False)


def begin(source: Path, out: Path, *more: str) -> "subprocess.Popen[str]":
    """Start `tfx-shards convert` with two processes, in a new session."""
    command = ["convert", str(source), str(out), "--splits", "train=1", "--num-shards", f"{SHARDS}"]
    command += ["--beam-arg=--direct_num_workers=2", *more]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *command],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finished(out: Path) -> dict[str, int]:
    """Return the inodes of finished shards by name."""
    return {path.name: path.stat().st_ino for path in out.glob(f"{EXAMPLES}/Split-*/*")}


def end_early(process: "subprocess.Popen[str]", out: Path, number: int, *, group: bool) -> str:
    """Send a signal after `number` finished shards; return the stderr of the command."""
    begun = time.monotonic()
    while len(finished(out)) < 20:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begun < SECONDS
        time.sleep(0.002)
    (os.killpg if group else os.kill)(process.pid, number)
    return process.communicate(timeout=SECONDS)[1]


@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGINT, False),
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        (signal.SIGKILL, True),
    ],
)
def test_interrupted_command_is_resumed(many, tmp_path, number, group):
    out = tmp_path / "out"
    process = begin(many, out)
    said = end_early(process, out, number, group=group)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in said
        (line,) = [line for line in said.splitlines() if line.startswith("Error: ")]
        assert f" of {SHARDS} shards: the same run resumes from them" in line
    else:
        assert process.returncode == -number
    before = finished(out)
    again = begin(many, out)
    _, said = again.communicate(timeout=SECONDS)
    assert again.returncode == 0, said
    (line,) = [line for line in said.splitlines() if "resuming" in line]
    assert line.startswith("Warning: resuming: ")
    assert line.endswith(f" of {SHARDS} shards are done")
    done = int(line.split()[2])
    assert done >= 18  # a shard may have its final name before its result is recorded
    after = finished(out)
    assert sum(after[name] == inode for name, inode in before.items()) >= done
    other = begin(many, tmp_path / "undisturbed")
    other.communicate(timeout=SECONDS)
    assert other.returncode == 0
    assert everything(out / EXAMPLES) == everything(tmp_path / "undisturbed" / EXAMPLES)


def test_restart_discards_finished_work(many, tmp_path):
    out = tmp_path / "out"
    end_early(begin(many, out), out, signal.SIGINT, group=False)
    before = finished(out)
    again = begin(many, out, "--restart")
    _, said = again.communicate(timeout=SECONDS)
    assert again.returncode == 0, said
    assert "resuming" not in said
    assert "discarded" in said
    assert finished(out).keys() == {f"data_tfrecord-{n:05d}-of-{SHARDS:05d}" for n in range(SHARDS)}
    assert before


class Faults:
    """A function that fails a number of times, from the n-th call on."""

    def __init__(self, call, first: int, times: int) -> None:
        self.call, self.left, self.times = call, first, times

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left < 0 and self.times:
            self.times -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.call(*args, **kwargs)


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("text,label\n" + "".join(f"{n} {'word ' * 20},{n % 3}\n" for n in range(3000)))
    return path


SETTINGS = TextSettings(target_shard_bytes=20_000)


def convert_table(table: Path, uri: Path) -> dict[str, bytes]:
    convert_step(str(table), str(uri), SETTINGS, runner=Runner(processes=1))
    return everything(uri)


def test_transient_fault_is_retried(table, tmp_path, monkeypatch, caplog):
    expected = convert_table(table, tmp_path / "whole")
    monkeypatch.setenv(retrying.RETRY_VARIABLE, "60")
    monkeypatch.setattr(retrying, "_PAUSES", (0.0,))
    monkeypatch.setattr(retrying, "_FIRST_LONG_PAUSE", 0.01)
    faults = Faults(row_pieces.write_batches, 0, 4)
    monkeypatch.setattr(row_pieces, "write_batches", faults)
    assert convert_table(table, tmp_path / "out") == expected
    assert faults.times == 0
    assert retrying.RETRY_VARIABLE in caplog.text


def test_permanent_fault_keeps_finished_work(table, tmp_path, monkeypatch, our_messages):
    expected = convert_table(table, tmp_path / "whole")
    monkeypatch.setattr(retrying, "_PAUSES", ())
    with monkeypatch.context() as patched:
        patched.setattr(storage, "begin_sync", Faults(storage.begin_sync, 3, 10**6))
        with pytest.raises(MachineError, match="EIO"):
            convert_table(table, tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()
    assert any("kept " in line for line in our_messages())
    assert convert_table(table, tmp_path / "out") == expected
    assert any("resuming: 1 of 1 pieces are done" in line for line in our_messages())
    assert not os.path.exists(working_folder(str(tmp_path / "out")))


def test_wrong_settings_leave_no_files(table, tmp_path):
    settings = TextSettings(target_shard_bytes=20_000, tensors={"none": "int32[2]"})
    with pytest.raises(ConfigError):
        convert_step(str(table), str(tmp_path / "out"), settings, runner=Runner(processes=1))
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_a_failed_balancing_keeps_the_dataset_before_it(
    without_tfx, pictures, tmp_path, monkeypatch, our_messages
):
    with monkeypatch.context() as patched:
        patched.setattr(run_steps.steps, "balance", Faults(run_steps.steps.balance, 0, 1))
        with pytest.raises(OSError, match="Input/output"):
            pipelines.convert(pictures, tmp_path / "out")
    before = finished(tmp_path / "out")
    assert before
    made = pipelines.convert(pictures, tmp_path / "out")
    assert any("resuming: the dataset of ImageExampleGen is done" in m for m in our_messages())
    assert finished(tmp_path / "out") == before
    assert not made.cached
    assert pipelines.convert(pictures, tmp_path / "out").cached


def test_a_dataset_that_a_failed_run_left_is_removed(
    without_tfx, pictures, tmp_path, monkeypatch, our_messages
):
    with monkeypatch.context() as patched:
        patched.setattr(run_steps.steps, "balance", Faults(run_steps.steps.balance, 0, 1))
        with pytest.raises(OSError, match="Input/output"):
            pipelines.convert(pictures, tmp_path / "out")
    made = pipelines.convert(pictures, tmp_path / "out", seed=3)
    assert len([*Path(made.examples).parent.iterdir()]) == 1
    assert any("is removed" in message for message in our_messages())
    assert verify_dataset(made.examples).is_good


def flip(path: Path, *, keeps_time: bool = False) -> None:
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with path.open("r+b") as stream:
        stream.write(data)
    if keeps_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", ["Split-train/*", "index/Split-train/*"])
def test_a_damaged_file_of_the_same_size_is_rebuilt(
    without_tfx, pictures, tmp_path, name, subtests
):
    first = pipelines.convert(pictures, tmp_path / "out")
    (path, *_) = [*Path(first).glob(name), *Path(first).glob(name.replace("Split-train/", ""))]
    flip(path)
    assert not verify_dataset(first).is_good
    again = pipelines.convert(pictures, tmp_path / "out")
    assert not again.cached
    for uri in (again, again.examples):
        with subtests.test(uri=uri):
            assert verify_dataset(uri).is_good
    assert pipelines.convert(pictures, tmp_path / "out").cached


def test_verify_finds_damage_with_unchanged_size_and_time(without_tfx, pictures, tmp_path):
    first = pipelines.convert(pictures, tmp_path / "out")
    flip(next(Path(first).glob("Split-train/*")), keeps_time=True)
    assert pipelines.convert(pictures, tmp_path / "out").cached
    again = pipelines.convert(pictures, tmp_path / "out", verify_output=True)
    assert not again.cached
    assert verify_dataset(again).is_good
    assert pipelines.convert(pictures, tmp_path / "out", verify_output=True).cached


def test_failed_verify_makes_the_next_run_check_sums(without_tfx, pictures, tmp_path):
    first = pipelines.convert(pictures, tmp_path / "out")
    flip(next(Path(first).glob("Split-train/*")), keeps_time=True)
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "out")]).exit_code == 1
    again = pipelines.convert(pictures, tmp_path / "out")
    assert not again.cached
    assert verify_dataset(again).is_good
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "out")]).exit_code == 0
    assert pipelines.convert(pictures, tmp_path / "out").cached


def test_a_damaged_dataset_of_a_failed_run_is_rebuilt(without_tfx, pictures, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(run_steps.steps, "balance", Faults(run_steps.steps.balance, 0, 1))
        with pytest.raises(OSError, match="Input/output"):
            pipelines.convert(pictures, tmp_path / "out")
    flip(next((tmp_path / "out" / EXAMPLES).glob("Split-train/*")), keeps_time=True)
    made = pipelines.convert(pictures, tmp_path / "out")
    assert verify_dataset(made).is_good
    assert verify_dataset(made.examples).is_good
    assert pipelines.convert(pictures, tmp_path / "out").cached


def test_failed_read_makes_the_next_run_check_sums(without_tfx, pictures, tmp_path):
    first = pipelines.convert(pictures, tmp_path / "out")
    flip(next(Path(first).glob("Split-train/*")), keeps_time=True)
    assert CliRunner().invoke(app, ["show", str(first), "-n", "100"]).exit_code == 1
    again = pipelines.convert(pictures, tmp_path / "out")
    assert not again.cached
    assert verify_dataset(again).is_good


def test_only_the_damaged_dataset_is_rebuilt(without_tfx, pictures, tmp_path):
    first = pipelines.convert(pictures, tmp_path / "out")
    path = next(Path(first).glob("Split-train/*"))
    shutil.copy(path, tmp_path / "copy")  # it may be a link to the shard of the other dataset
    path.unlink()
    shutil.move(tmp_path / "copy", path)
    flip(path)
    again = pipelines.convert(pictures, tmp_path / "out")
    assert again != first
    assert again.examples == first.examples
    assert verify_dataset(again).is_good


def test_update_reuses_no_damaged_shard(without_tfx, pictures, tmp_path, our_messages):
    settings = {"target_shard_bytes": 4000}
    first = pipelines.convert(pictures, tmp_path / "out", **settings)
    for path in Path(first.examples).glob("Split-train/*"):
        flip(path)
    (pictures / "a/new.png").write_bytes(photo(99, "PNG", size=(20, 30)))
    made = pipelines.convert(pictures, tmp_path / "out", update=True, **settings)
    assert verify_dataset(made.examples).is_good
    assert any("checksum" in message for message in our_messages())


def test_outputs_of_failed_runs_under_tfx_are_set_aside(tmp_path, subtests):
    def run(number: int, key: str, *, fails: bool) -> Path:
        uri = str(tmp_path / str(number))
        results = Path(working_folder(uri), workspace.RESULTS_FOLDER)
        with workspace.kept_from_launcher(uri), workspace.run_in(uri):
            workspace.prepare_workspace(uri, key=key)
            found = results / "a"
            assert found.exists() == (not fails), number
            results.mkdir(exist_ok=True)
            found.write_text("")
            if fails:
                raise ZeroDivisionError
        return Path(uri)

    for number, key in ((1, "other"), (2, "k")):
        with subtests.test(number=number):
            with pytest.raises(ZeroDivisionError):
                run(number, key, fails=True)
            assert not [*(tmp_path / str(number)).iterdir()]
            shutil.rmtree(tmp_path / str(number))  # like TFX's launcher
            assert {path.name for path in tmp_path.iterdir()} == {f".{number}.unfinished"}
    run(3, "k", fails=False)
    assert {path.name for path in tmp_path.iterdir()} == {"3"}
