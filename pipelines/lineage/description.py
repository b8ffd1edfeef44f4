"""What is known of one artifact: how it was made, what was made from it, where a record is.

lineage = describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4", record="cat/1.jpg")
print(lineage)
lineage.to_json()["made_by"]["settings"]
"""

import dataclasses
import os
import posixpath
from collections.abc import Iterator

from components.report.records import Place, find_places, name_features
from pipelines.lineage.graph import DATASET_TYPE, Id, Lineage, RecordStep
from pipelines.lineage.lookup import look_up
from trainer_utils.dataset import open_dataset
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.json_text import JsonObject, json_lines
from trainer_utils.format.naming import NAME_FEATURES, REJECTS_FILE
from trainer_utils.storage import display_path, exists, is_folder, join, read_text


def describe_artifact(
    uri: str, *, metadata: str | None = None, record: str | None = None
) -> Lineage:
    """Looks up how an artifact came to be, and what came of it.

    Of datasets of ours that no store has, their own files tell how they came to be.

    Args:
        uri: of the artifact.
        metadata: a sqlite file or `grpc://host:port`; a folder with such a file, or below which
            datasets are. None for a store in a folder above the uri, and for the dataset and those
            that it was made from where none has it.
        record: the `filename` or `id` of one record to be looked for in the dataset and in those
            that it was made from.

    Raises:
        ConfigError: `metadata` or `record` is not allowed.
        InputError: there is no such store or artifact, or the record is in none of the datasets.
    """
    if record == "":
        raise ConfigError.of("record", record, allowed="the filename or id of a record")
    found = look_up(uri, metadata=metadata)
    if record is None:
        return found
    artifacts = found.artifacts
    places = [*found.ancestors(found.artifact_id), found.artifact_id]
    datasets = [i for i in places if artifacts[i].type == DATASET_TYPE or i in found.summaries]
    steps = [_search(place, artifacts[place].uri, record) for place in datasets]
    if not any(step.outcome in ("found", "rejected") for step in steps):
        told = "; ".join(f"{artifacts[s.artifact].uri}: {s.outcome}, {s.detail}" for s in steps)
        raise InputError(
            f"record {record!r}: expected the filename or id of a record of {uri!r}, the path "
            f"relative to the input base or file:row, found none. {told or 'It is no dataset.'}"
        )
    bases = (base for place in datasets for base in _bases(found, place))
    source = next((join(base, record) for base in bases), None)
    return dataclasses.replace(found, record=record, source=source, steps=steps)


def _search(artifact: Id, uri: str, name: str) -> RecordStep:
    """Looks for one name among the shards and the rejects of a dataset."""
    places, rejects, outcome = list[Place](), list[JsonObject](), "unknown"
    detail = f"its files are gone ({uri})"
    try:
        if is_folder(uri):
            dataset, path = open_dataset(uri), join(uri, REJECTS_FILE)
            entries = json_lines(read_text(path), path=path) if exists(path) else ()
            rejects = [entry for entry in entries if entry.get("source") == display_path(name)]
            features, places = name_features(dataset), find_places(dataset, name)
            if places or rejects:
                outcome, detail = "found" if places else "rejected", ""
            elif features:
                outcome, detail = "not found", f"no record has this {' or '.join(features)}"
                if dataset.manifest and (skipped := dataset.manifest.total.skipped):
                    detail += f"; {skipped} inputs were skipped by a setting, which are not listed"
            else:
                wanted = " nor ".join(sorted(NAME_FEATURES))
                detail = (
                    f"its records have no feature that says what they are from: neither {wanted}"
                )
    except (ValueError, OSError) as error:
        detail, rejects = f"it cannot be read: {error}", []
    return RecordStep(
        artifact=artifact, outcome=outcome, detail=detail, places=places, rejects=rejects
    )


def _bases(found: Lineage, artifact: Id) -> Iterator[str]:
    """What an artifact's examples were made from, by the settings of what made it."""
    for maker in found.makers(artifact)[:1]:
        roots = maker.settings.get("image_roots")
        for base in (maker.settings.get("input_base"), *(roots if isinstance(roots, list) else ())):
            if isinstance(base, str) and base:
                yield posixpath.dirname(base) if os.path.isfile(base) else base
