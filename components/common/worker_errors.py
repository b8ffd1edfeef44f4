"""How a Beam worker sends an error home: as its summary, with the class and data that it has.

    with report_errors(uri, "gather-train-00000"):          # in the worker
        …
    with raising_reported(uri):                             # in the executor
        pipeline.run()

It ends the run at once, as any error does; but Beam would bury the message in a worker's traceback,
and make another error of it.
"""

import contextlib
from collections.abc import Iterator

from components.common.summaries import (
    check_shared,
    read_summaries,
    working_folder,
    write_summary,
)
from trainer_utils.format import DatasetError
from trainer_utils.format.errors import error_from_json, error_to_json
from trainer_utils.format.printable import printable

__all__ = ["raising_reported", "report_errors"]


@contextlib.contextmanager
def report_errors(uri: str, name: str) -> Iterator[None]:
    """Keeps a `DatasetError` as the summary of that name as well.

    Raises:
        ConfigError: this worker does not see what the executor does.
        DatasetError: the one that was raised.
    """
    check_shared(uri)
    try:
        yield
    except DatasetError as error:
        write_summary(working_folder(uri), name, {"error": error_to_json(error)})
        raise


@contextlib.contextmanager
def raising_reported(uri: str) -> Iterator[None]:
    """Raises what a worker sent home, in place of what a runner made of it.

    Raises:
        DatasetError: as it was raised there; of several the first by name.
    """
    try:
        yield
    except Exception as error:
        reported = [s["error"] for s in read_summaries(working_folder(uri)) if "error" in s]
        # Without Beam it comes as it was; Beam adds to the message, and leaves the data behind.
        if not reported or str(error) in [printable(told["message"]) for told in reported]:
            raise
        raise error_from_json(reported[0]) from error
