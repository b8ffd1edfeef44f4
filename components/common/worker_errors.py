"""How a Beam worker sends an error home: as its summary, with the class and data that it has.

    with report_errors(uri, "gather-train-00000"):          # in the worker
        …
    raise_reported_error(read_summaries(folder), STEPS)      # in the executor

Beam would bury the message in a worker's traceback, and make another error of it.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from components.common.summaries import check_shared, working_folder, write_summary
from trainer_utils.format import DatasetError
from trainer_utils.format.errors import error_from_json, error_to_json
from trainer_utils.format.json_text import Json

__all__ = ["raise_reported_error", "report_errors"]


@contextlib.contextmanager
def report_errors(uri: str, name: str) -> Iterator[None]:
    """Keeps a `DatasetError` as the summary of that name, which begins with its step's and `-`.

    Raises:
        ConfigError: this worker does not see what the executor does.
    """
    check_shared(uri)
    try:
        yield
    except DatasetError as error:
        summary = {"error": error_to_json(error), "step": name.partition("-")[0]}
        write_summary(working_folder(uri), name, summary)


def raise_reported_error(summaries: Iterable[Mapping[str, Json]], steps: Sequence[str]) -> None:
    """Raises what a worker sent home.

    Args:
        steps: in the order in which they run.

    Raises:
        DatasetError: as it was raised there; that of the earliest step, since a later one only sees
            that something is missing.
    """
    errors = [summary for summary in summaries if "error" in summary]
    if errors:
        first = min(errors, key=lambda summary: steps.index(summary["step"]))
        raise error_from_json(first["error"])
