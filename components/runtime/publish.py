"""Publish the result of a run: metadata files, `manifest.json` last, lineage and artifact
properties.

The properties are for ML Metadata and for Kubeflow's store. The same inputs and settings give the
same files, in any run, with any runner, at any destination.
"""

import contextlib
import functools
import hashlib
import json
import posixpath
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from components.inputs.rejects import Reject, render_rejects
from components.runtime.component_settings import ExecProperties
from components.runtime.workspace import check_ownership, meets_another
from trainer_utils import storage
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.extras import installed_version
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.core.printable import printable
from trainer_utils.dataset import Dataset
from trainer_utils.format import Feature, Manifest
from trainer_utils.format.input_listing import InputListing
from trainer_utils.format.manifest import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.format.naming import (
    INPUTS_FILE,
    LINEAGE_FILE,
    LISTING_FILE,
    REJECTS_FILE,
    check_inner_path,
)
from trainer_utils.writing.publishing import publish, verify_shard, working_folder

_PACKAGES = ("tfx-shards", "pillow")  # not TFX or Beam: the result is the same without
ZLIB = "zlib"  # Python's own, which is not a package

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

Properties = dict[str, int | str | dict[str, int]]
SPLIT_NAMES = "split_names"  # TFX's own property, which its artifacts declare
_MAX_CHARACTERS = 64 << 10  # ML Metadata reads all properties whenever it reads one


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
    given = [(name, dataset) for name, datasets in (inputs or {}).items() for dataset in datasets]
    step = Step(
        component=producer,
        settings=_settings(exec_properties),
        inputs=tuple(DatasetInput(name=name, digest=dataset.digest) for name, dataset in given),
        output=output,
    )
    ancestors: dict[str, Ancestor] = {}
    for _, dataset in given:
        origin, manifest = _origin_of(dataset), dataset.manifest
        own = Ancestor(
            digest=dataset.digest,
            summary=None if manifest is None else DatasetSummary.of(manifest),
            made_by=None if origin is None else origin.made_by,
        )
        for ancestor in (*(() if origin is None else origin.ancestors), own):
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


def package_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of the packages that affect a dataset's bytes, by name.

    Args:
        packages: packages that the settings or inputs of this dataset need in addition to the ones
            of every dataset; may include `ZLIB`.
    """
    return {
        name: zlib.ZLIB_RUNTIME_VERSION if name == ZLIB else installed_version(name)
        for name in (*_PACKAGES, *sorted({*packages} - {*_PACKAGES}))
    }


def write_artifact(uri: str, files: Mapping[str, bytes]) -> None:
    """Write the files of an artifact that is not a dataset, each atomically."""
    folder = working_folder(uri)
    storage.make_folder(folder)
    for path, content in files.items():
        target = storage.join(uri, check_inner_path(path))
        storage.make_folder(posixpath.dirname(target))
        with storage.write_atomically(target, temporary_folder=folder) as stream:
            stream.write(content)
    storage.remove_tree(folder)


def publish_dataset(
    uri: str,
    manifest: Manifest,
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    rejects: Iterable[Reject] = (),
    origin: Origin | None = None,
    inputs: str = "",
    listing: InputListing | None = None,
) -> None:
    """Turn the shards at `uri` into a dataset, and log its accounting as the last line.

    All files are on the disk before the manifest is renamed, and so is the rename afterwards.

    Args:
        uri: the folder of the dataset.
        manifest: the manifest, without the metadata files.
        features: the features by name.
        vocabularies: values by feature; the index of a value is its id.
        rejects: inputs that were rejected.
        origin: the content of the lineage file. None: no such file.
        inputs: the content of `inputs.json`. Empty: no such file.
        listing: the identity of the dataset by its inputs. None: its records have another order.

    Raises:
        DatasetError: another run writes there by now; its files are not touched.
    """
    check_ownership(uri)
    if meets_another(uri):
        for shard in manifest.shards:
            verify_shard(shard, uri=uri)
    text = render_rejects(rejects)
    beside = {} if origin is None else {LINEAGE_FILE: origin.to_json()}
    if inputs:
        beside[INPUTS_FILE] = inputs
    if listing is not None:
        beside[LISTING_FILE] = listing.to_json(manifest.contents)
    publish(
        uri,
        manifest,
        features,
        vocabularies=vocabularies,
        others={REJECTS_FILE: text} if text else {},
        beside=beside,
        check=functools.partial(check_ownership, uri),
    )
    counts = [
        f"{n} {what}" for what, n in manifest.config.get("update", {}).items() if what != "base"
    ]
    changes = f"; {', '.join(counts)}" if counts else ""
    logging.info("%s: %s%s (%s)", manifest.producer, manifest.total, changes, printable(uri))


def run_key(*known: object, packages: Iterable[str] = ()) -> str:
    """Return a digest of everything that a result depends on. A run resumes another with its key.

    Args:
        known: everything else than versions that the result depends on.
        packages: packages whose versions matter, as for `package_versions`.
    """
    versions = [f"{name} {version}" for name, version in package_versions(packages).items()]
    text = json.dumps([*known, *versions], default=repr, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# Properties of artifacts, by name -----------------------------------------------------------------


def properties_of_dataset(
    manifest: Manifest, vocabularies: Mapping[str, Sequence[str]], *, gzip: bool
) -> Properties:
    """Return splits, formats, vocabularies, and the accounting of the dataset and each split."""
    found: Properties = {
        SPLIT_NAMES: json.dumps(list(manifest.splits)),
        "payload_format": "FORMAT_TF_EXAMPLE",
        "num_shards": len(manifest.shards),
    }
    if gzip:  # TFX has no other format name; without one its readers detect it
        found["file_format"] = "tfrecords_gzip"
    for feature, values in vocabularies.items():
        text = json.dumps(values, ensure_ascii=False)
        if len(text) <= _MAX_CHARACTERS:  # otherwise only the file has it
            found[f"vocabulary_{feature}"] = text
    by_split = {f"{split}_": accounting for split, accounting in manifest.accounting.items()}
    for prefix, accounting in {"": manifest.total, **by_split}.items():
        for name in ("found", "written", "rejected", "skipped"):
            found[prefix + name] = getattr(accounting, name)
    return found


def properties_of_export(num_features: int, datum_limits: Sequence[str]) -> Properties:
    """Return the number of features, and the limits of Datum that the features exceed."""
    limits: Properties = {"datum_limits": "\n".join(datum_limits)} if datum_limits else {}
    return {"num_features": num_features, **limits}
