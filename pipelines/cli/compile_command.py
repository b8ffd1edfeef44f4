"""`tfx-shards compile`: a pipeline for Kubeflow Pipelines v2."""

import importlib
from typing import Any

import click

from pipelines.cli.options import verbose_option
from pipelines.cli.output import print_messages
from pipelines.cli.process import quiet, require_tfx

__all__ = ["compile"]


@click.command()
@click.argument("pipeline")
@click.option("-o", "--output", default="pipeline.yaml", show_default=True, help="File to write.")
@click.option("--image", required=True, help="Container image with tfx-shards[tfx] in it.")
@click.option(
    "--pipeline-root", required=True, help="Where artifacts go, such as gs://bucket/runs."
)
@click.option("--name", help="Name of the pipeline. Default: its own.")
@click.option(
    "--dataset-root",
    metavar="FOLDER",
    help="Where datasets go: a volume that all pods mount, or gs://. Default: --pipeline-root.",
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="CLAIM=PATH",
    help="Persistent volume claim, and where each container mounts it.",
)
@verbose_option
@click.pass_context
def compile(
    ctx: click.Context,
    pipeline: str,
    output: str,
    image: str,
    pipeline_root: str,
    name: str | None,
    dataset_root: str | None,
    volumes: tuple[str, ...],
) -> None:
    """Write a pipeline as a package for Kubeflow Pipelines v2.

    PIPELINE is `image` or `text`, a ready one, or FILE.py:FUNCTION, a function that makes one.

    \b
    tfx-shards compile image -o pipeline.yaml \\
        --image registry.example/tfx-shards:0.1 --pipeline-root gs://bucket/runs
    """
    require_tfx("compile")
    others: dict[str, Any] = {} if dataset_root is None else {"dataset_root": dataset_root}
    if volumes:
        others["volumes"] = dict(map(_volume, volumes))
    compile_pipeline = importlib.import_module("pipelines.kubeflow").compile_pipeline
    with quiet(ctx):
        compile_pipeline(
            pipeline, output, image=image, pipeline_root=pipeline_root, name=name, **others
        )
    print_messages(f"Written: {output}")


def _volume(text: str) -> tuple[str, str]:
    claim, found, path = text.partition("=")
    if not (claim and found and path):
        raise click.BadParameter(f"expected CLAIM=PATH, got {text!r}", param_hint="--volume")
    return claim, path
