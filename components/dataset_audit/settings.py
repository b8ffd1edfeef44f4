"""The settings of DatasetAudit, checked where they are made.

AuditSettings(fail_on=("leakage", "label_conflict"))
"""

import dataclasses
from collections.abc import Sequence

from components.common.settings import ComponentSettings, is_text
from trainer_utils.auditing import KINDS, check_kinds
from trainer_utils.format.settings import number, setting, where

__all__ = ["AuditSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditSettings(ComponentSettings):
    """What ends the run, and what is looked at."""

    fail_on: Sequence[str] = setting(
        (),
        check_kinds,
        f"kinds of findings that fail the run: {', '.join(f'`{kind}`' for kind in KINDS)}.",
    )
    label: str = setting(
        "label", where(is_text, "a feature's name"), "the feature that has the class of a record."
    )
    most: int = setting(
        100, number(0), "findings of each kind that are listed; all of them are counted."
    )
