"""What is amiss in a dataset: copies, leakage between splits, conflicts of labels, shifts.

from components.auditing import audit_dataset

print(audit_dataset("datasets/photos"))
"""

from typing import TYPE_CHECKING, Any

from components.auditing.findings import KINDS, Finding, RecordName, check_kinds

if TYPE_CHECKING:
    from components.auditing.audit import Audit, audit_dataset

__all__ = ["KINDS", "Audit", "Finding", "RecordName", "audit_dataset", "check_kinds"]


def __getattr__(name: str) -> Any:
    if name not in ("Audit", "audit_dataset"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from components.auditing import audit  # which brings Pillow; kinds alone need it not

    return getattr(audit, name)
