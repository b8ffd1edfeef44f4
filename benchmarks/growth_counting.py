"""Count the CPU seconds of a process, its calls that read, write or open files, and its bytes.

    before = cost_now()
    …
    (cost_now() - before).calls

The kernel counts reads, writes and their bytes, Python's audit events the files opened. A store
counts its requests and bytes itself.
"""

import dataclasses
import sys
import time
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Cost:
    """CPU seconds, calls, and bytes read and written."""

    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            self.seconds - other.seconds, self.calls - other.calls, self.bytes - other.bytes
        )


_started = Cost()
_store: tuple[int, int] | None = None
_opened = 0


def _on_audit_event(event: str, _: object) -> None:
    global _opened
    if event == "open":
        _opened += 1


sys.addaudithook(_on_audit_event)


def cost_now() -> Cost:
    """Return the cost of this process and of the ended processes that it waited for."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    counts = {name: int(value) for name, value in fields.items()}
    calls = counts["syscr"] + counts["syscw"] + _opened
    return Cost(time.process_time(), calls, counts["rchar"] + counts["wchar"])


def start_counting() -> None:
    """Exclude everything used so far from the case's cost."""
    global _started, _store
    _started, _store = cost_now(), None


def report_store(requests: int, num_bytes: int) -> None:
    """Count the requests to a store and its bytes instead of local ones."""
    global _store
    _store = requests, num_bytes


def counted() -> Cost:
    """Return the cost since `start_counting`."""
    cost = cost_now() - _started
    if _store is not None:
        return Cost(cost.seconds, *_store)
    return cost
