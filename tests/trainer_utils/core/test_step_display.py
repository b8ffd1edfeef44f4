"""The progress of long work: shown on a terminal only."""

import subprocess
import sys

from tests.terminals import on_a_terminal

HEAD = """
import sys, threading, time
from trainer_utils.core import step_display
from trainer_utils.core.step_display import show_step
step_display.PATIENCE_SECONDS = 0

def wait():
    while sys.stderr.isatty() and step_display._progress is None:
        time.sleep(0.01)
    time.sleep(0.3)      # more than one drawing
"""


def run_on_a_terminal(program: str) -> tuple[int, str]:
    return on_a_terminal(sys.executable, "-c", HEAD + program)


NESTED = """
with show_step("Converting") as outer:
    wait()
    with show_step("[red]Images") as inner:
        inner.update(30, 120, note="53 MB/s [b]")
        wait()
    wait()
    outer.update(1, 2)
print("done")
"""


def test_steps_share_the_terminal_and_leave_nothing_behind(subtests):
    status, printed = run_on_a_terminal(NESTED)
    assert status == 0
    shown, _, after = printed.rpartition("\x1b[2K")  # the last line that is erased
    for part in ("Converting", "[red]Images", "25%", "53 MB/s [b]", "50%"):
        with subtests.test(part=part):
            assert part in shown
    assert "Converting" not in after
    assert after.rstrip().endswith("done")
    assert printed.count("\x1b[?25l") == printed.count("\x1b[?25h") > 0  # the cursor is back


def test_a_pipe_gets_nothing():
    done = subprocess.run(
        [sys.executable, "-c", HEAD + NESTED], capture_output=True, check=True, text=True
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_an_error_ends_the_display_and_propagates():
    status, printed = run_on_a_terminal(
        'with show_step("Failing"):\n    wait()\n    raise KeyError("inside")\n'
    )
    assert status == 1
    assert "Traceback" in printed.rpartition("\x1b[?25h")[2]
    assert "KeyError: 'inside'" in printed


def test_steps_may_come_and_go_from_any_thread():
    program = """
def come_and_go():
    for number in range(25):
        with show_step(f"Step {number}") as step:
            step.update(number, 25)
workers = [threading.Thread(target=come_and_go) for _ in range(4)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
assert step_display._steps == []
assert step_display._progress is None
print("done")
"""
    status, printed = run_on_a_terminal(program)
    assert status == 0, printed
    assert printed.rstrip().endswith("done")
