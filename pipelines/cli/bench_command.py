"""`tfx-shards bench`: how fast each stage of reading is on this machine."""

import sys
from typing import Any

import click

from pipelines.cli.options import dataset_argument, json_option, verbose_option
from pipelines.cli.output import print_facts, print_messages
from pipelines.cli.process import quiet
from pipelines.cli.values import Size, parse_json_or_text

__all__ = ["bench"]


@click.command()
@dataset_argument
@click.option("--split", default="train", show_default=True, help="A split, or a slice of one.")
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Seconds to measure each of the three stages.",
)
@click.option(
    "--image-size",
    type=Size(),
    help="Height and width that images are resized to. Default: 224x224 where they differ.",
)
@click.option("--features", help="Names separated by commas. Default: all that can be batched.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting of input_fn, such as augment=random_resized_crop.",
)
@json_option
@verbose_option
def bench(
    uri: str,
    split: str,
    batch_size: int,
    seconds: float,
    image_size: tuple[int, int] | None,
    features: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure how fast this machine reads a dataset, and what bounds it.

    Records/s and MB/s of each stage (read, decode, batch), the stage that costs most, and
    what a training step must cost at least so that it never waits for the input.

    \b
    tfx-shards bench out/
    tfx-shards bench out/ --batch-size 256 --image-size 224x224 --features image,label
    tfx-shards bench out/ --set augment=random_resized_crop --set 'image={"normalize": "imagenet"}'
    """
    from components.report.inspection import inspect_dataset
    from trainer_utils.monitoring import measure_input

    facts = inspect_dataset(uri)
    options: dict[str, Any] = dict(map(parse_json_or_text, settings))
    if features is not None:
        options["features"] = [name.strip() for name in features.split(",")]
    if image_size is None and any(
        feature.is_image and not feature.is_fixed_size
        for feature in (facts.features or {}).values()
    ):
        image_size = 224, 224  # images of several sizes make no batch
    if image_size is not None:
        options["image_size"] = image_size
    with quiet():
        if sys.stderr.isatty():  # a line that moves would be measured as well
            print_messages(f"Measuring, three times {seconds:g} s …")
        report = measure_input(uri, split, batch_size=batch_size, seconds=seconds, **options)
    print_facts(report.to_dict, report.parts, as_json=as_json)
