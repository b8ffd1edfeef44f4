"""The components themselves: `kfp.dsl.container_component`s that run `components.kubeflow.run`.

    task = image_example_gen(input_base="/data/photos", splits={"train": 9, "eval": 1})
    shard_balancer(examples=task.outputs["examples"], num_shards=8)

All but the paths of artifacts is read from the executor input, where the launcher has filled in
defaults; so the functions here have no body. Their parameters are their own and the settings of the
TFX component, of one type each and never None: an empty value, 0 or False stands for it.
"""

import collections.abc
import copy
import inspect
from collections.abc import Callable
from typing import Any

from kfp import dsl
from kfp.dsl import pipeline_context
from kfp.dsl.container_component_class import ContainerComponent

from components.common.settings import ComponentSettings, add_settings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.kubeflow.dataset_records import VERSION_KEY
from components.kubeflow.images import COMMAND, default_image
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from components.shard_balancer.settings import BalancerSettings
from trainer_utils.format import ConfigError
from trainer_utils.format.settings import Setting

_READ_BY_NAME = ("exclude", "relabel", "add")  # files and datasets of which Kubeflow knows nothing
_SIDES = {
    dsl.Input[dsl.Artifact].__metadata__[0]: "inputs",
    dsl.Output[dsl.Artifact].__metadata__[0]: "outputs",
}
_EXECUTOR_INPUT = dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER
_COLLECTIONS: dict[Any, type] = {collections.abc.Mapping: dict, collections.abc.Sequence: list}


class _Component(ContainerComponent):
    """A container component whose image is chosen where it is used.

    One that reads what Kubeflow does not know to have changed is taken from Kubeflow's cache
    only where `input_version` says that nothing has.
    """

    is_always_run = False

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        made = copy.copy(self)
        made.component_spec = copy.deepcopy(self.component_spec)
        made.component_spec.implementation.container.image = default_image()
        is_local = pipeline_context.Pipeline.get_default_pipeline() is None
        if is_local:
            _check_runner()
        task = super(_Component, made).__call__(*arguments, **given)
        reads_raw = VERSION_KEY in (self.component_spec.inputs or {}) and not given.get(VERSION_KEY)
        if not is_local and (reads_raw or self.is_always_run):
            task.set_caching_options(False)
        if any(given.get(name) for name in _READ_BY_NAME):
            task.set_caching_options(False)
        return task


def _check_runner() -> None:
    """Refuses what kfp.local cannot run, before kfp refuses it without saying what can."""
    from kfp import local
    from kfp.local import config

    chosen = config.LocalExecutionConfig.instance
    if chosen is not None and isinstance(chosen.runner, local.SubprocessRunner):
        raise ConfigError.of(
            "kfp.local.init",
            "SubprocessRunner",
            allowed="DockerRunner, since SubprocessRunner runs no component that has an image",
            advice="Without containers, pipelines.convert and TFX's LocalDagRunner do the same",
        )


def _component(
    settings: type[ComponentSettings],
    *,
    name: str = "",
    summary: str = "",
    is_always_run: bool = False,
) -> Callable[[Callable[..., None]], _Component]:
    """Makes a component of a function, whose signature and docstring have what is its own.

    Args:
        settings: of the TFX component; each is a parameter more.
        name, summary: in place of the function's.
        is_always_run: whether it may never be taken from Kubeflow's cache.
    """

    def decorate(declared: Callable[..., None]) -> _Component:
        def step(*given: Any) -> dsl.ContainerSpec:
            command = [step.__name__, "--executor-input", _EXECUTOR_INPUT]
            parameters = inspect.signature(step).parameters.values()
            for parameter, value in zip(parameters, given, strict=True):
                marker = getattr(parameter.annotation, "__metadata__", (None,))[0]
                if marker in _SIDES:
                    command += ["--path", _SIDES[marker], parameter.name, value.path]
            return dsl.ContainerSpec(image=default_image(), command=list(COMMAND), args=command)

        add_settings(step, declared, settings, _parameter)
        step.__name__ = name or declared.__name__
        step.__doc__ = (step.__doc__ or "").replace("SUMMARY", summary)
        made = dsl.container_component(step)
        component = _Component(component_spec=made.component_spec, pipeline_func=made.pipeline_func)
        component.is_always_run = is_always_run
        return component

    return decorate


def _parameter(one: Setting) -> inspect.Parameter:
    """A parameter of Kubeflow's: of the first kind that the setting has."""
    kind = _COLLECTIONS.get(one.kinds[0], one.kinds[0])
    default = kind(one.default) if one.default is not None else kind()
    return inspect.Parameter(
        one.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind
    )


def _example_gen(
    examples: dsl.Output[dsl.Dataset],
    source: dsl.Input[dsl.Artifact] = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},  # noqa: B006  kfp reads it and no more
    splits: dict = {},  # noqa: B006
    split_by: str = "",
    dataset_root: str = "",
):
    """SUMMARY

    Where a sentence names a default, an empty value, 0 or False means it. Whole numbers are below
    2^53, which Kubeflow holds exactly.

    Args:
        source: the inputs as an artifact of another step; or else
        input_base: where they are: a folder, a table or an archive, on a volume or in a bucket.
        input_version: of what is at input_base, such as input_fingerprint gives; where it is
            given and equal, Kubeflow may take the step from its cache. Without one the step
            always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or a bucket, to keep the shards in
            instead of the artifact, so that no pod copies them.

    Returns:
        examples: the dataset.
    """


image_example_gen = _component(
    ImageSettings,
    name="image_example_gen",
    summary="Turns images, in whatever layout they lie, into a sharded and verified dataset.",
)(_example_gen)
text_example_gen = _component(
    TextSettings,
    name="text_example_gen",
    summary="Turns texts and tables into a sharded and verified dataset.",
)(_example_gen)
audio_example_gen = _component(
    AudioSettings,
    name="audio_example_gen",
    summary="Turns sounds, in folders or tables, into a sharded and verified dataset.",
)(_example_gen)


@_component(ComponentSettings, is_always_run=True)
def input_fingerprint(
    fingerprint: dsl.OutputPath(str),  # type: ignore[valid-type]
    input_base: str,
    input_patterns: dict = {},  # noqa: B006
    image_roots: list = [],  # noqa: B006
    siblings: bool = True,
    contents: bool = False,
    dataset_root: str = "",
):
    """Fingerprints raw inputs, so that what is made of them can be taken from Kubeflow's cache.

    It always runs, and reads no file unless it is asked to: a million take some 15 seconds.
    Its output is for the `input_version` of an ExampleGen.

    Args:
        input_base: where they are, as for the ExampleGen.
        input_patterns: as for the ExampleGen; spans are resolved, so that a new one is a change.
        image_roots: as for the ExampleGen.
        siblings: whether a file at input_base may name others beside it, as a list does; False for
            a table, so that the other files of its folder do not count.
        contents: whether files are read: then what counts is their bytes, and otherwise size and
            time, or what the store says of an object's version.
        dataset_root: that of the ExampleGen, and of shard_balancer behind it: where a dataset
            that was made of these inputs is gone from it, the fingerprint is another, and all
            is made again.

    Returns:
        fingerprint: a text, another one where an input is.
    """


@_component(ComponentSettings, is_always_run=True)
def latest_spans(
    datasets: dsl.Output[dsl.Dataset],
    dataset_root: str,
    num_spans: int,
    examples: dsl.Input[dsl.Dataset] = None,
    first_span: int = 0,
    source: str = "",
):
    """Gives the datasets of the last spans, a rolling window, to shard_balancer or a trainer.

    They are those that ExampleGens wrote below `dataset_root`, of `input_patterns` with {SPAN};
    of each span the newest. Nothing is copied.

    Args:
        dataset_root: of the ExampleGen.
        num_spans: how many numbers the window has; a span without a dataset leaves it smaller.
        examples: of the ExampleGen in the same run, which this step then waits for.
        first_span: no span before it is taken.
        source: a part of the ExampleGen's name and input_base, where several share the folder.

    Returns:
        datasets: their places; dataset_uris, spans and records in its metadata.
    """


@_component(BalancerSettings)
def shard_balancer(
    examples: dsl.Input[dsl.Dataset],
    balanced_examples: dsl.Output[dsl.Dataset],
    more_examples: dsl.Input[dsl.Dataset] = None,
    shards_by_split: dict = {},  # noqa: B006
    dataset_root: str = "",
):
    """Writes datasets anew, as one in shards of equal size and in random order.

    Where a sentence names a default, an empty value or 0 means it. Whole numbers are below 2^53,
    which Kubeflow holds exactly.

    Args:
        examples: a dataset: ours, Datum's, TFDS's or a stock ExampleGen's.
        more_examples: another, that becomes one with it.
        shards_by_split: numbers by split, in place of num_shards.
        dataset_root: a folder on a volume that all pods share, or a bucket, to keep the shards in
            instead of the artifact, so that no pod copies them.

    Returns:
        balanced_examples: the dataset.
    """


@_component(SchemaExportSettings)
def schema_export(
    examples: dsl.Input[dsl.Dataset],
    datum_schema: dsl.Output[dsl.Artifact],
    datum_dataset: dsl.Output[dsl.Dataset],
    schema: dsl.Input[dsl.Artifact] = None,
    statistics: dsl.Input[dsl.Artifact] = None,
):
    """Writes what a dataset holds: schema.pbtxt for TFX, two JSON files for Datum, a JSON Schema.

    Args:
        examples: a dataset.
        schema: a schema.pbtxt in a folder, that must agree with it.
        statistics: TFX's statistics of it, that must agree with it.

    Returns:
        datum_schema: schema.pbtxt alone, as TFX's components take it.
        datum_dataset: all of the files, which Datum opens.
    """


@_component(AuditSettings)
def dataset_audit(
    examples: dsl.Input[dsl.Dataset],
    anomalies: dsl.Output[dsl.Artifact],
    num_findings: dsl.OutputPath(int),  # type: ignore[valid-type]
    against: dsl.Input[dsl.Dataset] = None,
):
    """Finds copies, leakage between splits, conflicts of labels, shifts and odd images.

    Args:
        examples: a dataset.
        against: an earlier one, that it is compared with.

    Returns:
        anomalies: findings.json, and TFX's anomalies of each split; num_findings in its metadata.
        num_findings: how much was found, for a `dsl.If`.
    """


@_component(DatasetReportSettings)
def dataset_report(
    examples: dsl.Input[dsl.Dataset],
    report: dsl.Output[dsl.HTML],
    statistics: dsl.Input[dsl.Artifact] = None,
    schema: dsl.Input[dsl.Artifact] = None,
):
    """Writes one page that shows what is in a dataset, which Kubeflow shows beside the run.

    Args:
        examples: a dataset: ours, Datum's, TFDS's or a stock ExampleGen's.
        statistics: TFX's statistics of it, which the page shows beside its own.
        schema: a schema.pbtxt in a folder; where the two disagree the page says so.

    Returns:
        report: the page.
    """


@_component(ComponentSettings)
def train_input_check(
    examples: dsl.Input[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    split: str = "train",
    batch_size: int = 64,
    workers: int = 1,
    input_options: dict = {},  # noqa: B006
    seconds: float = 2.0,
    min_records_per_second: float = 0.0,
):
    """Reads a dataset as a trainer will: every checksum, the plan of each worker, and the speed.

    Args:
        examples: a dataset.
        split: or slices, such as train[:80%].
        batch_size: global, in records.
        workers: that share each batch.
        input_options: further arguments of trainer_utils.input_fn, such as features, label and
            image_size; images of many sizes are read at 224 x 224 where none is given.
        seconds: that each stage is measured for.
        min_records_per_second: the step fails where the input is slower; 0: no such bound.

    Returns:
        metrics: records, steps, dropped and padded records of an epoch, records_per_second, and
            the least seconds of a training step that never waits for its input.
    """


@_component(ComponentSettings)
def train_job(
    metrics: dsl.Output[dsl.Metrics],
    logs: dsl.Output[dsl.Artifact],
    program: list,
    examples: dsl.Input[dsl.Dataset] = None,
    workers: int = 1,
    image: str = "",
    runtime: str = "tensorflow-distributed",
    environment: dict = {},  # noqa: B006
    cpu: str = "",
    memory: str = "",
    gpu: int = 0,
    gpu_type: str = "nvidia.com/gpu",
    name: str = "train",
    namespace: str = "",
    timeout_seconds: int = 0,
):
    """Trains on many workers: a TrainJob of Kubeflow Trainer, from its creation to its deletion.

    It needs a training runtime, which `python -m components.kubeflow.training_runtime` prints.

    Args:
        program: the program and its arguments, which each worker runs: python, train.py. Kubernetes
            fills in $(DATASET_URI).
        examples: a dataset on a volume of the workers, or at gs:// or s3://; its uri is the
            variable DATASET_URI of each worker. One with a dataset_root is not copied.
        workers: how many, a pod each.
        image: of the workers, with trainer_utils and the program; empty: the runtime's.
        runtime: the ClusterTrainingRuntime.
        environment: further variables of each worker.
        cpu: of each worker, such as 8; empty: what the cluster gives.
        memory: of each worker, such as 32Gi; empty: what the cluster gives.
        gpu: how many each worker has.
        gpu_type: the resource's name.
        name: how the job's name begins.
        namespace: of the job; empty: this step's.
        timeout_seconds: after which the job is ended and the step fails; 0: never.

    Returns:
        metrics: the last value of each that worker 0 printed in a line of nothing but name=number.
        logs: worker-0.log and so on.
    """
