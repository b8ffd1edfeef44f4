"""The demonstration: photos in, a trained model out, every artifact in ML Metadata.

python -m pipelines.demo               # makes its own photos
python -m pipelines.demo my/photos     # or takes yours: a folder a class
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

__all__ = ["main"]

FOLDER = "demo-run"
_REJECTS_ALLOWED = 0.01


def main(arguments: list[str]) -> int:
    """Runs the pipeline and says what came of it; 0 where it worked, 1 for bad input."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    warnings.filterwarnings("ignore")
    if len(arguments) > 1:
        print("usage: python -m pipelines.demo [FOLDER OF PHOTOS]", file=sys.stderr)
        return 2
    from trainer_utils import DatasetError

    try:
        _run(arguments[0] if arguments else None)
    except DatasetError as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        return 1
    return 0


def _run(source: str | None) -> None:
    started = time.monotonic()
    root = Path(FOLDER)
    if source is None:
        source = str(root / "photos")
        if not (root / "photos").is_dir():
            from pipelines.demo_photos import make_photos

            print("Making 600 photos and three broken files …")
            make_photos(f"{source}.part")
            os.rename(f"{source}.part", source)
        root = root / "own"
    else:
        root = root / "yours"
    print("Starting TFX (some ten seconds) …", flush=True)
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    from pipelines.image_pipeline import METADATA_FILE, create_image_pipeline, run_locally
    from pipelines.image_trainer import make_strategy

    make_strategy()  # before anything starts TensorFlow, which fixes its devices
    root.mkdir(parents=True, exist_ok=True)
    print("Running ImageExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport,")
    print("Trainer and Pusher …", flush=True)
    run_locally(
        create_image_pipeline(
            source,
            str(root),
            max_reject_fraction=_REJECTS_ALLOWED,
            num_shards={"train": 4, "eval": 2},
        )
    )
    _summarise(root, str(root / METADATA_FILE), source, time.monotonic() - started)


def _summarise(root: Path, metadata: str, source: str, seconds: float) -> None:
    from pipelines.runs import latest_artifacts
    from trainer_utils.format import Manifest
    from trainer_utils.format.naming import MANIFEST_FILE, REJECTS_FILE

    latest, cached = latest_artifacts(metadata)
    examples, balanced = latest["ImageExampleGen"], latest["ShardBalancer"]
    first = Manifest.from_json(Path(examples, MANIFEST_FILE).read_text(), path=examples)
    final = Manifest.from_json(Path(balanced, MANIFEST_FILE).read_text(), path=balanced)
    print(f"\nPhotos from {source}: {first.total}")
    for split, accounting in first.accounting.items():
        print(f"  {split}: {accounting}")
    for code, count in sorted(first.reject_counts.items()):
        print(f"  rejected: {count} {code}")
    print("\nBalanced shards:")
    for shard in final.shards:
        print(f"  {shard.path}  {shard.records} examples  {shard.bytes / 1024:.0f} KiB")
    print("\nLabels (examples by split):")
    for label in sorted({label for counts in final.label_counts.values() for label in counts}):
        numbers = ", ".join(f"{s} {c.get(label, 0)}" for s, c in final.label_counts.items())
        print(f"  {label}: {numbers}")
    metrics = _metrics(latest["Trainer"])
    print(
        f"\nThe model was right on {metrics['eval_accuracy']:.1%} of the eval split "
        f"(chance: {1 / metrics['num_classes']:.1%}), trained on {metrics['replicas']} replicas."
    )
    print("\nWhere everything is:")
    print(f"  dataset           {balanced}")
    if first.total.rejected:
        print(f"  rejected photos   {os.path.join(examples, REJECTS_FILE)}")
    print(f"  schema            {latest['SchemaExport']}")
    print(f"  served model      {root / 'serving'}")
    print(f"  ML Metadata       {metadata}")
    print(f"\nDone in {seconds:.0f} s; components taken from the cache: {len(cached)} of 7.")


def _metrics(model_run: str) -> dict[str, Any]:
    from pipelines.image_trainer import METRICS_FILE

    metrics: dict[str, Any] = json.loads(Path(model_run, METRICS_FILE).read_text())
    return metrics


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
