"""SchemaExport: what a dataset holds, as TFX, Datum and others want it told.

schema = SchemaExport(examples=balanced.outputs["balanced_examples"])
schema.outputs["datum_schema"]      # for ExampleValidator, Transform, Trainer, Evaluator, …
schema.outputs["datum_dataset"]     # for Datum's load(uri), and for everybody else
"""

import dataclasses
import itertools
import os
import posixpath
import re
from collections.abc import Mapping

from absl import logging
from tfx import types
from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.experimental import simple_artifacts

from components.common.component import (
    Runtime,
    channel,
    checked_properties,
    examples_channel,
    parameters_of,
)
from components.common.publish import write_artifact
from components.common.settings import Artifacts, ExecProperties
from components.common.statistics import read_statistics
from components.common.tfmd import (
    adopt_shapes,
    check_agreement,
    features_from_schema,
    merge_schema,
    parse_schema,
    render_schema,
    schema_from_features,
)
from components.schema_export.agreement import check_facts, check_statistics
from components.schema_export.limits import datum_limits
from components.settings import SchemaExportSettings
from trainer_utils.dataset import Dataset, open_dataset, read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import DatasetError, Feature
from trainer_utils.format.json_schema import render_example_schema
from trainer_utils.format.naming import EXAMPLE_SCHEMA_FILE, SCHEMA_FILE
from trainer_utils.format.tfds import (
    TFDS_FEATURES_FILE,
    TFDS_INFO_FILE,
    labels_file,
    render_tfds_features,
    render_tfds_info,
)
from trainer_utils.storage import is_remote, join, read_text
from trainer_utils.writing.publishing import describing_texts

__all__ = ["Executor", "SchemaExport"]

_TFDS_NAME = "dataset"
_NUMBERED = re.compile(r"(?P<head>.*-)\d{5,}-of-\d{5,}$")


class Executor(base_executor.BaseExecutor):
    """Executor of SchemaExport."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Writes the schema.

        Args:
            input_dict: `examples`: the Examples artifact; `schema`: TFX's Schema, optional;
                `statistics`: TFX's ExampleStatistics, optional.
            output_dict: `datum_schema`: the Schema artifact to fill, with `schema.pbtxt` alone, as
                TFX's own components want it; `datum_dataset`: the Dataset artifact, with that and
                all else. Where there is only the first, all goes there.
            exec_properties: the settings, as `SchemaExportSettings` makes them.

        Raises:
            DatasetError: the examples are no dataset, or disagree with the schema or statistics.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        artifact = artifact_utils.get_single_instance(output_dict["datum_schema"])
        given_place = output_dict.get("datum_dataset")
        dataset = artifact_utils.get_single_instance(given_place) if given_place else artifact
        source, facts, is_whole = _look(open_dataset(examples.uri, inspect=False))
        features = dict(source.features)
        schema = schema_from_features(features, vocabularies=source.vocabularies, texts=facts.texts)
        if input_dict.get("schema"):
            path = join(artifact_utils.get_single_uri(input_dict["schema"]), SCHEMA_FILE)
            given = parse_schema(read_text(path), path=path)
            check_agreement(given, features, source=examples.uri)
            if is_whole:
                check_facts(given, facts, source=examples.uri)
            features = adopt_shapes(given, features)
            schema = merge_schema(given, features, schema)
            features = _with_schema(features, features_from_schema(schema))
        if input_dict.get("statistics"):
            statistics = read_statistics(artifact_utils.get_single_uri(input_dict["statistics"]))
            check_statistics(statistics, features, source.records, source=examples.uri)
        others = {
            EXAMPLE_SCHEMA_FILE: render_example_schema(features, vocabularies=source.vocabularies)
        }
        if SchemaExportSettings.from_properties(exec_properties).tfds:
            others |= _tfds_files(source, features, dataset.uri)
        texts = describing_texts(
            features,
            _records_seen_from(dataset.uri, source),
            vocabularies=source.vocabularies,
            schema=render_schema(schema),
        )
        files = {path: text.encode() for path, text in (texts | others).items()}
        write_artifact(dataset.uri, files)
        notes = datum_limits(features, [shard.path for shard in source.shard_files])
        _describe(artifact, features, notes)
        if dataset is not artifact:
            write_artifact(artifact.uri, {SCHEMA_FILE: files[SCHEMA_FILE]})
            _describe(dataset, features, notes)
        for note in notes:
            logging.warning("SchemaExport: %s", note)
        logging.info("SchemaExport: %d features (%s)", len(features), dataset.uri)


def _look(source: Dataset) -> tuple[Dataset, DatasetFacts, bool]:
    """All records where the dataset does not say what it holds, else some of each split.

    Returns:
        The source with features and counts, what was found, and whether all records were read.
    """
    if not (source.says_features and source.is_counted):
        return *source.with_facts(takes_lists=False), True
    facts = DatasetFacts()
    for shard in (group[0] for group in source.shards.values() if group):
        for block in itertools.islice(read_shard_blocks(shard.path), 1):
            facts.add(block, path=shard.path, takes_lists=False)
    return source, facts, False


def _with_schema(
    features: Mapping[str, Feature], described: Mapping[str, Feature]
) -> dict[str, Feature]:
    """The features, each with what only TFMD can say of it."""
    return {
        name: dataclasses.replace(
            feature,
            extra={
                **feature.extra,
                **{k: v for k, v in described[name].extra.items() if k == "tfmd"},
            },
        )
        for name, feature in features.items()
    }


def _records_seen_from(uri: str, source: Dataset) -> Mapping[str, Mapping[str, int]]:
    """Records by the path that leads from `uri` to each shard, as Datum joins the two."""
    return {
        split: {_path_from(uri, shard.path): shard.num_records for shard in shards}
        for split, shards in source.shards.items()
    }


def _path_from(uri: str, path: str) -> str:
    """Relative on a disk; whole for a url, since object stores know no `..`."""
    if is_remote(path):
        inside = path.startswith(uri.rstrip("/") + "/")
        return posixpath.relpath(path, uri) if inside else path
    if is_remote(uri):
        raise DatasetError(
            f"shard {path!r}: expected it on the file system of {uri!r}, since Datum joins a "
            "shard's path to the folder of the JSON. Keep both in one place.",
            path=path,
        )
    return os.path.relpath(os.path.realpath(path), os.path.realpath(uri))


def _tfds_files(source: Dataset, features: Mapping[str, Feature], uri: str) -> dict[str, str]:
    """What `tfds.builder_from_directory` opens."""
    splits = {}
    for split, shards in source.shards.items():
        found = {_NUMBERED.fullmatch(_path_from(uri, shard.path)) for shard in shards}
        heads = {match["head"] for match in found if match is not None}
        if None in found or len(heads) != 1:
            raise DatasetError(
                f"split {split!r}: expected shards called …-00000-of-{len(shards):05d}, not "
                f"compressed, for TFDS, got {shards[0].path if shards else 'none'!r}. "
                "Export what ShardBalancer writes, with compression='none'."
            )
        records = [shard.num_records for shard in shards]
        num_bytes = sum(shard.bytes for shard in shards)
        splits[split] = (heads.pop() + "{SHARD_X_OF_Y}", records, num_bytes)
    classes = {name: len(values) for name, values in source.vocabularies.items()}
    labels = {
        labels_file(name): "".join(f"{value}\n" for value in values)
        for name, values in source.vocabularies.items()
    }
    return {
        TFDS_FEATURES_FILE: render_tfds_features(features, classes=classes),
        TFDS_INFO_FILE: render_tfds_info(_TFDS_NAME, splits),
        **labels,
    }


def _describe(artifact: types.Artifact, features: Mapping[str, Feature], notes: list[str]) -> None:
    artifact.set_int_custom_property("num_features", len(features))
    if notes:
        artifact.set_string_custom_property("datum_limits", "\n".join(notes))


class SchemaExportSpec(types.ComponentSpec):
    """The component's parameters, inputs and outputs."""

    PARAMETERS = parameters_of(SchemaExportSettings)
    INPUTS = {
        "examples": examples_channel(),
        "schema": channel(standard_artifacts.Schema, optional=True),
        "statistics": channel(standard_artifacts.ExampleStatistics, optional=True),
    }
    OUTPUTS = {
        "datum_schema": channel(standard_artifacts.Schema),
        "datum_dataset": channel(simple_artifacts.Dataset),
    }


class SchemaExport(base_component.BaseComponent):
    """Writes what an Examples artifact holds: `schema.pbtxt` for TFX, two JSON files for Datum.

    TFX's components take a Schema whose folder holds one file and no other, Datum wants two in
    one folder: hence two outputs. Beside Datum's is `example.schema.json`, a JSON Schema of the
    parsed example. What Datum cannot express stands in the log and in the property
    `datum_limits`, with the cure.

    Outputs:
        datum_schema: TFX's `Schema`: `schema.pbtxt` alone.
        datum_dataset: TFX's `Dataset`: that and all else. Datum's `load` of its uri opens the
            shards of the examples.
    """

    SPEC_CLASS = SchemaExportSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        schema: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
        tfds: bool | Runtime = SchemaExportSettings.tfds,
    ) -> None:
        """Makes the component.

        Args:
            examples: an Examples artifact: ours, Datum's, or a stock ExampleGen's.
            schema: TFX's Schema of them; where the two disagree the run fails and names the
                feature. Default: made from the examples.
            statistics: TFX's ExampleStatistics of them; where the two disagree the run fails and
                names the feature.
            tfds: write TFDS's two JSON files too, so that `tfds.builder_from_directory` opens the
                uri of `datum_dataset`.

        Raises:
            ConfigError: a setting is not allowed.
        """
        spec = SchemaExportSpec(
            examples=examples,
            schema=schema,
            statistics=statistics,
            datum_schema=types.Channel(type=standard_artifacts.Schema),
            datum_dataset=types.Channel(type=simple_artifacts.Dataset),
            **checked_properties(SchemaExportSettings, locals()),
        )
        super().__init__(spec=spec)
