"""`plan`: what each worker will read, worked out before anything is read.

    print(plan(uri, "train", workers=8, batch_size=256, remainder="pad"))

A plan that is impossible raises, with the setting to change.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from trainer_utils.dataset.opening import FileRange
from trainer_utils.dataset.selection import digest_of, open_sources
from trainer_utils.format.file_ranges import cut
from trainer_utils.format.printable import printable
from trainer_utils.options import InputOptions, chosen_options
from trainer_utils.order.layout import EQUAL, Layout
from trainer_utils.order.mixing import mixed_ranges
from trainer_utils.order.state import first_state, given_state

__all__ = ["SINGLES_AT_ONCE", "InputPlan", "WorkerPlan", "layout_of", "plan"]

SINGLES_AT_ONCE = 64  # single examples are read so many at a time, which is three times as fast


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """What one worker reads in an epoch.

    Args:
        worker: its number, from 0.
        records: examples that it yields.
        steps: the same for all workers.
        dropped: records of its share that it leaves out, others next epoch where it shuffles.
        padded: rows of weight 0 that it adds.
        shards: the parts of files that it reads.
    """

    worker: int
    records: int
    steps: int
    dropped: int
    padded: int
    shards: Sequence[FileRange]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputPlan:
    """What all workers read in an epoch. As text it is a table.

    Args:
        records: that there are.
        batch_size: of the global batch.
        steps: of an epoch.
        workers: what each reads.
    """

    records: int
    batch_size: int
    steps: int
    workers: Sequence[WorkerPlan]

    @property
    def dropped(self) -> int:
        """Records that no worker yields in an epoch."""
        return sum(worker.dropped for worker in self.workers)

    @property
    def padded(self) -> int:
        """Rows of weight 0 in an epoch."""
        return sum(worker.padded for worker in self.workers)

    def to_dict(self) -> dict[str, Any]:
        """The plan as what JSON can hold."""
        return {**dataclasses.asdict(self), "dropped": self.dropped, "padded": self.padded}

    def __str__(self) -> str:
        lines = [
            f"{self.records} records in global batches of {self.batch_size}: {self.steps} steps, "
            f"{self.dropped} records dropped, {self.padded} rows padded",
            "worker   records    steps  dropped   padded  shards",
        ]
        for one in self.workers:
            lines.append(
                f"{one.worker:6} {one.records:9} {one.steps:8} {one.dropped:8} {one.padded:8}"
                f"  {len(one.shards)}"
            )
            lines += [
                f"{'':43}  {printable(part.path)} [{part.skip}:{part.skip + part.take}]"
                for part in one.shards
            ]
        return "\n".join(lines)


def plan(
    artifact_uri: Any,
    split: str | None = None,
    *,
    workers: int = 1,
    replicas: int | None = None,
    options: InputOptions | None = None,
    **settings: Any,
) -> InputPlan:
    """Works out what each worker will read.

    Args:
        artifact_uri, split, options, settings: as `input_fn` takes them.
        workers: how many.
        replicas: of all workers together, a multiple of the workers. None: one each.

    Returns:
        The plan. Without `shuffle`, and with `"global"`, workers have no ranges of their own, so
        that each one's shards are all shards.

    Raises:
        ConfigError: the plan is impossible, such as a batch that the workers cannot share; or
            `state` is not a token to go on from.
        DatasetError: as `input_fn`.
    """
    own = ("split", "workers", "replicas", "options")
    chosen = chosen_options(options, settings, of="plan", also=own)
    sources = open_sources(artifact_uri, split)
    ranges = mixed_ranges(sources, chosen.weights)
    num_records = sum(part.take for part in ranges)
    layout = layout_of(num_records, chosen, workers=workers, replicas=replicas or workers)
    first_state(chosen, layout, digest_of(sources))  # a token that does not fit is refused
    reads_ranges = chosen.batch_size is None if not chosen.shuffle else chosen.shuffle != "global"
    return InputPlan(
        records=layout.num_records,
        batch_size=layout.batch_size,
        steps=layout.steps * chosen.echoing,
        workers=[
            WorkerPlan(
                worker=worker,
                records=share.used,
                steps=layout.steps * chosen.echoing,
                dropped=share.dropped,
                padded=share.padded,
                shards=cut(ranges, share.start, share.stop) if reads_ranges else ranges,
            )
            for worker, share in enumerate(map(layout.share, range(workers)))
        ],
    )


def layout_of(num_records: int, options: InputOptions, *, workers: int, replicas: int) -> Layout:
    """The layout of an epoch under these options; in the lanes of the token, where there is one."""
    if options.batch_size is None:
        size = workers * SINGLES_AT_ONCE
        return Layout(
            num_records=num_records, batch_size=size, num_workers=workers, remainder=EQUAL
        )
    size = options.batch_size
    if replicas < workers:  # a context that does not know its replicas: a whole batch each
        size, replicas = size // replicas * workers, workers
    remainder = options.remainder
    if options.drop_remainder:
        remainder = "drop"
        num_records = num_records if num_records >= size else 0
    token = given_state(options)
    return Layout(
        num_records=num_records,
        batch_size=size,
        num_workers=workers,
        num_replicas=replicas,
        remainder=remainder,
        num_lanes=token.num_lanes if token and size % token.num_lanes == 0 else 0,
    )
