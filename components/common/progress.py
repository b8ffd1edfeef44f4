"""Shows how far the shards of a run are: a bar on a terminal, elsewhere a log line a minute.

with show_progress(uri, {"train-00000": Work(records=1400, bytes=134_000_000)}, unit="images"):
    run_the_pipeline()

It looks at the summaries that workers leave (see `summaries`), so any runner will do.
"""

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Iterator, Mapping

from absl import logging

from components.common.summaries import finished_names, working_folder
from trainer_utils.format.printable import printable
from trainer_utils.step_display import show_step
from trainer_utils.storage import is_remote
from trainer_utils.storage.waiting import waiting_note

__all__ = ["Work", "show_progress"]

_POLL_SECONDS = {False: 0.5, True: 10.0}  # by whether the folder is remote: a listing has a price
_LOG_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Work:
    """What one summary stands for: `records`, and `bytes` to read."""

    records: int
    bytes: int


@contextlib.contextmanager
def show_progress(uri: str, work: Mapping[str, Work], *, unit: str) -> Iterator[None]:
    """Shows progress until the block ends.

    Args:
        unit: what records are called, such as `images`.
    """
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(uri, work, unit, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(uri: str, work: Mapping[str, Work], unit: str, ended: threading.Event) -> None:
    total = sum(part.records for part in work.values())
    started = last_logged = time.monotonic()
    with show_step(unit.capitalize()) as step:
        while not ended.wait(_POLL_SECONDS[is_remote(uri)]):
            finished = [work[n] for n in finished_names(working_folder(uri)) if n in work]
            records = sum(part.records for part in finished)
            now = time.monotonic()
            megabytes = sum(part.bytes for part in finished) / 1e6 / (now - started)
            step.update(records, total, note=f"{records:,}/{total:,}, {megabytes:.0f} MB/s")
            if not sys.stderr.isatty() and now - last_logged >= _LOG_SECONDS:
                last_logged = now
                logging.info(_line(records, total, unit, megabytes, now - started))


def _line(records: int, total: int, unit: str, megabytes: float, seconds: float) -> str:
    left = f"{seconds / records * (total - records):.0f} s" if records else "unknown"
    waits = f", {printable(note)}" if (note := waiting_note()) else ""
    return f"{records} of {total} {unit}, {megabytes:.0f} MB/s, time left: {left}{waits}"
