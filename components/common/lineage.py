"""What a step writes down of itself and of the datasets that it read, for `lineage.json`.

origin = make_origin("ShardBalancer", exec_properties, output="balanced_examples",
                     inputs={"examples": opened_datasets})
publish_dataset(uri, manifest, features, vocabularies=vocabularies, origin=origin)

The same inputs and settings make the same, in whatever run, by whatever runner, to whatever place.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib import metadata

from absl import logging

from components.common.settings import ExecProperties
from trainer_utils.dataset import Dataset
from trainer_utils.format import DatasetError
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.format.naming import LINEAGE_FILE
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.storage import display_path, exists, is_fault, join, read_text

_PACKAGES = ("tfx-shards", "pillow")  # neither TFX nor Beam: with and without is the same

_OF_NO_OUTCOME = (  # settings and properties that change the way, or that only some runners have
    "memory_bytes",
    "dataset_root",
    "input_fingerprint",  # of TFX's driver: it knows files by their times; the manifest has another
    "changes_fingerprint",
    "base_dataset",
    "add",  # datasets, which the inputs name by their digests
    "exclude",  # lists of any length, of which the manifest has the digests
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
    """How a dataset comes to be: this step, and all before it as its inputs tell them.

    Args:
        output: the name of the output that the dataset is.
        inputs: the datasets that are read, by the input's name.
    """
    given = [(name, dataset) for name, datasets in (inputs or {}).items() for dataset in datasets]
    step = Step(
        component=producer,
        settings=_settings(exec_properties),
        inputs=tuple(DatasetInput(name=name, digest=dataset.digest) for name, dataset in given),
        output=output,
    )
    ancestors: dict[str, Ancestor] = {}
    for _, dataset in given:
        for ancestor in _with_ancestors(dataset):
            ancestors.setdefault(ancestor.digest, ancestor)
    return Origin(made_by=step, ancestors=tuple(ancestors.values()))


def _settings(exec_properties: ExecProperties) -> JsonObject:
    """Settings that say something, JSON in texts as what it says: so does a store tell them."""
    given = {
        name: value
        for name, value in exec_properties.items()
        if value not in (None, "") and not name.startswith("__") and name not in _OF_NO_OUTCOME
    }
    return {name: _plain(value) for name, value in sorted(given.items())}


def _plain(value: Json, *, parses: bool = True) -> Json:
    if isinstance(value, str):
        if parses and value[:1] in ("{", "["):
            with contextlib.suppress(ValueError):
                return _plain(json.loads(value), parses=False)
        return _text(value)
    if isinstance(value, Mapping):
        items = sorted(value.items())
        return {_text(str(name)): _plain(inner, parses=False) for name, inner in items}
    if isinstance(value, (list, tuple)):
        return [_plain(inner, parses=False) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float)) else _text(str(value))


def _text(value: str) -> str:
    """A text that can be written down anywhere: as UTF-8, and without a url's password."""
    return _PASSWORD.sub(r"\1@", display_path(value))


def _with_ancestors(dataset: Dataset) -> list[Ancestor]:
    """A dataset after those that it was made from."""
    origin = _origin_of(dataset)
    own = Ancestor(
        digest=dataset.digest,
        summary=None if dataset.manifest is None else DatasetSummary.of(dataset.manifest),
        made_by=None if origin is None else origin.made_by,
    )
    return [*(() if origin is None else origin.ancestors), own]


def _origin_of(dataset: Dataset) -> Origin | None:
    """What the dataset says of itself; a file that cannot be read does not stop the work."""
    path = join(dataset.uri, LINEAGE_FILE)
    try:
        return Origin.from_json(read_text(path), path=path) if exists(path) else None
    except (DatasetError, OSError) as error:
        if is_fault(error):
            raise
        logging.warning("lineage: it begins with %s: %s", display_path(dataset.uri), error)
        return None


def package_versions() -> dict[str, str]:
    """Of the packages that shape a dataset's bytes."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions
