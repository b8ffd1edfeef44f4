"""Rejected inputs: each is counted, and a line of `rejects.jsonl` says why."""

import collections
import dataclasses
import json
from collections.abc import Iterable, Sequence
from types import TracebackType

from trainer_utils.format import InputError
from trainer_utils.format.printable import printable_json
from trainer_utils.storage import display_path, is_fault

_SHOWN = 10
_MOST_SHOWN = 200  # characters of what a library says
# What is missing on the machine is no input's doing either.
_PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit, ImportError)


class RejectedInputError(Exception):
    """One input cannot become an example; `code` is a fixed upper-case word.

    Not of the family of `DatasetError`, which ends a run: this one is counted, and the run goes on.
    """

    def __init__(self, code: str, detail: str, *, name: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.name = name

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


@dataclasses.dataclass(frozen=True, order=True)
class Reject:
    """One rejected input: its split, where it is from, a fixed upper-case code, and a sentence."""

    split: str
    source: str
    code: str
    detail: str


def render_rejects(rejects: Iterable[Reject]) -> str:
    """`rejects.jsonl` as text, sorted, with escapes for what a reader may take for more lines."""
    return "".join(
        printable_json(
            json.dumps(
                {**dataclasses.asdict(reject), "source": display_path(reject.source)},
                ensure_ascii=False,
                sort_keys=True,
            )
        )
        + "\n"
        for reject in sorted(rejects)
    )


def check_reject_fraction(
    rejects: Sequence[Reject], *, found: int, max_reject_fraction: float, listed_in: str
) -> None:
    """Refuses a run that left out more than `max_reject_fraction` of what it found."""
    if len(rejects) <= max_reject_fraction * found:
        return
    codes = collections.Counter(reject.code for reject in rejects)
    first = "; ".join(
        f"{display_path(reject.source)}: {reject.code} ({reject.detail})"
        for reject in sorted(rejects)[:_SHOWN]
    )
    raise InputError(
        f"{len(rejects)} of {found} inputs were rejected "
        f"({', '.join(f'{count} {code}' for code, count in sorted(codes.items()))}), more than "
        f"max_reject_fraction={max_reject_fraction:g} allows. The first: {first}. "
        f"All are listed in {listed_in}. Mend or remove them, or raise max_reject_fraction."
    )


class reject_errors:
    """Turns every error but `RejectedInputError` into one, of the code INTERNAL.

    It names the exception. Those by which a user or the system ends the process pass, a library
    that is not installed, and faults of the machine, for which `persist` within makes the call
    again. A class, since a generator would take three times as long, and cannot take StopIteration.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, (RejectedInputError, *_PASSING)) or is_fault(error):
            return
        raise RejectedInputError("INTERNAL", _shown(error)) from error


def _shown(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())[:_MOST_SHOWN]
    except Exception:  # it cannot even say what it is
        return name
    return f"{name}: {text}" if text else name
