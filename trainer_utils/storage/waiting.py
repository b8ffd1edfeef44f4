"""What this process waits for: requests to stores that have had no answer for a while.

    with asking("s3://bucket/photos/1.jpg"):
        ...                                # a request, with all its attempts
    waiting_note()                         # 'waiting for s3://bucket/photos/1.jpg, 7 s'

The libraries below try again by themselves and do not say how often, so what is known is how long.
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["asking", "waiting_note"]

PATIENCE_SECONDS = 3.0
"""How long an answer may take before anything is said."""

_numbers = itertools.count()
_asked: dict[int, tuple[float, str]] = {}  # when, and for what; single operations are atomic


@contextmanager
def asking(url: str) -> Iterator[None]:
    """Notes that an answer about a url is waited for, until the block ends."""
    number = next(_numbers)
    _asked[number] = time.monotonic(), url
    try:
        yield
    finally:
        del _asked[number]


def waiting_note() -> str:
    """Says what has been waited for longest, and how long; empty where answers come soon."""
    since, url = min(_asked.copy().values(), default=(0.0, ""))
    seconds = time.monotonic() - since
    return f"waiting for {url}, {seconds:.0f} s" if url and seconds >= PATIENCE_SECONDS else ""
