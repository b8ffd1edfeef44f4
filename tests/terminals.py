"""Processes on a terminal, a real one by `pty`."""

import os
import pty
import subprocess


def on_a_terminal(*command: str) -> tuple[int, str]:
    """The exit status of a process whose stdout and stderr are a terminal, and what it printed."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "PYTHON_COLORS": "0"}
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
