"""The components themselves: `kfp.dsl.container_component`s that run `components.kubeflow.run`.

    task = image_example_gen(input_base="/data/photos", splits={"train": 9, "eval": 1})
    shard_balancer(examples=task.outputs["examples"], num_shards=8)

All but the paths of artifacts is read from the executor input, where the launcher has filled in
defaults; so the functions here have no body. Their parameters are their own and the settings of the
TFX component, of one type each and never None: an empty value, 0 or False stands for it.
"""

import collections.abc
import inspect
from collections.abc import Callable
from typing import Any

from kfp import dsl
from kfp.dsl.container_component_class import ContainerComponent

from components.audio_example_gen.settings import AudioSettings
from components.common.settings import ComponentSettings, add_settings
from components.image_example_gen.settings import ImageSettings
from components.kubeflow.images import COMMAND, default_image
from components.schema_export.settings import SchemaExportSettings
from components.shard_balancer.settings import BalancerSettings
from components.text_example_gen.settings import TextSettings
from trainer_utils.format.settings import Setting

__all__ = [
    "audio_example_gen",
    "image_example_gen",
    "schema_export",
    "shard_balancer",
    "text_example_gen",
    "train_input_check",
]

_VERSION = "input_version"
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

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        task = super().__call__(*arguments, **given)
        if hasattr(task, "set_container_image"):  # of kfp 2.8
            task.set_container_image(default_image())
        else:
            task.container_spec.image = default_image()
        if _VERSION in (self.component_spec.inputs or {}) and not given.get(_VERSION):
            task.set_caching_options(False)
        return task


def _component(
    settings: type[ComponentSettings], *, name: str = "", summary: str = ""
) -> Callable[[Callable[..., None]], _Component]:
    """Makes a component of a function, whose signature and docstring have what is its own.

    Args:
        settings: of the TFX component; each is a parameter more.
        name, summary: in place of the function's.
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
        return _Component(component_spec=made.component_spec, pipeline_func=made.pipeline_func)

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
        input_base: where they are: a folder, a table or an archive, on a mounted volume or gs://.
        input_version: of what is at input_base; where it is given and equal, Kubeflow may take the
            step from its cache. Without one the step always runs.
        input_patterns: patterns by split, for inputs that lie by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: the column that is hashed; empty: the name of each file, or the id of each row.
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
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
        dataset_root: a folder on a volume that all pods share, or gs://, to keep the shards in
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
        datum_dataset: all of the files, which datum.load opens.
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
