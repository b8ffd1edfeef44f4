"""One guard round the work on one input: whatever a library raises, the run goes on.

    with reject_errors():
        media = store_media(…)      # raises RejectedInputError alone

Its own code knows what each library raises; this is for what nobody knew.
"""

from types import TracebackType

from components.common.rejects import RejectedInputError

__all__ = ["reject_errors"]

_MOST_SHOWN = 200  # characters of what a library says
_PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit)


class reject_errors:
    """Turns every error but `RejectedInputError` into one, of the code INTERNAL.

    It names the exception. Those by which a user or the system ends the process pass. A class,
    since a generator would take three times as long, and cannot take StopIteration.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, (RejectedInputError, *_PASSING)):
            return
        raise RejectedInputError("INTERNAL", _shown(error)) from error


def _shown(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())[:_MOST_SHOWN]
    except Exception:  # it cannot even say what it is
        return name
    return f"{name}: {text}" if text else name
