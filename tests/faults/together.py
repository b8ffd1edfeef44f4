"""Conversions at the same time: processes forked from one that has imported ML Metadata.

convert_together([{"source": "photos", "out": "out"}, {"source": "texts", "out": "out"}], log)
# [{"uri": "out/artifacts/ShardBalancer/balanced_examples/4"}, {"error": "…", "kinds": […]}]
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS = 300  # after which they count as hanging, whatever the machine's load


def convert_together(conversions: Sequence[Mapping[str, Any]], log: Path) -> list[dict[str, Any]]:
    """What became of each: the uri that it returned, or the error that it raised.

    Args:
        conversions: the arguments of `pipelines.convert`, by name.
        log: gets what they print.
    """
    with log.open("wb") as stderr:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.together"],
            input=json.dumps(list(conversions)).encode(),
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
            timeout=SECONDS,
            check=True,
        )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _serve() -> None:
    import pipelines.tools.conversion.tracking  # noqa: F401  once for all of them

    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    gate, opener = os.pipe()
    children = [_fork(conversion, gate, opener) for conversion in json.load(sys.stdin)]
    os.close(opener)  # which is the start of all
    outcomes = []
    for child, result in children:
        with os.fdopen(result, "rb") as stream:
            outcome = json.loads(stream.read() or b"{}")
        outcomes.append(outcome | {"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])})
    json.dump(outcomes, replies)
    replies.close()


def _fork(conversion: Mapping[str, Any], gate: int, opener: int) -> tuple[int, int]:
    """A process that converts once the gate is opened, and the pipe by which it tells."""
    result, into = os.pipe()
    child = os.fork()
    if child:
        os.close(into)
        return child, result
    os.close(opener)
    try:
        os.read(gate, 1)
        outcome = json.dumps(_convert(conversion)).encode()
        os.write(into, outcome)
    finally:
        os._exit(0)


def _convert(conversion: Mapping[str, Any]) -> dict[str, Any]:
    from pipelines.tools.conversion.convert import convert

    try:
        return {"uri": convert(**conversion)}
    except Exception as error:
        traceback.print_exc()
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"error": str(error)[:4000] or repr(error), "kinds": kinds}


if __name__ == "__main__":
    _serve()
