"""What is printed on a terminal (a real one, by `pty`), and in a pipe."""

import os
import pty
import subprocess
import sys

import pytest

PROGRESS = """
from pipelines.cli import output
from pipelines.cli.output import show_progress
output._PATIENCE_SECONDS = {patience}
with show_progress("Verifying") as advance:
    for _ in range(4):
        advance(25, 100)
print("done")
"""


def on_a_terminal(*command):
    """The exit status of a process whose stdout and stderr are a terminal, and what it printed."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        printed = b""
        try:
            while block := os.read(leader, 1 << 16):
                printed += block
        except OSError:  # how Linux ends a terminal that nobody has open any more
            pass
    os.close(leader)
    return process.returncode, printed.decode()


@pytest.mark.parametrize(("patience", "is_shown"), [(0, True), (60, False)])
def test_long_work_has_a_bar_on_a_terminal(patience, is_shown):
    program = PROGRESS.format(patience=patience)
    status, printed = on_a_terminal(sys.executable, "-c", program)
    assert status == 0
    assert ("Verifying" in printed) == is_shown
    assert ("100%" in printed) == is_shown
    assert printed.rstrip().endswith("done")


def test_a_pipe_gets_no_bar():
    program = PROGRESS.format(patience=0)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"done\n", b"")


def test_tables_are_painted_on_a_terminal_and_plain_in_a_pipe(whole_dataset):
    command = [sys.executable, "-m", "pipelines.cli", "doctor", str(whole_dataset)]
    status, painted = on_a_terminal(*command)
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert status == 0
    assert "\x1b[32mok" in painted
    assert "\x1b" not in piped
    assert "ok    python" in piped
    assert [line for line in piped.splitlines() if line.endswith(" ")] == []
