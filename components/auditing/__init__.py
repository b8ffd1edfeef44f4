"""Find problems in the content of a dataset: copies, leakage, label conflicts, shifts.

from components.auditing import audit_dataset

print(audit_dataset("datasets/photos"))
"""

from components.auditing.audit import (
    KINDS,
    Audit,
    Finding,
    RecordName,
    audit_dataset,
    check_kinds,
)

__all__ = ["KINDS", "Audit", "Finding", "RecordName", "audit_dataset", "check_kinds"]
