"""The source of `components.kubeflow.step_functions`: one function per component with settings.

Kubeflow's parameters have one type each and are never None. For a setting without a default, an
empty value, 0 or False means that it is not set. Whole numbers are below 2^53, which Kubeflow
stores exactly.
"""

import dataclasses
import json

from components.kubeflow.arguments import SETTINGS
from trainer_utils.core.settings import Setting, settings_of

_MODULE = '''"""Functions of the kfp components with settings, made by scripts/generate_settings.py.

from components.kubeflow.native import shard_balancer

kfp copies the source of a function into a compiled pipeline. The parameters of a function are the
component's own artifacts and parameters, and its settings.
"""

# ruff: noqa: B006  kfp copies defaults into the package

from kfp import dsl

from components.kubeflow.component import component
'''

_FUNCTION = '''

@component
def {name}(
{parameters}
) -> None:
    """{docstring}
    """
    given = {{**locals()}}
    from components.kubeflow.run import run_step

    run_step("{name}", given)
'''


@dataclasses.dataclass(frozen=True)
class _Function:
    """The function of a component: its artifacts and own parameters, without settings."""

    name: str
    parameters: str
    docstring: str

    def source(self) -> str:
        settings = settings_of(SETTINGS[self.name]).values()
        parameters = [*self.parameters.strip().splitlines(), *map(_parameter, settings)]
        return _FUNCTION.format(
            name=self.name,
            parameters="\n".join(f"    {parameter.strip()}" for parameter in parameters),
            docstring=self.docstring.strip(),
        )


def _parameter(one: Setting) -> str:
    kind = {"Mapping": "dict", "Sequence": "list"}.get(name := one.kinds[0].__name__, name)
    default = {"str": "", "dict": {}, "list": []}.get(kind, 0)
    if one.default not in (None, (), {}):
        default = one.default
    text = json.dumps(default) if isinstance(default, str) else repr(default)
    return f"{one.name}: {kind} = {'False' if kind == 'bool' and not default else text},"


def step_functions() -> str:
    """Return the module with the functions of all components that have settings."""
    return _MODULE + "".join(function.source() for function in _FUNCTIONS)


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

_FUNCTIONS = (
    _Function(
        "image_example_gen",
        _EXAMPLE_GEN,
        f"""Convert images in any supported layout to a sharded, verified dataset.
{_OF_EXAMPLE_GEN}""",
    ),
    _Function(
        "text_example_gen",
        _EXAMPLE_GEN,
        f"""Convert text files and tables to a sharded, verified dataset.
{_OF_EXAMPLE_GEN}""",
    ),
    _Function(
        "audio_example_gen",
        _EXAMPLE_GEN,
        f"""Convert audio files, in folders or tables, to a sharded, verified dataset.
{_OF_EXAMPLE_GEN}""",
    ),
    _Function(
        "shard_balancer",
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
    ),
    _Function(
        "schema_export",
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
    ),
    _Function(
        "dataset_audit",
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
    ),
    _Function(
        "dataset_report",
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
    ),
)
