"""The last step of a run: the dataset's small files, `manifest.json` last of all.

publish_dataset(uri, manifest, features, vocabularies={"label": labels}, rejects=rejects)
describe_artifact(artifact, manifest, gzip=False)
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

from absl import logging
from tfx import types
from tfx.components.util import examples_utils
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils

from components.common.files import join, remove_tree, write_text
from components.common.rejects import Reject, render_rejects
from components.common.summaries import working_folder
from components.common.tfmd import render_schema, schema_from_features
from trainer_utils.format import (
    Feature,
    InputError,
    Manifest,
    render_features,
    render_shard_info,
)
from trainer_utils.format.naming import (
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    MANIFEST_FILE,
    REJECTS_FILE,
    SCHEMA_FILE,
    vocabulary_file,
)

__all__ = ["describe_artifact", "package_versions", "publish_dataset", "write_feature_files"]

_PACKAGES = ("tfx-shards", "tfx", "tensorflow", "apache-beam", "pillow")


def package_versions() -> dict[str, str]:
    """Of the packages that shape a dataset's bytes."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def write_feature_files(
    uri: str,
    features: Mapping[str, Feature],
    records_by_shard: Mapping[str, Mapping[str, int]],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    schema: Any = None,
) -> None:
    """Writes vocabularies, Datum's two JSON files and `schema.pbtxt`.

    Args:
        uri: the folder.
        features: by name.
        records_by_shard: for each split, records by path relative to `uri`.
        vocabularies: values by feature; a value's place is its id.
        schema: a TFMD schema to write; None for the one that the features make.
    """
    for feature, values in vocabularies.items():
        text = "".join(f"{value}\n" for value in values)
        try:
            write_text(join(uri, vocabulary_file(feature)), text)
        except UnicodeEncodeError as error:
            raise InputError(
                f"{feature} {error.object[error.start - 20 : error.end]!r}: "
                "expected names in UTF-8. Rename that folder."
            ) from error
    if schema is None:
        sizes = {feature: len(values) for feature, values in vocabularies.items()}
        schema = schema_from_features(features, num_classes=sizes)
    write_text(join(uri, SCHEMA_FILE), render_schema(schema))
    write_text(join(uri, DATUM_TYPES_FILE), render_features(features))
    write_text(join(uri, DATUM_SHARDS_FILE), render_shard_info(records_by_shard))


def publish_dataset(
    uri: str,
    manifest: Manifest,
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    rejects: Iterable[Reject] = (),
) -> None:
    """Makes a dataset of the shards at `uri`, and logs its accounting as the last line."""
    records_by_shard = {
        split: {shard.path: shard.records for shard in manifest.shards_of(split)}
        for split in manifest.splits
    }
    write_feature_files(uri, features, records_by_shard, vocabularies=vocabularies)
    if text := render_rejects(rejects):
        write_text(join(uri, REJECTS_FILE), text)
    remove_tree(working_folder(uri))
    write_text(join(uri, MANIFEST_FILE), manifest.to_json())
    logging.info("%s: %s (%s)", manifest.producer, manifest.total, uri)


def describe_artifact(artifact: types.Artifact, manifest: Manifest, *, gzip: bool) -> None:
    """Fills an Examples artifact's properties: splits, formats, and the accounting in numbers."""
    artifact.split_names = artifact_utils.encode_split_names(list(manifest.splits))
    examples_utils.set_payload_format(artifact, example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE)
    if gzip:  # TFX knows no other file format by name; where none is named its readers look
        examples_utils.set_file_format(artifact, "tfrecords_gzip")
    artifact.set_int_custom_property("num_shards", len(manifest.shards))
    for prefix, accounting in {"": manifest.total, **_prefixed(manifest)}.items():
        for name in ("found", "written", "rejected", "skipped"):
            artifact.set_int_custom_property(prefix + name, getattr(accounting, name))


def _prefixed(manifest: Manifest) -> dict[str, Any]:
    return {f"{split}_": accounting for split, accounting in manifest.accounting.items()}
