"""What an artifact's properties tell of it, in ML Metadata and in Kubeflow's, by name.

of_dataset(manifest, vocabularies, gzip=False)["written"]     # 600
"""

import json
from collections.abc import Mapping, Sequence

from components.auditing import Audit
from trainer_utils.format import Manifest

Properties = dict[str, int | str | dict[str, int]]
SPLIT_NAMES = "split_names"  # TFX's own, which its artifacts declare
_MOST_CHARACTERS = 64 << 10  # ML Metadata reads all properties whenever it reads one


def of_dataset(
    manifest: Manifest, vocabularies: Mapping[str, Sequence[str]], *, gzip: bool
) -> Properties:
    """Splits, formats, vocabularies, and the accounting of all and of each split."""
    found: Properties = {
        SPLIT_NAMES: json.dumps(list(manifest.splits)),
        "payload_format": "FORMAT_TF_EXAMPLE",
        "num_shards": len(manifest.shards),
    }
    if gzip:  # TFX knows no other file format by name; where none is named its readers look
        found["file_format"] = "tfrecords_gzip"
    for feature, values in vocabularies.items():
        text = json.dumps(values, ensure_ascii=False)
        if len(text) <= _MOST_CHARACTERS:  # else it is in the file alone
            found[f"vocabulary_{feature}"] = text
    by_split = {f"{split}_": accounting for split, accounting in manifest.accounting.items()}
    for prefix, accounting in {"": manifest.total, **by_split}.items():
        for name in ("found", "written", "rejected", "skipped"):
            found[prefix + name] = getattr(accounting, name)
    return found


def of_audit(audit: Audit) -> Properties:
    """How much was found, by kind; and by split whether nothing was, as ExampleValidator does."""
    blessed = {
        split: int(all(split not in one.splits for one in audit.findings))
        for split in audit.records
    }
    return {
        SPLIT_NAMES: json.dumps(list(audit.records)),
        "blessed": blessed,
        "num_findings": sum(audit.counts.values()),
        "is_blessed": int(not audit.counts),
        **{f"num_{kind}": count for kind, count in audit.counts.items()},
    }


def of_export(num_features: int, datum_limits: Sequence[str]) -> Properties:
    """How many features there are, and what Datum would not read as it is."""
    limits: Properties = {"datum_limits": "\n".join(datum_limits)} if datum_limits else {}
    return {"num_features": num_features, **limits}
