"""Measure how well loss spikes find bad records, and the cost of keeping the loss of every row.

    python benchmarks/spikes.py

Twenty of a million records are bad; recall is their share among the first twenty suspects. Losses
are simulated and lognormal. One good record in a thousand, then in a hundred, is three times as
high whenever it comes, a bad one four to eight times. Each bad one raises the losses of the steps
after it by half, which fades. The cost of a step is the CPU of `keep_losses` and the saves, for 256
rows, relative to a step that trains for 100 ms.
"""

import os
import tempfile
import time

import numpy as np

import trainer_utils
from pipelines.tools.spikes import find_suspects
from trainer_utils.ledger.recorder import InputRecorder

RECORDS, BATCH, BAD, SAVE_EVERY, STEP_SECONDS = 1_000_000, 256, 20, 500, 0.1


def main() -> None:
    """Print the recall, the overhead and the bytes of three draws."""
    with tempfile.TemporaryDirectory() as folder:
        uri = os.path.join(folder, "data")
        with trainer_utils.DatasetWriter(uri, num_shards=16) as writer:
            for number in range(RECORDS):
                writer.write("train", {"id": f"row {number}", "n": number})
        for hard in (0.001, 0.01):
            for seed in range(3):
                measure(uri, os.path.join(folder, f"run {hard} {seed}"), seed, hard)


def measure(uri: str, run: str, seed: int, hard: float) -> None:
    """Simulate one run, and print the recall and costs."""
    random = np.random.default_rng(seed)
    bad = random.choice(RECORDS, BAD, replace=False)
    data = trainer_utils.iterate(uri, "train", batch_size=BATCH, seed=seed, features="n")
    recorder, spent, lift, steps = InputRecorder(run, losses=True), 0.0, 0.0, 0
    recorder.begin(data)
    for numbers in data:
        level = (1 + lift) * (2 + 6 / (1 + steps / 300))  # losses fall during training
        losses = level * random.lognormal(0, 0.3, len(numbers))
        losses[numbers * 2654435761 % 1000 < 1000 * hard] *= 3
        is_bad = np.isin(numbers, bad)
        losses[is_bad] = level * random.uniform(4, 8, is_bad.sum())
        lift = 0.8 * lift + 0.5 * is_bad.sum()
        steps += 1
        recorder.count_steps()
        began = time.process_time()
        recorder.keep_losses(losses)
        if steps % SAVE_EVERY == 0:
            recorder.save()
        spent += time.process_time() - began
    recorder.save()
    began = time.perf_counter()
    found = find_suspects(run, step=steps - 1, window=steps, most=BAD)
    seconds = time.perf_counter() - began
    named = {int(one.record.name.split()[1]) for one in found.suspects}
    size = sum(e.stat().st_size for e in os.scandir(run) if e.name.startswith("losses"))
    print(
        f"{hard:.1%} hard: recall at {BAD}: {len(named & {*bad.tolist()}) / BAD:.2f}, "
        f"found in {seconds:.1f} s; "
        f"{spent / steps * 1e6:.0f} us a step, {spent / steps / STEP_SECONDS:.3%} of it; "
        f"{size / steps:.0f} bytes a step"
    )


if __name__ == "__main__":
    main()
