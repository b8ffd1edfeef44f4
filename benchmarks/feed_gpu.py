"""Train ResNet-50 on photos with random crops, and again on a constant batch: the ratio of steps.

    python benchmarks/feed_gpu.py --workdir bench                       # one GPU: some four minutes
    python benchmarks/feed_gpu.py --framework jax --workdir bench
    python benchmarks/feed_gpu.py --tiny --workdir build/tiny           # on a CPU: some seconds

Both trainings alternate in segments of `--steps` steps in one process, and each segment ends when
the device is done. The figure is the median time of a step on the constant batch, which is on the
device already, divided by that of a step on the dataset: 1 if the input is never waited for. The
goal is 0.98. The rate of the input alone says what bounds the training. Photos are stored in three
ways: whole, with a shorter side of 256 pixels, and as raw pixels of that size.

It needs PyTorch or JAX with a GPU, and scikit-learn for the photos.
"""

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from feed_models import RESNET_50, TINY, JaxTrainer, TorchTrainer

import pipelines
import trainer_utils

GOAL = 0.98
STORED: dict[str, dict[str, Any]] = {
    "whole": {},
    "shorter side of 256": {"resize_shorter_side": 256},
    "raw, shorter side of 256": {"resize_shorter_side": 256, "encoding": "raw"},
}
_WARM_STEPS = 5


def make_photos(folder: Path, count: int, *, tiny: bool) -> None:
    """Write photos: of ImageNet's kind, or small ones of noise, which need no scikit-learn."""
    if not tiny:
        from photos import make_jpegs

        make_jpegs(folder, count=count)
        return
    import numpy as np
    from PIL import Image

    for number in range(count):
        path = folder / f"class-{number % 4}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (60, 80, 3), np.uint8)
        Image.fromarray(pixels).save(path)


def open_input(framework: str, uri: str, batch_size: int, side: int, processes: int) -> Any:
    """Return an endless input of `(images, labels)` with random crops."""
    reading = {
        "features": "image",
        "label": "label",
        "image_size": (side, side),
        "augment": ["random_resized_crop", "flip"],
        "batch_size": batch_size,
        "shuffle": "global",
        "repeat": True,
        "seed": 1,
    }
    if framework == "jax":
        return trainer_utils.jax_batches(uri, "train", processes=processes, **reading)
    import torch

    dataset = trainer_utils.torch_dataset(uri, "train", channels_first=True, **reading)
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=None,
        num_workers=processes,
        pin_memory=torch.cuda.is_available(),
        prefetch_factor=4 if processes else None,
    )


def seconds_of_step(trainer: Any, batches: Iterator[Any], steps: int) -> float:
    """Return the seconds of a step, averaged over a segment."""
    trainer.wait()
    began = time.perf_counter()
    for images, labels in itertools.islice(batches, steps):
        trainer.step(images, labels)
    trainer.wait()
    return (time.perf_counter() - began) / steps


def measure(trainer: Any, source: Any, *, steps: int, rounds: int, batch_size: int) -> Any:
    """Return images/s on the constant batch, on the dataset and of the input alone; the ratio."""
    batches = iter(source)
    constant = itertools.repeat(trainer.keep(*next(batches)))
    for segment in (constant, batches):  # compiles, and fills queues
        seconds_of_step(trainer, segment, _WARM_STEPS)
    spent: dict[str, list[float]] = {"constant": [], "dataset": []}
    for _ in range(rounds):
        spent["constant"].append(seconds_of_step(trainer, constant, steps))
        # The first steps take batches that were made during the segment before.
        seconds_of_step(trainer, batches, _WARM_STEPS)
        spent["dataset"].append(seconds_of_step(trainer, batches, steps))
    began = time.perf_counter()
    for _ in itertools.islice(batches, steps):
        pass
    alone = steps * batch_size / (time.perf_counter() - began)
    step = {name: statistics.median(each) for name, each in spent.items()}
    return {
        "constant": batch_size / step["constant"],
        "dataset": batch_size / step["dataset"],
        "input alone": alone,
        "ratio": step["constant"] / step["dataset"],
        "bound by": "the device" if step["constant"] / step["dataset"] >= GOAL else "the input",
    }


def main() -> None:
    """Measure each way of storing photos, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--framework", choices=("torch", "jax"), default="torch")
    parser.add_argument("--count", type=int, default=4000, help="photos")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--stored", choices=[*STORED], action="append", help="default: all")
    parser.add_argument("--tiny", action="store_true", help="a small model and few small photos")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    architecture, side = (TINY, 32) if given.tiny else (RESNET_50, 224)
    if given.tiny:
        given.count, given.batch_size, given.steps, given.rounds = 32, 8, 2, 2
        given.processes = min(given.processes, 2)
    photos = given.workdir / f"photos-{given.count}{'-tiny' * given.tiny}"
    make_photos(photos, given.count, tiny=given.tiny)
    trainer: Any
    if given.framework == "jax":
        trainer = JaxTrainer(architecture)
    else:
        trainer = TorchTrainer(architecture, compiled=given.compile)
    results = {}
    for stored in given.stored or STORED:
        out = given.workdir / stored.replace(" ", "-").replace(",", "")
        uri = pipelines.convert(str(photos), str(out), splits={"train": 1}, **STORED[stored]).uri
        source = open_input(given.framework, uri, given.batch_size, side, given.processes)
        results[stored] = measure(
            trainer, source, steps=given.steps, rounds=given.rounds, batch_size=given.batch_size
        )
    if given.json:
        print(json.dumps(results), flush=True)
        return
    machine = f"{trainer.name}, {given.processes} processes, {given.framework}"
    print(f"{machine}, {given.count} photos; images/s\n")
    print("| photos are stored | constant batch | dataset | input alone | ratio | bound by |")
    print("|---|---:|---:|---:|---:|---|")
    for stored, result in results.items():
        rates = " | ".join(
            f"{result[name]:,.0f}" for name in ("constant", "dataset", "input alone")
        )
        print(f"| {stored} | {rates} | {result['ratio']:.3f} | {result['bound by']} |")
    print(f"\nThe goal is {GOAL}.", flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # endless inputs have processes and threads that would make the exit wait
