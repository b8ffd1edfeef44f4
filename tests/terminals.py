"""Processes on a real terminal, created by `pty`."""

import os
import pty
import subprocess


def on_a_terminal(*command: str) -> tuple[int, str]:
    """Run a process with a terminal as stdout and stderr; return its exit status and output."""
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
        except OSError:  # raised on Linux once no process has the terminal open
            pass
    os.close(leader)
    return process.returncode, printed.decode()
