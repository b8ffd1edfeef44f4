"""Measure how work spreads over more cores than this machine has: sleeping tasks, real processes.

    python benchmarks/many_cores.py --processes 64

The benchmark simulates a conversion of `--photos` small images to `--shards` shards. Each photo
takes 300 µs of a core, and 0.5 µs to be joined. `ParallelShards` makes the parts of shards, then
the shards that join them. `map_tasks` hands both out to new processes. The result is compared with
one core.

The goal: 40 times one core with 64.
"""

import argparse
import tempfile
import time

from components.example_gen import parallel_shards
from components.runtime.runners import Runner, map_tasks
from components.runtime.tasks import Cost, Task

_PHOTO_SECONDS, _JOIN_SECONDS = 300e-6, 0.5e-6


class _ManyCores(Runner):
    def count(self, tasks: int, cost: Cost, paths: object = ()) -> int:
        return min(self.processes, tasks)


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--photos", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--begun", type=float, default=5.0, help="s since the server was started")
    arguments = parser.parse_args()
    each = parallel_shards.parts_of_shard(
        arguments.photos // arguments.shards, shards=arguments.shards, processes=arguments.processes
    )
    alone = arguments.photos * _PHOTO_SECONDS
    parts = [
        Task(f"part-{n}", alone / each / arguments.shards) for n in range(each * arguments.shards)
    ]
    join = arguments.photos / arguments.shards * _JOIN_SECONDS
    shards = [Task(f"shard-{n}", join) for n in range(arguments.shards)]
    runs = _ManyCores(processes=arguments.processes, module="components.example_gen.file_shards")
    with runs as runner, tempfile.TemporaryDirectory() as home:
        time.sleep(arguments.begun)  # simulates listing and planning
        started = time.perf_counter()
        for tasks in (parts, shards):
            map_tasks(time.sleep, tasks, workspace=home, runner=runner)
        seconds = time.perf_counter() - started
    print(f"{len(parts)} parts of {arguments.shards} shards, {arguments.processes} processes")
    print(
        f"{alone:.1f} s of work in {seconds:.1f} s: {alone / seconds:.1f} times one core (goal: 40)"
    )


if __name__ == "__main__":
    main()
