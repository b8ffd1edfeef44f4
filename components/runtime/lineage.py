"""Make the lineage of a dataset: its step, and all earlier steps from the lineage of its inputs."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from components.runtime.component_settings import ExecProperties
from trainer_utils import storage
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.dataset import Dataset
from trainer_utils.format.lineage import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.format.naming import (
    LINEAGE_FILE,
)

_OF_NO_OUTCOME = (  # settings that only change how a run works, or that only some runners have
    "memory_bytes",
    "dataset_root",
    "input_fingerprint",  # set by TFX's driver from file times; the manifest's differs
    "changes_fingerprint",
    "base_dataset",
    "add",  # datasets, which the inputs identify by digest
    "exclude",  # lists of any length, whose digests are in the manifest
    "relabel",
)

_PASSWORD = re.compile(r"(?<=://)([^/@:\s]*):[^/@\s]*@")


def make_origin(
    producer: str,
    exec_properties: ExecProperties,
    *,
    output: str,
    inputs: Mapping[str, Sequence[Dataset]] | None = None,
) -> Origin:
    """Return the lineage of a dataset: this step, and all earlier steps from its inputs' lineage.

    Args:
        producer: the component of this step.
        exec_properties: the settings of this step.
        output: the name of the output.
        inputs: the input datasets, by the name of the input.
    """
    named_inputs = [
        (name, dataset) for name, datasets in (inputs or {}).items() for dataset in datasets
    ]
    step = Step(
        component=producer,
        settings=_settings(exec_properties),
        inputs=tuple(
            DatasetInput(name=name, digest=dataset.digest) for name, dataset in named_inputs
        ),
        output=output,
    )
    ancestors: dict[str, Ancestor] = {}
    for _, dataset in named_inputs:
        origin, manifest = _origin_of(dataset), dataset.manifest
        parent = Ancestor(
            digest=dataset.digest,
            summary=None if manifest is None else DatasetSummary.of(manifest),
            made_by=None if origin is None else origin.made_by,
        )
        for ancestor in (*(() if origin is None else origin.ancestors), parent):
            ancestors.setdefault(ancestor.digest, ancestor)
    return Origin(made_by=step, ancestors=tuple(ancestors.values()))


def _settings(exec_properties: ExecProperties) -> JsonObject:
    """Return the settings that have a value. JSON strings are parsed, as stores return them."""
    settings: JsonObject = {}
    for name, value in sorted(exec_properties.items()):
        if value in (None, "") or name.startswith("__") or name in _OF_NO_OUTCOME:
            continue
        if isinstance(value, str) and value[:1] in ("{", "["):
            with contextlib.suppress(ValueError):
                value = json.loads(value)
        settings[name] = _plain(value)
    return settings


def _plain(value: Any) -> Json:
    if isinstance(value, Mapping):
        return {_text(name): _plain(inner) for name, inner in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [*map(_plain, value)]
    return value if value is None or isinstance(value, (bool, int, float)) else _text(value)


def _text(value: object) -> str:
    """Return a string that is valid UTF-8 and has no password of a url."""
    return _PASSWORD.sub(r"\1@", storage.display_path(str(value)))


def _origin_of(dataset: Dataset) -> Origin | None:
    """Read a dataset's lineage. If its file cannot be read, log a warning and return None."""
    path = storage.join(dataset.uri, LINEAGE_FILE)
    if not storage.exists(path):
        return None
    try:
        return Origin.from_json(storage.read_text(path), path=path)
    except (DatasetError, OSError) as error:
        if storage.is_host_error(error):
            raise
        logging.warning("lineage: it begins with %s: %s", storage.display_path(dataset.uri), error)
        return None
