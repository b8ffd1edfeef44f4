"""`tfx-shards compile`: a pipeline for Kubeflow Pipelines v2."""

import importlib
from collections.abc import Callable
from typing import Any

import click

from pipelines.cli.options import verbose_option
from pipelines.cli.output import print_messages, show_progress
from pipelines.cli.process import quiet, require_tfx

__all__ = ["compile"]


_PLURALS = {"--toleration": "tolerations", "--secret": "secrets", "--volume": "volumes"}


def _step_option(flag: str, metavar: str, sentence: str) -> Callable[[Any], Any]:
    """An option of all steps, or of the one that it names; it may be given several times."""
    name = _PLURALS.get(flag, flag.removeprefix("--").replace("-", "_"))
    return click.option(flag, name, multiple=True, metavar=metavar, help=sentence)


@click.command()
@click.argument("pipeline")
@click.option("-o", "--output", default="pipeline.yaml", show_default=True, help="File to write.")
@click.option(
    "--image", help="Container image with tfx-shards[tfx] in it. A pipeline of kfp.dsl needs none."
)
@click.option(
    "--pipeline-root",
    help="Where artifacts go, such as gs://bucket/runs. A pipeline of kfp.dsl needs none.",
)
@click.option("--name", help="Name of the pipeline. Default: its own.")
@click.option(
    "--dataset-root",
    metavar="FOLDER",
    help="Where datasets go: a volume that all pods mount, or a bucket. Default: --pipeline-root.",
)
@click.option(
    "--input-fingerprint",
    metavar="listing|none",
    help="What decides whether an ExampleGen is taken from Kubeflow's cache. Default: listing.",
)
@_step_option("--gpu", "[STEP=]N", "How many GPUs.")
@_step_option("--gpu-type", "[STEP=]NAME", "Resource that is a GPU. Default: nvidia.com/gpu.")
@_step_option("--cpu", "[STEP=]N", "Cores, such as 4 or 500m.")
@_step_option("--memory", "[STEP=]N", "Memory, such as 8Gi.")
@_step_option("--retries", "[STEP=]N", "How often a failed step runs again. Default: our own, 2.")
@_step_option("--toleration", "[STEP=]KEY[=VALUE][:EFFECT]", "Taint of nodes that is tolerated.")
@_step_option(
    "--secret", "[STEP=]NAME:FOLDER", "Secret to mount, or NAME:KEY:VARIABLE, a variable of it."
)
@_step_option("--env", "[STEP=]NAME=VALUE", "Variable of the environment.")
@_step_option("--volume", "[STEP:]CLAIM:PATH", "Persistent volume claim, and where it is mounted.")
@_step_option(
    "--scratch",
    "[STEP=]PATH[:SIZE]",
    "Empty folder to mount, such as /tmp:20Gi; goes with the pod.",
)
@verbose_option
def compile(
    pipeline: str,
    output: str,
    image: str | None,
    pipeline_root: str | None,
    name: str | None,
    dataset_root: str | None,
    input_fingerprint: str | None,
    **given: tuple[str, ...],
) -> None:
    """Write a pipeline as a package for Kubeflow Pipelines v2.

    Options with STEP in them are of one step, such as Trainer, or without it of all.

    PIPELINE is `image` or `text`, a ready one, or FILE.py:FUNCTION, a function that makes one.

    \b
    tfx-shards compile image -o pipeline.yaml \\
        --image registry.example/tfx-shards:0.2.0 --pipeline-root gs://bucket/runs
    """
    if ":" not in pipeline:  # a pipeline of kfp.dsl needs none
        require_tfx(f"compile {pipeline}")
    plain = {"dataset_root": dataset_root, "input_fingerprint": input_fingerprint}
    others: dict[str, Any] = {option: text for option, text in plain.items() if text is not None}
    for option, texts in given.items():
        if texts:
            others[option] = list(texts)
    compile_pipeline = importlib.import_module("pipelines.kubeflow").compile_pipeline
    with quiet(), show_progress("Compiling"):
        compile_pipeline(
            pipeline, output, image=image, pipeline_root=pipeline_root, name=name, **others
        )
    print_messages(f"Written: {output}")
