"""Run a step on kfp's artifacts, without TFX. The bodies of the `kfp.dsl` components call this.

    run_step("image_example_gen", parameters_and_artifacts)      # all arguments of the component

All reads and writes use the local paths that Kubeflow's launcher copies from and to, so any store
that the launcher supports will do.
"""

import functools
import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from components import steps
from components.auditing.properties import properties_of_audit
from components.balancing.settings import BalancerSettings
from components.example_gen.input_selection import ALL_FILES, InputSelection
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.kubeflow.arguments import (
    check_input_base,
    hashed_splits,
    split_patterns,
    step_settings,
    whole_numbers,
)
from components.kubeflow.artifacts import (
    find_dataset,
    page_folder,
    place_dataset,
    short_metadata,
    write_reference,
)
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings

if TYPE_CHECKING:
    from kfp import dsl

_Given = dict[str, Any]


def run_step(component: str, given: _Given) -> None:
    """Run a component by name in its container, with all its parameters and artifacts."""
    os.environ.setdefault("HOME", tempfile.gettempdir())  # for users unknown to the image
    _RUN[component](given)


def _example_gen(kind: type[Any], given: _Given) -> None:
    """Convert raw inputs."""
    output, root = given.pop("examples"), given.pop("dataset_root")
    source, base = given.pop("source"), given.pop("input_base")
    patterns, splits, split_by = (given.pop(n) for n in ("input_patterns", "splits", "split_by"))
    settings = step_settings(kind, given)
    check_input_base(base, has_source=source is not None)
    selection = InputSelection(
        base=base or source.path,
        patterns=split_patterns(patterns) or ALL_FILES,
        partition=hashed_splits(whole_numbers("splits", splits), split_by),
    )
    _write_dataset(output, root, lambda uri: steps.convert(selection, uri, settings))


def _shard_balancer(given: _Given) -> None:
    """Rewrite one or more datasets as one."""
    examples = [*filter(None, _uris(given, "examples", "more_examples"))]
    output, root = given.pop("balanced_examples"), given.pop("dataset_root")
    if by_split := given.pop("shards_by_split"):
        given["num_shards"] = by_split
    settings = step_settings(BalancerSettings, given)
    _write_dataset(output, root, lambda uri: steps.balance(examples, uri, settings))


def _schema_export(given: _Given) -> None:
    """Describe a dataset in two artifacts."""
    examples, schema, statistics = _uris(given, "examples", "schema", "statistics")
    outputs = [given.pop(name) for name in ("datum_schema", "datum_dataset")]
    exported = steps.export_schema(
        str(examples),
        outputs[1].path,
        schema=schema,
        statistics=statistics,
        tfds=step_settings(SchemaExportSettings, given).tfds,
        schema_uri=outputs[0].path,
    )
    for output in outputs:
        output.metadata.update(short_metadata(exported.properties))


def _dataset_audit(given: _Given) -> None:
    """Audit a dataset, and write the number of findings."""
    examples, against = _uris(given, "examples", "against")
    output, count_path = given.pop("anomalies"), given.pop("num_findings")
    settings = step_settings(AuditSettings, given)
    audit = steps.audit(str(examples), output.path, settings, against=against)
    output.metadata.update(short_metadata(properties_of_audit(audit)))
    steps.check_findings(audit, settings.fail_on, output.path)
    with open(count_path, "w") as stream:
        stream.write(str(sum(audit.counts.values())))


def _dataset_report(given: _Given) -> None:
    """Write a dataset's page as a file."""
    examples, statistics, schema = _uris(given, "examples", "statistics", "schema")
    with page_folder(given.pop("report").path) as folder:
        settings = step_settings(DatasetReportSettings, given)
        steps.report(str(examples), folder, settings, statistics=statistics, schema=schema)


def _write_dataset(
    output: "dsl.Dataset", root: str, write: Callable[[str], steps.DatasetResult]
) -> None:
    """Write a dataset to an artifact, or below `root`, and describe it in the metadata."""
    uri = place_dataset(output.path, output.uri, root)
    result = write(uri)
    output.metadata.update(
        short_metadata(result.properties),
        records=result.manifest.total.written,
        shards=len(result.manifest.shards),
        splits=list(result.manifest.splits),
        rejects=result.manifest.total.rejected,
    )
    if uri != output.path:
        output.metadata["dataset_uri"] = uri
        write_reference(output.path, uri)


def _uris(given: _Given, *names: str) -> list[str | None]:
    """Return the locations of the artifacts with these names, or None for missing ones."""
    artifacts = [given.pop(name) for name in names]
    return [
        None if artifact is None else find_dataset(artifact.path, artifact.uri)
        for artifact in artifacts
    ]


_RUN: dict[str, Callable[[_Given], None]] = {
    "audio_example_gen": functools.partial(_example_gen, AudioSettings),
    "dataset_audit": _dataset_audit,
    "dataset_report": _dataset_report,
    "image_example_gen": functools.partial(_example_gen, ImageSettings),
    "schema_export": _schema_export,
    "shard_balancer": _shard_balancer,
    "text_example_gen": functools.partial(_example_gen, TextSettings),
}
