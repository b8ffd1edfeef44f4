"""Start fresh Python interpreters that answer over a socket and import no main module.

    process, connection = start_interpreter("trainer_utils.reading.processes")
    connection.send_bytes(pickle_importable(request))       # `serve(descriptor)` there receives it

So they work in a notebook and after `python -c`, and a script needs no `if __name__ == "__main__"`.
"""

import io
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

_START = (
    # Ctrl-C reaches the whole group: the process that started this one ends it.
    # `_signal` is built in: the working folder, which is on the path here, may have a `signal.py`,
    # or a `json.py`. So it leaves the path before `json` is imported.
    "import _signal; _signal.signal(_signal.SIGINT, _signal.SIG_IGN); "
    "_signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT]); "
    "import posix, sys; posix.nice(int(sys.argv[4])); sys.path[:] = filter(None, sys.path); "
    "import json; sys.path[:] = json.loads(sys.argv[2]); "
    "import importlib; importlib.import_module(sys.argv[3]).serve(int(sys.argv[1]))"
)


def start_interpreter(
    module: str,
    *,
    niceness: int = 0,
    environment: Mapping[str, str] | None = None,
    stderr: int | None = None,
) -> tuple["subprocess.Popen[bytes]", Connection]:
    """Start an interpreter that calls the function `serve` of a module.

    Args:
        module: the module. Its `serve` gets the descriptor of the other end of the connection.
        niceness: how much lower its priority is, 0 to 19.
        environment: variables to set there, in addition to the variables of this process.
        stderr: as for `subprocess.Popen`.

    Returns:
        The process, and this end of the connection.
    """
    here, there = socket.socketpair()
    with there:
        arguments = [sys.executable, "-c", _START, str(there.fileno()), json.dumps(sys.path)]
        # Blocked until the child ignores it, so that Ctrl-C never ends it with a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process = subprocess.Popen(
                [*arguments, module, str(niceness)],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                env=None if environment is None else {**os.environ, **environment},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process, Connection(here.detach())


def pickle_importable(value: Any) -> bytes:
    """Pickle a value for another interpreter.

    Raises:
        pickle.PicklingError: it has functions or classes of the main module.
    """
    payload = io.BytesIO()
    _Importable(payload).dump(value)
    return payload.getvalue()


class _Importable(pickle.Pickler):
    """A pickler that raises PicklingError for functions and classes of the main module."""

    def reducer_override(self, value: Any) -> Any:
        """Raise for a value that the other process would look up in its own main module."""
        if getattr(value, "__module__", None) == "__main__" and hasattr(value, "__qualname__"):
            raise pickle.PicklingError("one of the main module")
        return NotImplemented
