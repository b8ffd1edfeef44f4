"""Show the progress of long work on a terminal or in a notebook, one line per step.

    with show_step("Verifying") as step:
        step.update(4096, total=total_bytes)

Nothing is shown for short steps, nor if stderr is no terminal.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing rich takes 50 ms, too long for short steps
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 0.3
_REFRESHES = 4  # per second: drawing takes a millisecond from the work

_lock = threading.Lock()
# A terminal supports one live display, so all steps of this process share it.
_steps: list[Step] = []
_progress: Progress | None = None
_timer: threading.Timer | None = None


class Step:
    """A running step.

    Args:
        label: the text to show. It is not escaped, so it must not come from data.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._line: tuple[Progress, TaskID] | None = None
        self._facts: dict[str, Any] = {"completed": 0.0, "total": None, "note": ""}

    def update(self, done: float, total: float | None = None, *, note: str = "") -> None:
        """Report progress.

        Args:
            done: the finished part, in any unit.
            total: the whole, if known.
            note: a short remark, such as `53 MB/s`.
        """
        self._facts = {"completed": done, "total": total, "note": note}
        if (line := self._line) is not None:
            line[0].update(line[1], **self._facts)

    def _attach(self, progress: Progress) -> None:
        self._line = progress, progress.add_task(self._label, **self._facts)


@contextlib.contextmanager
def show_step(label: str) -> Iterator[Step]:
    """Show a step on a terminal until the block ends."""
    global _progress, _timer
    step = Step(label)
    has_widgets = _is_notebook() and importlib.util.find_spec("ipywidgets") is not None
    if not (sys.stderr.isatty() or has_widgets):
        yield step
        return
    with _lock:
        _steps.append(step)
        if _progress is not None:
            step._attach(_progress)
        elif _timer is None:
            _timer = threading.Timer(PATIENCE_SECONDS, _start)
            _timer.daemon = True
            _timer.start()
    try:
        yield step
    finally:
        with _lock:
            _steps.remove(step)
            if _steps and step._line is not None:
                (progress, task), step._line = step._line, None
                progress.remove_task(task)
            elif not _steps:
                if _timer is not None:
                    _timer.cancel()
                if _progress is not None:
                    _progress.stop()
                _timer = _progress = None


def say(text: str) -> None:
    """Print a message to a terminal or notebook; do nothing elsewhere."""
    if _is_notebook():
        print(text)  # notebooks show stderr as an error
    elif sys.stderr.isatty():
        print(text, file=sys.stderr)


def _is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, whose stderr is no terminal."""
    ipython = sys.modules.get("IPython")
    return hasattr(None if ipython is None else ipython.get_ipython(), "kernel")


def _start() -> None:
    """Start the display in the timer's thread, unless all steps have ended."""
    global _progress
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        refresh_per_second=_REFRESHES,
        transient=True,
        redirect_stdout=False,
    )
    with _lock:
        if _timer is not threading.current_thread():  # all steps have ended in the meantime
            return
        _progress = progress
        for step in _steps:
            step._attach(progress)
        progress.start()
