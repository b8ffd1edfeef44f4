"""The work of the components as plain functions of folders and settings, without TFX or Beam.

    steps.convert("photos/", "examples/", ImageSettings(seed=3))

A TFX component, a Kubeflow step and a command each call one of these functions. The output is
complete when a function returns. A failed run leaves no dataset. It leaves the shards that it has
finished, and the next run with the same inputs, settings and versions resumes from them.
"""

import collections
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.example_gen.input_selection import InputSelection, LocatedInputs
from components.example_gen.settings import (
    AudioSettings,
    ExampleGenSettings,
    ImageSettings,
    TextSettings,
)
from components.example_gen.split_rules import OWN_NAME
from components.inputs.rejects import rejects_of
from components.runtime.artifact_properties import (
    Properties,
    properties_of_dataset,
    properties_of_export,
)
from components.runtime.component_settings import ExecProperties
from components.runtime.lineage import make_origin
from components.runtime.publish import publish_dataset, write_artifact
from components.runtime.run_metrics import measured
from components.runtime.runners import Runner
from components.runtime.workspace import check_folder, is_within, run_in
from trainer_utils.core.errors import ConfigError, DatasetError, InputError
from trainer_utils.dataset.location import newest_dataset
from trainer_utils.format import Manifest
from trainer_utils.storage import (
    exists,
    make_folder,
    path_of,
    remove_file,
    retrying_for_minutes,
    write_atomically,
)

if TYPE_CHECKING:
    from components.auditing.findings import Audit
    from components.balancing.settings import BalancerSettings
    from components.example_gen.conversion import Conversion
    from components.settings import AuditSettings, DatasetReportSettings

REPORT_FILE = "report.html"
_PRODUCERS: Mapping[type[ExampleGenSettings], str] = {
    ImageSettings: "ImageExampleGen",
    TextSettings: "TextExampleGen",
    AudioSettings: "AudioExampleGen",
}


@dataclasses.dataclass(frozen=True)
class DatasetResult:
    """A written dataset: its manifest, values by feature, and its artifact's properties."""

    manifest: Manifest
    vocabularies: Mapping[str, Sequence[str]]
    properties: Properties


@dataclasses.dataclass(frozen=True)
class Converted(DatasetResult):
    """A dataset that was converted from raw inputs, and the location of the inputs."""

    located: LocatedInputs


@dataclasses.dataclass(frozen=True)
class Exported:
    """The result of `export_schema`: the number of features, and the exceeded limits of Datum."""

    num_features: int
    datum_limits: Sequence[str]

    @property
    def properties(self) -> Properties:
        """Properties of its artifacts in ML Metadata or in Kubeflow."""
        return properties_of_export(self.num_features, self.datum_limits)


def conversion_of(
    source: str | os.PathLike[str] | InputSelection,
    settings: ExampleGenSettings,
    runner: Runner | None = None,
) -> "Conversion[Any]":
    """Return the conversion for the settings, with its inputs listed. Nothing is written.

    Args:
        source: the path of the inputs, or a selection of files.
        settings: the settings of an ExampleGen, whose class decides the kind of conversion.
        runner: makes the calls that write shards.

    Raises:
        InputError: the input is missing or cannot be listed.
        ConfigError: a setting is not allowed.
    """
    _check_settings(settings, *_PRODUCERS)
    if not isinstance(source, InputSelection):
        source = InputSelection(base=path_of("source", source))
    conversion = _conversion_class(settings)(settings, source, runner)
    conversion.list_inputs()
    if isinstance(settings, TextSettings) and (name := conversion.custom_layout()) is not None:
        settings = dataclasses.replace(settings, layout=name)
        conversion = _conversion_class(settings)(settings, source, runner)
        conversion.list_inputs()
    return conversion


def _given(name: str, place: str | os.PathLike[str] | None) -> str | None:
    """Return an optional path or url as a string."""
    return None if place is None else path_of(name, place)


def workers_module(settings: ExampleGenSettings) -> str:
    """Return the module of `components` that a conversion's workers import when they start."""
    return f"example_gen.{'row_pieces' if _are_rows(settings) else 'file_shards'}"


def _are_rows(settings: ExampleGenSettings) -> bool:
    if not isinstance(settings, TextSettings):
        return False
    return not settings.names_files and not settings.is_custom


def _conversion_class(settings: ExampleGenSettings) -> "type[Conversion[Any]]":
    if _are_rows(settings):
        from components.example_gen.text_conversion import TextConversion

        return TextConversion
    from components.example_gen.file_conversion import conversion_class

    return conversion_class(settings)


@measured("convert")
def convert(
    source: "str | os.PathLike[str] | InputSelection | Conversion[Any]",
    uri: str | os.PathLike[str],
    settings: ExampleGenSettings,
    *,
    runner: Runner | None = None,
    describe: Callable[[LocatedInputs], ExecProperties] | None = None,
    restart: bool = False,
) -> Converted:
    """Convert images, text or audio to a dataset: plan, check, write, publish.

    Args:
        source: a folder, a table or an archive; a selection of files and splits; or a conversion
            from `conversion_of`, with this runner.
        uri: the folder of the dataset, local or in a bucket.
        settings: the settings of an ExampleGen, whose class decides the kind of conversion.
        runner: makes the calls that write shards. Default: local processes, one per core.
        describe: returns the settings for the dataset's lineage, given the located inputs.
        restart: discard the finished work of an earlier run instead of resuming it.

    Returns:
        The written dataset, and the location of its inputs.

    Raises:
        InputError: the input is missing, malformed, or too much of it was rejected.
        ConfigError: a setting is not allowed.
    """
    from components.example_gen.conversion import Conversion

    _check_settings(settings, *_PRODUCERS)
    uri, producer = _output(uri), _PRODUCERS[type(settings)]
    runs = runner or Runner(module=f"components.{workers_module(settings)}")
    with runs as runner:
        conversion: Conversion[Any] = (
            source if isinstance(source, Conversion) else conversion_of(source, settings, runner)
        )
        runner.start_early(conversion.least_seconds)
        conversion.refuse_output(uri, setting="uri")
        with run_in(uri, restarts=restart), retrying_for_minutes():
            plan = conversion.plan(uri)
            try:
                written = conversion.write(plan, uri)
            except InputError as error:
                if error.rejects:
                    known = dict.fromkeys((*plan.rejects, *rejects_of(error)))
                    conversion.list_rejects(uri, [*known])
                raise
            rejects = (*plan.rejects, *written.rejects)
            records = collections.Counter[str]()
            for shard in written.shards:
                records[shard.split] += shard.records
            conversion.check_outcome(plan, rejects, written=records, uri=uri)
            manifest = conversion.make_manifest(producer, plan, written)
            features = conversion.described_features(written, uri)
            located = conversion.located
            step_settings = (
                describe(located)
                if describe
                else _lineage_settings(conversion.selection, settings, located)
            )
            publish_dataset(
                uri,
                manifest,
                features,
                vocabularies=plan.vocabularies,
                rejects=rejects,
                origin=make_origin(
                    producer, step_settings, output="examples", inputs=conversion.parents
                ),
                inputs=written.inputs,
                listing=written.listing,
            )
    properties = properties_of_dataset(manifest, plan.vocabularies, gzip=settings.gzip)
    return Converted(manifest, plan.vocabularies, properties, located)


def _lineage_settings(
    selection: InputSelection, settings: ExampleGenSettings, located: LocatedInputs
) -> ExecProperties:
    """Return settings and inputs in the form of TFX's execution properties."""
    partition = selection.partition
    patterns = [{"name": pattern.name, "pattern": pattern.pattern} for pattern in located.patterns]
    output: dict[str, Any] = {}
    if partition is not None:
        splits = [{"name": name, "hash_buckets": share} for name, share in partition.buckets]
        output["split_config"] = {"splits": splits}
        if partition.feature != OWN_NAME:
            output["split_config"]["partition_feature_name"] = partition.feature
    return {
        **settings.as_properties(),
        "input_base": located.base,
        "input_config": {"splits": patterns},
        "output_config": output,
        "span": located.span,
        "version": located.version,
    }


@measured("balance")
def balance(
    examples: Sequence[str | os.PathLike[str]],
    uri: str | os.PathLike[str],
    settings: "BalancerSettings",
    *,
    before_transform: Sequence[str | os.PathLike[str]] = (),
    transform_graphs: Sequence[str | os.PathLike[str]] = (),
    just_written: bool = False,
    runner: Runner | None = None,
    restart: bool = False,
) -> DatasetResult:
    """Rewrite datasets as one, in shards of equal size and in random order.

    Args:
        examples: uris of datasets, in any format that `open_dataset` reads.
        uri: the folder of the new dataset, outside of the others.
        settings: the settings of ShardBalancer.
        before_transform: uris of the examples that a Transform read to create these.
        transform_graphs: uris of the Transform's graphs.
        just_written: whether this process has just written and read back `examples`. Unchanged
            shards become links without being read again.
        runner: makes the calls that write shards. Default: local processes, one per core.
        restart: discard the finished work of an earlier run instead of resuming it.

    Returns:
        The written dataset.

    Raises:
        DatasetError: an input is not a dataset, is incomplete, or is damaged.
        ConfigError: a setting is not allowed.
    """
    from components.balancing import steps
    from components.balancing.inputs import check_apart, open_inputs
    from components.balancing.planning import listing_after
    from components.balancing.settings import BalancerSettings

    _check_settings(settings, BalancerSettings)
    if isinstance(examples, (str, os.PathLike)) or not isinstance(examples, Sequence):
        raise ConfigError.of("examples", examples, allowed="a list of uris of datasets")
    sources, uri = [path_of("examples", dataset) for dataset in examples], _output(uri)
    uris = [*sources, *settings.add]
    check_apart(uris, uri)
    inputs = open_inputs(
        uris,
        before_transform=[path_of("before_transform", dataset) for dataset in before_transform],
        transform_graphs=[path_of("transform_graphs", graph) for graph in transform_graphs],
    )
    settings.check_splits(list(inputs.shards))
    with run_in(uri, restarts=restart), retrying_for_minutes():
        with runner or Runner(module="components.balancing.parts") as runner:
            manifest, features, vocabularies = steps.balance(
                inputs,
                settings,
                num_given=len(examples),
                uri=uri,
                runner=runner,
                just_written=just_written,
            )
        origin = make_origin(
            manifest.producer,
            settings.as_properties(),
            output="balanced_examples",
            inputs={"examples": inputs.sources},
        )
        publish_dataset(
            uri,
            manifest,
            features,
            vocabularies=vocabularies,
            origin=origin,
            listing=listing_after(inputs, settings),
        )
    properties = properties_of_dataset(manifest, vocabularies, gzip=settings.gzip)
    return DatasetResult(
        manifest, vocabularies, {**properties, "input_fingerprint": manifest.input_fingerprint}
    )


def export_schema(
    examples: str | os.PathLike[str],
    uri: str | os.PathLike[str],
    *,
    schema: str | os.PathLike[str] | None = None,
    statistics: str | os.PathLike[str] | None = None,
    tfds: bool = False,
    schema_uri: str | os.PathLike[str] | None = None,
) -> Exported:
    """Describe a dataset: `schema.pbtxt` for TFX, JSON for Datum, TFDS and others.

    Args:
        examples: the uri of a dataset.
        uri: the folder of all these files.
        schema: the uri of TFX's schema of the examples, which must agree with them.
        statistics: the uri of TFX's statistics of the examples, which must agree with them.
        tfds: also write TFDS's two JSON files.
        schema_uri: a folder for only `schema.pbtxt`, as TFX's own components require.

    Returns:
        The number of features, and the limits of Datum that they exceed.

    Raises:
        DatasetError: the examples are not a dataset, or disagree with the schema or statistics.
    """
    from components.schema.describing import describe

    examples, uri = path_of("examples", examples), _output(uri)
    schema, statistics = _given("schema", schema), _given("statistics", statistics)
    schema_uri = _given("schema_uri", schema_uri)
    if is_within(uri, newest_dataset(examples)):
        raise ConfigError.of("uri", uri, allowed=f"a folder outside the dataset {examples!r}")
    described = describe(examples, uri, schema=schema, statistics=statistics, tfds=tfds)
    write_artifact(uri, described.files)
    if schema_uri is not None and schema_uri != uri:
        write_artifact(schema_uri, described.schema_file)
    return Exported(described.num_features, described.datum_limits)


def audit(
    examples: str | os.PathLike[str],
    uri: str | os.PathLike[str] | None,
    settings: "AuditSettings",
    *,
    against: str | os.PathLike[str] | None = None,
) -> "Audit":
    """Find copies, leakage between splits, conflicting labels, shifts and unusual images.

    Args:
        examples: the uri of a dataset.
        uri: the folder of `findings.json` and of TFX's anomalies. None: nothing is written.
        settings: the settings of DatasetAudit.
        against: the uri of an earlier dataset to compare with.

    Returns:
        The findings of all kinds. `check_findings` raises for the kinds in `settings.fail_on`.
    """
    from components.auditing.audit import audit_dataset
    from components.schema import anomalies
    from components.settings import AuditSettings

    _check_settings(settings, AuditSettings)
    examples, uri = path_of("examples", examples), None if uri is None else _output(uri)
    audit = audit_dataset(examples, against=against, label=settings.label, most=settings.most)
    if uri is not None:
        write_artifact(uri, anomalies.files_of(audit, settings.fail_on))
    return audit


def check_findings(audit: "Audit", fail_on: Sequence[str], uri: str) -> None:
    """Raise DatasetError if an audit has findings of some kinds, once the findings are saved.

    Launchers remove the output folder of a failed step, so the findings are kept next to it, in
    `<uri>.findings.json`.

    Args:
        audit: the result of `audit`.
        fail_on: kinds of findings.
        uri: the output folder.
    """
    from components.schema import anomalies

    kept = f"{uri.rstrip('/')}.{anomalies.FINDINGS_FILE}"
    try:
        audit.check(fail_on)
    except DatasetError as error:
        content = anomalies.files_of(audit, fail_on)[anomalies.FINDINGS_FILE]
        folder = kept.rpartition("/")[0] or os.curdir
        make_folder(folder)
        with write_atomically(kept, temporary_folder=folder) as stream:
            stream.write(content)
        raise DatasetError(f"{error}. All findings are kept in {kept}", path=audit.uri) from None
    if exists(kept):  # from an earlier run that failed
        remove_file(kept)


def report(
    examples: str | os.PathLike[str],
    uri: str | os.PathLike[str],
    settings: "DatasetReportSettings",
    *,
    statistics: str | os.PathLike[str] | None = None,
    schema: str | os.PathLike[str] | None = None,
) -> None:
    """Write one HTML page, `report.html`, that shows the contents of a dataset.

    Args:
        examples: the uri of a dataset.
        uri: the folder of the page.
        settings: the settings of DatasetReport.
        statistics: the uri of TFX's statistics of the examples, which the page shows next to its
            own.
        schema: the uri of TFX's schema of the examples, which the page compares with them.
    """
    from components.report.page import render_report
    from components.settings import DatasetReportSettings

    _check_settings(settings, DatasetReportSettings)
    examples, uri = path_of("examples", examples), _output(uri)
    page, _ = render_report(
        examples, sample_records=settings.sample_records, statistics=statistics, schema=schema
    )
    write_artifact(uri, {REPORT_FILE: page.encode()})


def _output(uri: object) -> str:
    """Check that the output folder can be written to, and return its path."""
    path = path_of("uri", uri)
    check_folder("uri", path)
    return path


def _check_settings(settings: object, *kinds: type) -> None:
    if type(settings) not in kinds:
        names = ", ".join(kind.__name__ for kind in kinds)
        rule = f"{names}(…)" if len(kinds) == 1 else f"settings, one of {names}"
        raise ConfigError.of("settings", settings, allowed=rule)
