"""The kfp components: functions that kfp compiles to components for our image.

    task = image_example_gen(input_base="/data/photos", splits={"train": 9, "eval": 1})
    shard_balancer(examples=task.outputs["examples"], num_shards=8)

kfp copies a function's source into the package and calls it in the container, so this module
generates source. Its parameters are a component's own artifacts and parameters, and its settings.
Each parameter has one type and is never None, which Kubeflow does not support. For a setting
without a default, an empty value, 0 or False means that it is not set. Whole numbers are below
2^53, which Kubeflow stores exactly.
"""

# ruff: noqa: B006  kfp copies defaults into the package

import json
import linecache
import os
from collections.abc import Callable
from typing import Any

from kfp import dsl

from components.balancing.settings import BalancerSettings
from components.common.settings import RENAMED_SETTINGS, ComponentSettings, with_new_names
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from trainer_utils.extras import NOT_INSTALLED, installed_version
from trainer_utils.format.settings import Setting, settings_of

try:
    from kfp.dsl import pipeline_context
    from kfp.dsl.python_component import PythonComponent
except ImportError:  # for kfp 2.0
    from kfp.components import pipeline_context
    from kfp.components.python_component import PythonComponent

IMAGE_VARIABLE = "TFX_SHARDS_IMAGE"
_VERSION = "input_version"
_READ_BY_NAME = ("exclude", "relabel", "add")  # files and datasets that Kubeflow does not know


def default_image() -> str:
    """Return the image of the variable TFX_SHARDS_IMAGE, or else the one of `make image`."""
    version = installed_version("tfx-shards")
    if version == NOT_INSTALLED:  # run from the source folder
        version = "latest"
    return os.environ.get(IMAGE_VARIABLE) or f"tfx-shards-components:{version}"


class _Component(PythonComponent):
    """A component that Kubeflow caches only if all its inputs are known.

    Raw inputs are only known by their `input_version`.
    """

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        task = super().__call__(*arguments, **given)
        given = with_new_names(given) if RENAMED_SETTINGS.keys() & given.keys() else given
        inputs = self.component_spec.inputs
        is_known = given.get(_VERSION) if _VERSION in inputs else "input_base" not in inputs
        in_pipeline = pipeline_context.Pipeline.get_default_pipeline() is not None
        if in_pipeline and (not is_known or any(given.get(name) for name in _READ_BY_NAME)):
            task.set_caching_options(False)
        return task


def _component(function: Callable[..., Any]) -> _Component:
    made = dsl.component(function, base_image=default_image(), install_kfp_package=False)
    return _Component(component_spec=made.component_spec, python_func=made.python_func)


def _make(name: str, settings: type[ComponentSettings], own: str, docstring: str) -> _Component:
    """Create the component that runs a step; `own` are its parameters other than settings."""
    parameters = [*own.strip().splitlines(), *map(_parameter, settings_of(settings).values())]
    source = "".join(
        [
            f"def {name}(\n",
            *(f"    {parameter.strip()}\n" for parameter in parameters),
            ") -> None:\n",
            f'    """{docstring.strip()}\n    """\n',
            "    given = {**locals()}\n",
            "    from components.kubeflow.run import run_step\n\n",
            f'    run_step("{name}", given)\n',
        ]
    )
    file, namespace = f"<{__name__} {name}>", {"dsl": dsl}
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), namespace)
    return _component(namespace[name])


def _parameter(one: Setting) -> str:
    kind = {"Mapping": "dict", "Sequence": "list"}.get(name := one.kinds[0].__name__, name)
    default = {"str": "", "dict": {}, "list": []}.get(kind, 0)
    if one.default not in (None, (), {}):
        default = one.default
    text = json.dumps(default) if isinstance(default, str) else repr(default)
    return f"{one.name}: {kind} = {'False' if kind == 'bool' and not default else text},"


_EXAMPLE_GEN = """
    examples: dsl.Output[dsl.Dataset],
    source: dsl.Input[dsl.Artifact] = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},
    splits: dict = {},
    split_by: str = "",
    dataset_root: str = "",
"""
_DATASET_ROOT = """
        dataset_root: a folder on a volume that all pods share, or a bucket. The shards are stored
            there instead of in the artifact, so that no pod copies them.
"""
_OF_EXAMPLE_GEN = f"""
    All other parameters are settings of the TFX component of the same name.

    Args:
        source: the inputs as an artifact of another step. Pass either this or input_base.
        input_base: path of the inputs: a folder, a table or an archive, on a volume or in a bucket.
        input_version: version of the inputs at input_base, such as the output of
            input_fingerprint. Kubeflow may take the step from its cache if the version is
            unchanged. Without a version the step always runs.
        input_patterns: file patterns by split, for inputs that are stored by split.
        splits: shares by split, for inputs that are split by a hash.
        split_by: name of the column to hash. Empty: the name of each file, or the id of each row.
        {_DATASET_ROOT.strip()}

    Returns:
        examples: the dataset.
"""

image_example_gen = _make(
    "image_example_gen",
    ImageSettings,
    _EXAMPLE_GEN,
    f"""Convert images in any supported layout to a sharded, verified dataset.
{_OF_EXAMPLE_GEN}""",
)
text_example_gen = _make(
    "text_example_gen",
    TextSettings,
    _EXAMPLE_GEN,
    f"""Convert text files and tables to a sharded, verified dataset.
{_OF_EXAMPLE_GEN}""",
)
audio_example_gen = _make(
    "audio_example_gen",
    AudioSettings,
    _EXAMPLE_GEN,
    f"""Convert audio files, in folders or tables, to a sharded, verified dataset.
{_OF_EXAMPLE_GEN}""",
)
shard_balancer = _make(
    "shard_balancer",
    BalancerSettings,
    """
    examples: dsl.Input[dsl.Dataset],
    balanced_examples: dsl.Output[dsl.Dataset],
    more_examples: dsl.Input[dsl.Dataset] = None,
    shards_by_split: dict = {},
    dataset_root: str = "",
    """,
    f"""Rewrite one or two datasets as one, in shards of equal size and in random order.

    All other parameters are settings of ShardBalancer.

    Args:
        examples: a dataset written by tfx-shards, Datum, TFDS or a stock ExampleGen.
        more_examples: another dataset, to merge with the first.
        shards_by_split: number of shards by split, in place of num_shards.
        {_DATASET_ROOT.strip()}

    Returns:
        balanced_examples: the dataset.
    """,
)
schema_export = _make(
    "schema_export",
    SchemaExportSettings,
    """
    examples: dsl.Input[dsl.Dataset],
    datum_schema: dsl.Output[dsl.Artifact],
    datum_dataset: dsl.Output[dsl.Dataset],
    schema: dsl.Input[dsl.Artifact] = None,
    statistics: dsl.Input[dsl.Artifact] = None,
    """,
    """Write a dataset's schema: schema.pbtxt for TFX, two JSON files for Datum, a JSON Schema.

    Args:
        examples: a dataset.
        schema: a folder with a schema.pbtxt, which must agree with the dataset.
        statistics: TFX's statistics of the dataset, which must agree with it.
        tfds: also write TFDS's two JSON files.

    Returns:
        datum_schema: schema.pbtxt alone, as TFX's components expect it.
        datum_dataset: all of the files, in a folder that Datum can open.
    """,
)
dataset_audit = _make(
    "dataset_audit",
    AuditSettings,
    """
    examples: dsl.Input[dsl.Dataset],
    anomalies: dsl.Output[dsl.Artifact],
    num_findings: dsl.OutputPath(int),
    against: dsl.Input[dsl.Dataset] = None,
    """,
    """Find duplicates, leakage between splits, conflicting labels, shifts and unusual images.

    All other parameters are settings of DatasetAudit.

    Args:
        examples: a dataset.
        against: an earlier dataset to compare with.

    Returns:
        anomalies: findings.json, and TFX's anomalies of each split; num_findings in its metadata.
        num_findings: number of findings, for a `dsl.If`.
    """,
)
dataset_report = _make(
    "dataset_report",
    DatasetReportSettings,
    """
    examples: dsl.Input[dsl.Dataset],
    report: dsl.Output[dsl.HTML],
    statistics: dsl.Input[dsl.Artifact] = None,
    schema: dsl.Input[dsl.Artifact] = None,
    """,
    """Write a page that shows the contents of a dataset. Kubeflow shows it with the run.

    Args:
        examples: a dataset written by tfx-shards, Datum, TFDS or a stock ExampleGen.
        statistics: TFX's statistics of the dataset, which the page shows next to its own.
        schema: a folder with a schema.pbtxt. The page reports where it and the dataset disagree.
        sample_records: maximum number of records to read from each split. Record counts come from
            the manifest.

    Returns:
        report: the page.
    """,
)


@_component
def input_fingerprint(
    fingerprint: dsl.OutputPath(str),  # type: ignore[valid-type]
    input_base: str,
    input_patterns: dict = {},
    file_roots: list = [],
    siblings: bool = True,
) -> None:
    """Compute the fingerprint of raw inputs, so that Kubeflow can cache the steps that use them.

    It always runs, and reads no file: a million files take about 15 seconds. Pass its output as the
    `input_version` of an ExampleGen.

    Args:
        input_base: the folder, table or archive of the inputs, as for the ExampleGen.
        input_patterns: patterns by split, as for the ExampleGen. Spans are resolved, so that a new
            span is a change.
        file_roots: additional folders that a list may refer to, as for the ExampleGen.
        siblings: whether a file at input_base may refer to files next to it, as a list does. False
            for a table, so that the other files of its folder do not count.

    Returns:
        fingerprint: a string that changes if any input changes.
    """
    from components.kubeflow.input_state import fingerprint_inputs

    found = fingerprint_inputs(
        input_base, input_patterns, image_roots=file_roots, siblings=siblings
    )
    with open(fingerprint, "w") as stream:
        stream.write(found)
