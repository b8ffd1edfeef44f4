"""The logs of a job's workers while they run, and the metrics that the first of them prints.

    logs = WorkerLogs(read_lines, folder)
    logs.follow("train-x-node-0-0-abcde", worker=0, ended=False)
    logs.metrics                        # {"accuracy": 0.93}, of a line `accuracy=0.93`

A worker that is started again loses its pod and the pod's log, so lines are taken as they come.
Each goes to `worker-<index>.log` and, after the worker's number, to this process's own log.
Metrics are lines of nothing but `name=number`, as Katib's collector reads them.
"""

import dataclasses
import logging
import math
import os
import re
import sys
import threading
import time
from collections.abc import Iterable
from typing import Protocol

__all__ = ["ReadLines", "WorkerLogs", "parse_metrics"]

_PAIR = r"([A-Za-z][\w./|-]*)=([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_METRICS = re.compile(rf"{_PAIR}(?:[ ,]+{_PAIR})*")
_END_SECONDS = 60.0


class ReadLines(Protocol):
    """Yields a pod's lines, each with its time before it, until the pod has ended."""

    def __call__(self, pod: str, *, since: str) -> Iterable[str]:
        """Lines that are later than `since`, a time of such a line; empty: all."""


def parse_metrics(line: str) -> dict[str, float]:
    """The metrics of a line of a log; none where there is anything else in it.

    >>> parse_metrics("accuracy=0.93 loss=1e-2")
    {'accuracy': 0.93, 'loss': 0.01}
    """
    if not _METRICS.fullmatch(line.strip()):
        return {}
    found = {name: float(value) for name, value in re.findall(_PAIR, line)}
    return {name: value for name, value in found.items() if math.isfinite(value)}


class WorkerLogs:
    """Follows pods, each in a thread of its own.

    Args:
        folder: where a file for each worker goes; it is made.

    Attributes:
        metrics: the last value of each that worker 0 printed.
    """

    def __init__(self, read_lines: ReadLines, folder: str) -> None:
        self.metrics: dict[str, float] = {}
        self._read_lines, self._folder = read_lines, folder
        self._pods: dict[str, _Pod] = {}
        os.makedirs(folder, exist_ok=True)

    def finish(self) -> None:
        """Waits for what is left of the logs of pods that have ended."""
        deadline = time.monotonic() + _END_SECONDS
        for pod in self._pods.values():
            if pod.thread is not None:
                pod.thread.join(max(0.0, deadline - time.monotonic()))

    def follow(self, name: str, *, worker: int, ended: bool) -> None:
        """Sees to it that a pod is followed; called again and again while there is the pod.

        Args:
            ended: whether it writes no more: what is left is read once.
        """
        pod = self._pods.setdefault(name, _Pod(worker))
        if pod.whole or (pod.thread is not None and pod.thread.is_alive()):
            return
        # Kubernetes ends a connection after some hours, hence again where the pod has not ended.
        pod.thread = threading.Thread(target=self._copy, args=(name, pod, ended), daemon=True)
        pod.thread.start()

    def _copy(self, name: str, pod: "_Pod", ended: bool) -> None:
        path = os.path.join(self._folder, f"worker-{pod.worker}.log")
        try:
            with open(path, "a", encoding="utf-8") as file:
                for line in self._read_lines(name, since=pod.last):
                    moment, _, text = line.partition(" ")
                    pod.last = max(pod.last, moment)
                    file.write(f"{text}\n")
                    print(f"[worker {pod.worker}] {text}", file=sys.stderr, flush=True)
                    if pod.worker == 0:
                        self.metrics |= parse_metrics(text)
            pod.whole = ended
        except Exception as error:  # of the connection; a log that is lost is no reason to fail
            logging.warning("log of %s: %s: %s", name, type(error).__name__, error)


@dataclasses.dataclass
class _Pod:
    """How far a pod has been followed."""

    worker: int
    thread: threading.Thread | None = None
    last: str = ""
    whole: bool = False
