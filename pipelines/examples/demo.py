"""The demonstration: train a model on photos, with every artifact in ML Metadata.

python -m pipelines.examples.demo                        # with generated photos
python -m pipelines.examples.demo my/photos              # with your photos: a folder per class
"""

import json
import os
import sys
import time
from pathlib import Path

from pipelines.noise import silence_process

FOLDER = "demo-run"


def main(arguments: list[str]) -> int:
    """Run the pipeline and print the results; return 0, 1 for bad input, 2 for bad usage."""
    silence_process(lambda warning: None)
    if len(arguments) > 1:
        print("usage: python -m pipelines.examples.demo [PHOTOS]", file=sys.stderr)
        return 2
    from trainer_utils.core.errors import TfxShardsError

    try:
        _run(*arguments)
    except TfxShardsError as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        return 1
    return 0


def _run(source: str | None = None) -> None:
    started = time.monotonic()
    root = Path(FOLDER, "yours" if source else "own")
    photos = source or _make_photos()
    print("Starting TFX (some ten seconds) …", flush=True)
    from pipelines.examples.training import make_strategy
    from pipelines.examples.training_pipeline import create_image_pipeline, run_locally

    make_strategy()  # first, because the devices cannot change once TensorFlow has started
    root.mkdir(parents=True, exist_ok=True)
    print("Running ImageExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport,")
    print("Trainer and Pusher …", flush=True)
    run_locally(create_image_pipeline(photos, str(root), num_shards={"train": 4, "eval": 2}))
    _summarise(root, photos, time.monotonic() - started)


def _make_photos() -> str:
    photos = Path(FOLDER, "photos")
    if not photos.exists():
        from pipelines.examples.demo_photos import make_photos

        print("Making 600 photos and three broken files …")
        os.makedirs(FOLDER, exist_ok=True)
        make_photos(f"{photos}.part")
        os.rename(f"{photos}.part", photos)
    return str(photos)


def _summarise(root: Path, source: str, seconds: float) -> None:
    """Print the accounting, the balanced dataset, the model's accuracy and the output folders."""
    from components.report.inspection import inspect_dataset
    from pipelines.examples.training import METRICS_FILE
    from pipelines.lineage import list_runs
    from pipelines.tools.conversion import METADATA_FILE
    from trainer_utils.core.text_output import Part, as_text, list_counts, make_table
    from trainer_utils.format.naming import REJECTS_FILE

    def newest(output: str) -> str:
        return str(max((root / "artifacts" / output).iterdir(), key=lambda path: int(path.name)))

    run = list_runs(str(root / METADATA_FILE)).runs[0]
    cached = sum(execution.is_cached for execution in run.executions)
    examples = newest("ImageExampleGen/examples")
    balanced = newest("ShardBalancer/balanced_examples")
    manifest = inspect_dataset(examples).manifest
    assert manifest is not None
    metrics = json.loads(Path(newest("Trainer/model_run"), METRICS_FILE).read_text())
    accounting = [f"  {split}: {counts}" for split, counts in manifest.accounting.items()]
    places = [("dataset", balanced)]
    if manifest.reject_counts:
        accounting.append(f"  rejected: {list_counts(manifest.reject_counts)}")
        places.append(("rejected inputs", os.path.join(examples, REJECTS_FILE)))
    places += [
        ("schema", newest("SchemaExport/datum_schema")),
        ("served model", str(root / "serving")),
        ("ML Metadata", str(root / METADATA_FILE)),
    ]
    right, chance = metrics["eval_accuracy"], 1 / metrics["num_classes"]
    parts: list[Part] = ["", f"Inputs from {source}: {manifest.total}", *accounting]
    parts += ["", "The balanced dataset:", *inspect_dataset(balanced).parts()[1:], ""]
    parts += [
        f"The model was right on {right:.1%} of the eval split (chance: {chance:.1%}), "
        f"trained on {metrics['replicas']} replicas."
    ]
    parts += ["", "Where everything is:", make_table(None, places, indent=2), ""]
    parts += [f"Done in {seconds:.0f} s; components taken from the cache: {cached} of 7."]
    print(as_text(parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
