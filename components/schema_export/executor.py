"""Describes an Examples artifact: a TFMD schema with Datum's JSON beside it."""

import os
import posixpath
from collections.abc import Mapping
from typing import Any

from absl import logging
from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.common.files import is_remote, join, read_text, remove_tree
from components.common.publish import write_feature_files
from components.common.source import Source, open_source, with_facts
from components.common.summaries import working_folder
from components.common.tfmd import (
    check_agreement,
    merge_schema,
    parse_schema,
    schema_from_features,
)
from trainer_utils.format import DatasetError
from trainer_utils.format.naming import SCHEMA_FILE

__all__ = ["Executor"]


class Executor(base_executor.BaseExecutor):
    """Executor of SchemaExport."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Writes the schema.

        Args:
            input_dict: `examples`: the Examples artifact; `schema`: TFX's Schema, optional;
                `statistics`: optional, for the order of the pipeline alone.
            output_dict: `datum_schema`: the Schema artifact to fill.
            exec_properties: none.

        Raises:
            DatasetError: the examples are no dataset, or disagree with the schema.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        artifact = artifact_utils.get_single_instance(output_dict["datum_schema"])
        source = open_source(examples.uri)
        if source.features is None or not source.is_counted:
            source, _ = with_facts(source)
        features = source.features
        assert features is not None
        classes = {name: len(values) for name, values in source.vocabularies.items()}
        schema = schema_from_features(features, num_classes=classes)
        if input_dict.get("schema"):
            path = join(artifact_utils.get_single_uri(input_dict["schema"]), SCHEMA_FILE)
            given = parse_schema(read_text(path), path=path)
            check_agreement(given, features, source=examples.uri)
            schema = merge_schema(given, features, schema)
        write_feature_files(
            artifact.uri,
            features,
            _records_seen_from(artifact.uri, source),
            vocabularies=source.vocabularies,
            schema=schema,
        )
        remove_tree(working_folder(artifact.uri))
        artifact.set_int_custom_property("num_features", len(features))
        logging.info("SchemaExport: %d features (%s)", len(features), artifact.uri)


def _records_seen_from(uri: str, source: Source) -> Mapping[str, Mapping[str, int]]:
    """Records by the path that leads from `uri` to each shard, as Datum joins the two."""
    return {
        split: {_relative(shard.path, uri): shard.records or 0 for shard in shards}
        for split, shards in source.shards.items()
    }


def _relative(path: str, uri: str) -> str:
    if is_remote(path) != is_remote(uri):
        raise DatasetError(
            f"shard {path!r}: expected it on the file system of {uri!r}, since Datum joins a "
            "shard's path to the folder of the JSON. Keep both in one place."
        )
    if is_remote(path):
        return posixpath.relpath(path, uri)
    return os.path.relpath(os.path.realpath(path), os.path.realpath(uri))
