"""Find problems in the content of a dataset: copies, leakage, label conflicts, shifts.

from components.auditing.audit import audit_dataset

print(audit_dataset("datasets/photos"))
"""
