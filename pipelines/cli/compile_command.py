"""`tfx-shards compile`: a pipeline for Kubeflow Pipelines v2."""

import importlib

import click

from pipelines.cli.console import quiet, say, verbose_option
from pipelines.cli.extra import require_tfx

__all__ = ["compile"]


@click.command(short_help="A pipeline as a package for Kubeflow Pipelines v2.")
@click.argument("pipeline")
@click.option("-o", "--output", default="pipeline.yaml", show_default=True, help="File to write.")
@click.option("--image", required=True, help="Container image with tfx-shards[tfx] in it.")
@click.option(
    "--pipeline-root", required=True, help="Where artifacts go, such as gs://bucket/runs."
)
@click.option("--name", help="Of the pipeline. Default: its own.")
@verbose_option
@click.pass_context
def compile(
    ctx: click.Context,
    pipeline: str,
    output: str,
    image: str,
    pipeline_root: str,
    name: str | None,
) -> None:
    """Write a pipeline as a package for Kubeflow Pipelines v2.

    PIPELINE is a function that makes it, as MODULE:FUNCTION or FILE.py:FUNCTION.

    \b
    tfx-shards compile my_pipeline.py:create_pipeline -o pipeline.yaml \\
        --image registry.example/tfx-shards:0.1 --pipeline-root gs://bucket/runs
    """
    require_tfx("compile")
    compile_pipeline = importlib.import_module("pipelines.kubeflow").compile_pipeline
    with quiet(ctx):
        compile_pipeline(pipeline, output, image=image, pipeline_root=pipeline_root, name=name)
    say(f"Written: {output}")
