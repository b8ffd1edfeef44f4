"""Walk up the calls that led to a function, to see which library makes them.

for frame in frames_above(limit=12):          # of the caller of this function's caller, and so on
    if package_of(frame) == "accelerate": ...
"""

import sys
import types
from collections.abc import Iterator


def frames_above(*, limit: int) -> Iterator[types.FrameType]:
    """Yield the frames that called the caller of the iterating function, the nearest first.

    Reading the locals of a frame keeps them alive, so skip frames by their package first.
    """
    frame: types.FrameType | None = sys._getframe(3)  # this one, the loop's, and its caller's
    for _ in range(limit):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def module_of(frame: types.FrameType) -> str:
    """Return the name of the module that a frame's function is defined in."""
    name: str = frame.f_globals.get("__name__", "")
    return name


def package_of(frame: types.FrameType) -> str:
    """Return the name of the top-level package of a frame."""
    return module_of(frame).partition(".")[0]
