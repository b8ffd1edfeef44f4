"""The properties of an audit for ML Metadata and for Kubeflow's store."""

import json

from components.auditing.findings import Audit
from components.runtime.artifact_properties import SPLIT_NAMES, Properties


def properties_of_audit(audit: Audit) -> Properties:
    """Return findings by kind and, like ExampleValidator, whether each split has no findings."""
    blessed = {
        split: int(all(split not in finding.splits for finding in audit.findings))
        for split in audit.records
    }
    return {
        SPLIT_NAMES: json.dumps(list(audit.records)),
        "blessed": blessed,
        "num_findings": sum(audit.counts.values()),
        "is_blessed": int(not audit.counts),
        **{f"num_{kind}": count for kind, count in audit.counts.items()},
    }
