"""Calls of `map_tasks` as elements of Beam: a task goes to a worker by name, with a file.

call_on_beam(pipeline, call, tasks)

A plan of a million inputs is too large for the graphs that runners take.
"""

import pickle
from collections.abc import Sequence
from typing import Any

import apache_beam as beam

from components.common.tasks import Call, Task
from trainer_utils.format import DatasetError
from trainer_utils.format.printable import printable
from trainer_utils.storage import join, make_folder, read_bytes, write_atomically

_TASKS = "tasks"


def call_on_beam(pipeline: beam.Pipeline, call: Call, tasks: Sequence[Task]) -> list[Any]:
    """What `call` returns for each task, in their order; each is an element.

    Raises:
        DatasetError: what a worker raised, in place of what a runner makes of it; or a result is
            missing.
    """
    names = [task.name for task in tasks]
    make_folder(join(call.workspace, _TASKS))
    for task in tasks:
        path = join(call.workspace, f"{_TASKS}/{task.name}")
        with write_atomically(path, temporary_folder=call.workspace) as stream:
            stream.write(pickle.dumps(task))
    try:
        with pipeline:
            _ = (
                pipeline
                | "Create" >> beam.Create(names)
                | "Spread" >> beam.Reshuffle()
                | "Call" >> beam.ParDo(_CallFn(call))
            )
    except Exception as error:
        told = call.reported()
        if told is None or str(error) == printable(str(told)):
            raise
        raise told from error
    call.check_finished(names)
    return [call.read(name) for name in names]


class _CallFn(beam.DoFn):
    def __init__(self, call: Call) -> None:
        self._call = call

    def process(self, name: str) -> None:
        try:
            task = pickle.loads(read_bytes(join(self._call.workspace, f"{_TASKS}/{name}")))
        except FileNotFoundError:
            raise self._call.unshared() from None  # and nothing is written there
        try:
            self._call(task)
        except DatasetError as error:
            self._call.report(name, error)
            raise
        beam.metrics.Metrics.counter("tfx_shards", "tasks").inc()
