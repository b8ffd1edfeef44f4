"""Make the properties of artifacts, for ML Metadata and for Kubeflow's store."""

import json
from collections.abc import Mapping, Sequence

from trainer_utils.format import Manifest

Properties = dict[str, int | str | dict[str, int]]

SPLIT_NAMES = "split_names"  # TFX's own property, which its artifacts declare

_MAX_CHARACTERS = 64 << 10  # ML Metadata reads all properties whenever it reads one


def properties_of_dataset(
    manifest: Manifest, vocabularies: Mapping[str, Sequence[str]], *, gzip: bool
) -> Properties:
    """Return splits, formats, vocabularies, and the accounting of the dataset and each split."""
    properties: Properties = {
        SPLIT_NAMES: json.dumps(list(manifest.splits)),
        "payload_format": "FORMAT_TF_EXAMPLE",
        "num_shards": len(manifest.shards),
    }
    if gzip:  # TFX has no other format name; without one its readers detect it
        properties["file_format"] = "tfrecords_gzip"
    for feature, values in vocabularies.items():
        text = json.dumps(values, ensure_ascii=False)
        if len(text) <= _MAX_CHARACTERS:  # otherwise only the file has it
            properties[f"vocabulary_{feature}"] = text
    by_split = {f"{split}_": accounting for split, accounting in manifest.accounting.items()}
    for prefix, accounting in {"": manifest.total, **by_split}.items():
        for name in ("found", "written", "rejected", "skipped"):
            properties[prefix + name] = getattr(accounting, name)
    return properties


def properties_of_export(num_features: int, datum_limits: Sequence[str]) -> Properties:
    """Return the number of features, and the limits of Datum that the features exceed."""
    limits: Properties = {"datum_limits": "\n".join(datum_limits)} if datum_limits else {}
    return {"num_features": num_features, **limits}
