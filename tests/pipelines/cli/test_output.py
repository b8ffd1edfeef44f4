"""What is printed on a terminal, and in a pipe."""

import contextlib
import importlib
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pipelines.cli.app import COMMANDS, app
from tests.terminals import on_a_terminal
from trainer_utils.dataset import files

PROGRESS = """
import sys, time
from pipelines.cli import output
from trainer_utils import step_display
step_display.PATIENCE_SECONDS = {patience}
output._LINE_SECONDS = {line}
with output.show_progress("Verifying") as advance:
    for _ in range(4):
        advance(25, 100)
    while {patience} == 0 and sys.stderr.isatty() and step_display._progress is None:
        time.sleep(0.01)
print("done")
"""


@pytest.mark.parametrize(("patience", "is_shown"), [(0, True), (60, False)])
def test_long_work_has_a_bar_on_a_terminal(patience, is_shown):
    program = PROGRESS.format(patience=patience, line=60)
    status, printed = on_a_terminal(sys.executable, "-c", program)
    assert status == 0
    assert ("Verifying" in printed) == is_shown
    assert ("100%" in printed) == is_shown
    assert printed.rstrip().endswith("done")


def test_a_pipe_gets_no_bar():
    program = PROGRESS.format(patience=0, line=60)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")


def test_a_pipe_gets_a_plain_line_now_and_then():
    program = PROGRESS.format(patience=0, line=0)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"done\n"
    said = [f"Verifying: {share}% after 0 s\n" for share in (25, 50, 75, 100)]
    assert done.stderr.decode() == "".join(said)


def test_no_command_is_without_progress():
    # What bench measures a line that moves would slow down.
    for module in {module for module, _ in COMMANDS.values()} - {"bench_command"}:
        assert hasattr(importlib.import_module(f"pipelines.cli.{module}"), "show_progress"), module


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "DATASET"],
        ["show", "DATASET"],
        ["diff", "DATASET", "DATASET"],
        ["audit", "DATASET"],
        ["plan", "DATASET", "--batch-size", "4"],
        ["doctor", "DATASET"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_work_of_a_command_is_within_its_progress(whole_dataset, monkeypatch, arguments):
    opened = []
    shown = []

    @contextlib.contextmanager
    def record(label):
        shown.append(label)
        yield lambda amount, total: None
        shown.append("end")

    def open_dataset(*given, **options):
        opened.append(len(shown) % 2 == 1)
        return original(*given, **options)

    original = files.find_layout
    module = importlib.import_module(f"pipelines.cli.{COMMANDS[arguments[0]][0]}")
    monkeypatch.setattr(module, "show_progress", record)
    monkeypatch.setattr(files, "find_layout", open_dataset)
    given = [str(whole_dataset) if part == "DATASET" else part for part in arguments]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert opened
    assert all(opened)


def test_tables_are_painted_on_a_terminal_and_plain_in_a_pipe(whole_dataset):
    command = [sys.executable, "-m", "pipelines.cli", "doctor", str(whole_dataset)]
    status, painted = on_a_terminal(*command)
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert status == 0
    assert "\x1b[32mok" in painted
    assert "\x1b" not in piped
    assert "ok    manifest" in piped
    assert [line for line in piped.splitlines() if line.endswith(" ")] == []
