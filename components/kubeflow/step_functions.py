"""Functions of the kfp components with settings, made by scripts/generate_settings.py.

from components.kubeflow.native import shard_balancer

kfp copies the source of a function into a compiled pipeline. The parameters of a function are the
component's own artifacts and parameters, and its settings.
"""

# ruff: noqa: B006  kfp copies defaults into the package

from kfp import dsl

from components.kubeflow.component import component


@component
def image_example_gen(
    examples: dsl.Output[dsl.Dataset],
    source: dsl.Input[dsl.Artifact] = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},
    splits: dict = {},
    split_by: str = "",
    dataset_root: str = "",
    layout: str = "auto",
    columns: dict = {},
    file_roots: list = [],
    ignore: list = [],
    follow_links: bool = False,
    column_names: list = [],
    header: bool = False,
    delimiter: str = "",
    quoting: str = "csv",
    vocabulary: list = [],
    tensors: dict = {},
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    num_shards: int = 0,
    target_shard_bytes: int = 134217728,
    shard_multiple: int = 1,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    feature_names: dict = {},
    base_dataset: str = "",
    rows: str = "auto",
    label_separator: str = "",
    find_files: str = "path",
    name_pattern: str = "",
    list_encoding: str = "utf-8",
    box_format: str = "",
    box_frame: str = "",
    orientation: str = "apply",
    frames: str = "first",
    resize_shorter_side: int = 0,
    quality: int = 95,
    encoding: str = "file",
    verify: str = "structure",
    max_pixels: int = 89478485,
    sixteen_bit: str = "scale",
    sample_rate: int = 0,
    image_dir: str = "",
    csv_path: str = "",
    annotation_dir: str = "",
    label_dir: str = "",
    image_set_dir: str = "",
    label_list: str = "",
) -> None:
    """Convert images in any supported layout to a sharded, verified dataset.

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
        dataset_root: a folder on a volume that all pods share, or a bucket. The shards are stored
            there instead of in the artifact, so that no pod copies them.

    Returns:
        examples: the dataset.
    """
    given = {**locals()}
    from components.kubeflow.run import run_step

    run_step("image_example_gen", given)


@component
def text_example_gen(
    examples: dsl.Output[dsl.Dataset],
    source: dsl.Input[dsl.Artifact] = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},
    splits: dict = {},
    split_by: str = "",
    dataset_root: str = "",
    layout: str = "auto",
    columns: dict = {},
    file_roots: list = [],
    ignore: list = [],
    follow_links: bool = False,
    column_names: list = [],
    header: bool = False,
    delimiter: str = "",
    quoting: str = "csv",
    vocabulary: list = [],
    tensors: dict = {},
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    num_shards: int = 0,
    target_shard_bytes: int = 134217728,
    shard_multiple: int = 1,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    encoding: str = "utf-8",
    lowercase: bool = False,
    normalize: str = "",
    min_chars: int = 0,
    max_chars: int = 0,
    deduplicate: bool = False,
    tokenizer: str = "",
    keep_text: bool = True,
) -> None:
    """Convert text files and tables to a sharded, verified dataset.

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
        dataset_root: a folder on a volume that all pods share, or a bucket. The shards are stored
            there instead of in the artifact, so that no pod copies them.

    Returns:
        examples: the dataset.
    """
    given = {**locals()}
    from components.kubeflow.run import run_step

    run_step("text_example_gen", given)


@component
def audio_example_gen(
    examples: dsl.Output[dsl.Dataset],
    source: dsl.Input[dsl.Artifact] = None,
    input_base: str = "",
    input_version: str = "",
    input_patterns: dict = {},
    splits: dict = {},
    split_by: str = "",
    dataset_root: str = "",
    layout: str = "auto",
    columns: dict = {},
    file_roots: list = [],
    ignore: list = [],
    follow_links: bool = False,
    column_names: list = [],
    header: bool = False,
    delimiter: str = "",
    quoting: str = "csv",
    vocabulary: list = [],
    tensors: dict = {},
    group_by: str = "",
    stratify: bool = False,
    seed: int = 0,
    num_shards: int = 0,
    target_shard_bytes: int = 134217728,
    shard_multiple: int = 1,
    compression: str = "none",
    max_reject_fraction: float = 0.01,
    feature_names: dict = {},
    base_dataset: str = "",
    rows: str = "auto",
    label_separator: str = "",
    find_files: str = "path",
    name_pattern: str = "",
    encoding: str = "utf-8",
    sample_rate: int = 0,
    channels: int = 0,
    csv_path: str = "",
) -> None:
    """Convert audio files, in folders or tables, to a sharded, verified dataset.

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
        dataset_root: a folder on a volume that all pods share, or a bucket. The shards are stored
            there instead of in the artifact, so that no pod copies them.

    Returns:
        examples: the dataset.
    """
    given = {**locals()}
    from components.kubeflow.run import run_step

    run_step("audio_example_gen", given)


@component
def shard_balancer(
    examples: dsl.Input[dsl.Dataset],
    balanced_examples: dsl.Output[dsl.Dataset],
    more_examples: dsl.Input[dsl.Dataset] = None,
    shards_by_split: dict = {},
    dataset_root: str = "",
    num_shards: int = 0,
    target_shard_bytes: int = 134217728,
    shard_multiple: int = 1,
    shuffle: bool = True,
    balance: str = "records",
    stratify_by: str = "",
    seed: int = 0,
    compression: str = "none",
    memory_bytes: int = 1073741824,
    exclude: str = "",
    relabel: str = "",
    where: str = "",
    add: list = [],
    keep_shards: bool = False,
) -> None:
    """Rewrite one or two datasets as one, in shards of equal size and in random order.

    All other parameters are settings of ShardBalancer.

    Args:
        examples: a dataset written by tfx-shards, Datum, TFDS or a stock ExampleGen.
        more_examples: another dataset, to merge with the first.
        shards_by_split: number of shards by split, in place of num_shards.
        dataset_root: a folder on a volume that all pods share, or a bucket. The shards are stored
            there instead of in the artifact, so that no pod copies them.

    Returns:
        balanced_examples: the dataset.
    """
    given = {**locals()}
    from components.kubeflow.run import run_step

    run_step("shard_balancer", given)


@component
def schema_export(
    examples: dsl.Input[dsl.Dataset],
    datum_schema: dsl.Output[dsl.Artifact],
    datum_dataset: dsl.Output[dsl.Dataset],
    schema: dsl.Input[dsl.Artifact] = None,
    statistics: dsl.Input[dsl.Artifact] = None,
    tfds: bool = False,
) -> None:
    """Write a dataset's schema: schema.pbtxt for TFX, two JSON files for Datum, a JSON Schema.

    Args:
        examples: a dataset.
        schema: a folder with a schema.pbtxt, which must agree with the dataset.
        statistics: TFX's statistics of the dataset, which must agree with it.
        tfds: also write TFDS's two JSON files.

    Returns:
        datum_schema: schema.pbtxt alone, as TFX's components expect it.
        datum_dataset: all of the files, in a folder that Datum can open.
    """
    given = {**locals()}
    from components.kubeflow.run import run_step

    run_step("schema_export", given)


@component
def dataset_audit(
    examples: dsl.Input[dsl.Dataset],
    anomalies: dsl.Output[dsl.Artifact],
    num_findings: dsl.OutputPath(int),
    against: dsl.Input[dsl.Dataset] = None,
    fail_on: list = [],
    label: str = "label",
    most: int = 100,
) -> None:
    """Find duplicates, leakage between splits, conflicting labels, shifts and unusual images.

    All other parameters are settings of DatasetAudit.

    Args:
        examples: a dataset.
        against: an earlier dataset to compare with.

    Returns:
        anomalies: findings.json, and TFX's anomalies of each split; num_findings in its metadata.
        num_findings: number of findings, for a `dsl.If`.
    """
    given = {**locals()}
    from components.kubeflow.run import run_step

    run_step("dataset_audit", given)


@component
def dataset_report(
    examples: dsl.Input[dsl.Dataset],
    report: dsl.Output[dsl.HTML],
    statistics: dsl.Input[dsl.Artifact] = None,
    schema: dsl.Input[dsl.Artifact] = None,
    sample_records: int = 1000,
) -> None:
    """Write a page that shows the contents of a dataset. Kubeflow shows it with the run.

    Args:
        examples: a dataset written by tfx-shards, Datum, TFDS or a stock ExampleGen.
        statistics: TFX's statistics of the dataset, which the page shows next to its own.
        schema: a folder with a schema.pbtxt. The page reports where it and the dataset disagree.
        sample_records: maximum number of records to read from each split. Record counts come from
            the manifest.

    Returns:
        report: the page.
    """
    given = {**locals()}
    from components.kubeflow.run import run_step

    run_step("dataset_report", given)
