"""Write an audit's findings as files: TFX anomalies for each split, and JSON with all of them.

files_of(audit, fail_on=["leakage"])       # {"findings.json": …, "Split-train/SchemaDiff.pb": …}

Source: `tensorflow_metadata/proto/v0/anomalies.proto`; TFX's ExampleValidator names the files.
"""

import json
from collections.abc import Sequence

from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.auditing.findings import KINDS, Audit, Finding
from trainer_utils.format.naming import SPLIT_PREFIX

FINDINGS_FILE = "findings.json"
_ANOMALIES_FILE = "SchemaDiff.pb"
_MAX_SENTENCES = 10  # in an anomaly's description


def files_of(audit: Audit, fail_on: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of the files by path. Kinds in `fail_on` are errors, others warnings."""
    files = {}
    for split in audit.records:
        findings = [finding for finding in audit.findings if split in finding.splits]
        message = _anomalies(findings, fail_on)
        path = f"{SPLIT_PREFIX}{split}/{_ANOMALIES_FILE}"
        files[path] = message.SerializeToString(deterministic=True)
    listed = audit.to_json()
    del listed["uri"], listed["against"]  # the files must not depend on where the dataset is
    text = json.dumps(listed, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return {**files, FINDINGS_FILE: text.encode("utf-8", "backslashreplace")}


def _anomalies(findings: Sequence[Finding], fail_on: Sequence[str]) -> anomalies_pb2.Anomalies:
    """Return one anomaly for each kind of finding."""
    message = anomalies_pb2.Anomalies()
    for kind in KINDS:
        of_kind = [finding for finding in findings if finding.kind == kind]
        if not of_kind:
            continue
        info = message.anomaly_info[kind]
        info.severity = info.ERROR if kind in fail_on else info.WARNING
        info.short_description = KINDS[kind]
        info.description = "\n".join(str(finding) for finding in of_kind[:_MAX_SENTENCES])
        reason = info.reason.add()
        reason.type = info.CUSTOM_VALIDATION
        reason.short_description, reason.description = info.short_description, info.description
    return message
