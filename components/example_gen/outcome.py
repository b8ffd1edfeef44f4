"""Whether the outcome of a conversion is good: rejects within bounds, some examples written.

check_outcome(conversion, plan, rejects, written=99, uri=uri)
"""

from collections.abc import Sequence
from typing import Any

from components.common.rejects import Reject, check_reject_fraction, render_rejects
from components.common.workspace import working_folder
from components.example_gen.conversion import Conversion
from components.example_gen.plan import Plan
from components.example_gen.simple_layouts import names_at_top
from trainer_utils.format import InputError
from trainer_utils.storage.files import list_names, write_text

__all__ = ["check_outcome"]


def check_outcome(
    conversion: Conversion[Any],
    plan: Plan,
    rejects: Sequence[Reject],
    *,
    written: int,
    uri: str,
) -> None:
    """Refuses too many rejects. TFX removes a failed run's output, so the list goes beside it.

    Raises:
        InputError: there are too many, or no example is left.
    """
    listed_in = f"{uri.rstrip('/')}.rejects.jsonl"
    base, settings = conversion.located.base, conversion.settings
    try:
        check_reject_fraction(
            rejects,
            found=plan.found,
            max_reject_fraction=settings.max_reject_fraction,
            listed_in=listed_in,
        )
        if not written:
            raise InputError(
                f"input_base {base!r}: expected {conversion.unit}, found none that can be read"
                f"{_why_none(plan, rejects)}.",
                path=base,
            )
    except InputError as error:
        write_text(listed_in, render_rejects(rejects), temporary_folder=working_folder(uri))
        if settings.layout == "auto" and not written:
            top = names_at_top(list_names(base))
            searched = f"Looked for {conversion.looked_for}; at its top: {top}."
            raise InputError(f"{error} {searched}") from None
        raise


def _why_none(plan: Plan, rejects: Sequence[Reject]) -> str:
    if rejects:
        first = rejects[0]
        return f" ({len(rejects)} rejected, first {first.source!r}: {first.code}, {first.detail})"
    return "" if plan.found else " (a table that has a header alone has none)"
