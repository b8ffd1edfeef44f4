"""The demonstration: photos or texts in, a trained model out, every artifact in ML Metadata.

python -m pipelines.examples.demo                        # makes its own photos
python -m pipelines.examples.demo my/photos              # or takes yours: a folder a class
python -m pipelines.examples.demo --text [my/texts.csv]  # the same with texts
"""

import dataclasses
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from pipelines.examples.demo_photos import make_photos
from pipelines.examples.demo_texts import make_texts

__all__ = ["main"]

FOLDER = "demo-run"
_REJECTS_ALLOWED = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demo:
    """One kind of data.

    Args:
        component: the ExampleGen's name.
        unit: what the inputs are called.
        folder: what is added to the names of the folders that runs are kept in.
        source: where the demo's own are kept, in its folder.
        makes: what is said while they are made.
        make: makes them.
    """

    component: str
    unit: str
    folder: str
    source: str
    makes: str
    make: Callable[[str], None]


_IMAGES = Demo(
    component="ImageExampleGen",
    unit="photos",
    folder="",
    source="photos",
    makes="600 photos and three broken files",
    make=make_photos,
)
_TEXTS = Demo(
    component="TextExampleGen",
    unit="texts",
    folder="-texts",
    source="texts.csv",
    makes="a table of 2,000 paragraphs by their source, and three broken rows",
    make=make_texts,
)


def main(arguments: list[str]) -> int:
    """Runs the pipeline and reports the outcome; 0 where it worked, 1 for bad input."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    warnings.filterwarnings("ignore")
    demo, sources = _IMAGES, arguments
    if arguments[:1] == ["--text"]:
        demo, sources = _TEXTS, arguments[1:]
    if len(sources) > 1:
        print("usage: python -m pipelines.examples.demo [--text] [SOURCE]", file=sys.stderr)
        return 2
    from trainer_utils import DatasetError

    try:
        _run(demo, sources[0] if sources else None)
    except DatasetError as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        return 1
    return 0


def _run(demo: Demo, source: str | None) -> None:
    started = time.monotonic()
    root = Path(FOLDER, ("yours" if source else "own") + demo.folder)
    if source is None:
        source = str(Path(FOLDER, demo.source))
        if not os.path.exists(source):
            print(f"Making {demo.makes} …")
            os.makedirs(FOLDER, exist_ok=True)
            demo.make(f"{source}.part")
            os.rename(f"{source}.part", source)
    print("Starting TFX (some ten seconds) …", flush=True)
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    from pipelines.examples.image_pipeline import create_image_pipeline
    from pipelines.examples.text_pipeline import create_text_pipeline
    from pipelines.examples.training import make_strategy
    from pipelines.examples.training_pipeline import METADATA_FILE, run_locally

    make_strategy()  # before anything starts TensorFlow, which fixes its devices
    root.mkdir(parents=True, exist_ok=True)
    print(f"Running {demo.component}, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport,")
    print("Trainer and Pusher …", flush=True)
    create_pipeline = create_image_pipeline if demo is _IMAGES else create_text_pipeline
    pipeline = create_pipeline(
        source,
        str(root),
        max_reject_fraction=_REJECTS_ALLOWED,
        num_shards={"train": 4, "eval": 2},
    )
    run_locally(pipeline)
    _summarise(demo, root, str(root / METADATA_FILE), source, time.monotonic() - started)


def _summarise(demo: Demo, root: Path, metadata: str, source: str, seconds: float) -> None:
    from components.report.inspection import inspect_dataset
    from pipelines.examples.training import METRICS_FILE
    from pipelines.tools.conversion.local_runs import latest_artifacts
    from trainer_utils.format.naming import REJECTS_FILE
    from trainer_utils.text_output import as_text, list_counts, make_table

    latest, cached = latest_artifacts(metadata)
    examples = latest[demo.component]
    manifest = inspect_dataset(examples).manifest
    assert manifest is not None
    metrics = json.loads(Path(latest["Trainer"], METRICS_FILE).read_text())
    accounting = [f"  {split}: {counts}" for split, counts in manifest.accounting.items()]
    if manifest.reject_counts:
        accounting.append(f"  rejected: {list_counts(manifest.reject_counts)}")
    places = [
        ("dataset", latest["ShardBalancer"]),
        (f"rejected {demo.unit}", os.path.join(examples, REJECTS_FILE)),
        ("schema", latest["SchemaExport"]),
        ("served model", root / "serving"),
        ("ML Metadata", metadata),
    ]
    if not manifest.reject_counts:
        del places[1]
    print(
        as_text(
            [
                "",
                f"{demo.unit.capitalize()} from {source}: {manifest.total}",
                *accounting,
                "",
                "The balanced dataset:",
                *inspect_dataset(latest["ShardBalancer"]).parts()[1:],
                "",
                f"The model was right on {metrics['eval_accuracy']:.1%} of the eval split "
                f"(chance: {1 / metrics['num_classes']:.1%}), "
                f"trained on {metrics['replicas']} replicas.",
                "",
                "Where everything is:",
                make_table(None, places, indent=2),
                "",
                f"Done in {seconds:.0f} s; components taken from the cache: {len(cached)} of 7.",
            ]
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
