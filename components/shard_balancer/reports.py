"""What workers tell the executor: what they wrote, or the bad data that they met.

    with reported(uri, "gather-train-00000"):
        …

Beam would bury an error's message in a worker's traceback, so it crosses as a summary.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from components.common.summaries import read_summaries, working_folder, write_summary
from trainer_utils.format import CorruptShardError, DatasetError

__all__ = ["raise_reported", "reported"]


@contextlib.contextmanager
def reported(uri: str, name: str) -> Iterator[None]:
    """Keeps a `DatasetError` as the summary of that name."""
    try:
        yield
    except DatasetError as error:
        is_corrupt = isinstance(error, CorruptShardError)
        # What was found first is the cause; a later step only sees that something is missing.
        summary = {"error": str(error), "is_corrupt": is_corrupt, "step": name.split("-")[0]}
        write_summary(working_folder(uri), name, summary)


def raise_reported(uri: str, steps: tuple[str, ...]) -> list[dict[str, Any]]:
    """All summaries.

    Args:
        uri: of the dataset that is being written.
        steps: the steps in the order in which they run.

    Raises:
        DatasetError: a worker met bad data; the error of the earliest step.
    """
    summaries = read_summaries(working_folder(uri))
    errors: list[Mapping[str, Any]] = [s for s in summaries if "error" in s]
    if errors:
        first = min(errors, key=lambda error: steps.index(error["step"]))
        raise (CorruptShardError if first["is_corrupt"] else DatasetError)(first["error"])
    return summaries
