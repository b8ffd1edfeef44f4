"""A process that imports modules once and forks for each program, which saves seconds per program.

    python forks.py tensorflow,trainer_utils tests

It answers each line of JSON: `{"program": …}` with the id of a new process that runs the program,
and `{"status_of": id}` with its exit status, or null while it runs.
"""

import importlib
import json
import os
import runpy
import sys
import traceback
import types
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of imports must not mix with the answers
    modules, tests = sys.argv[1:]
    del sys.path[0]  # the folder of this file
    # `tests` is no package, and another distribution installs one of that name.
    sys.modules["tests"] = package = types.ModuleType("tests")
    package.__path__ = [tests]
    for name in modules.split(","):
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if "program" in request:
            answer = os.fork() or run(**request)
        else:
            ended, status = os.waitpid(request["status_of"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        print(json.dumps(answer), file=answers, flush=True)


def run(program: str, arguments: list[str], environment: dict[str, str], log: str) -> Any:
    """Run a program in this forked process and exit, like `python program arguments`."""
    status = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
