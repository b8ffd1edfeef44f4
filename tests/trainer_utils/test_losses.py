"""Losses of rows, written and read again: against a log of which nothing was written."""

import numpy as np

from trainer_utils import recording
from trainer_utils.recording import LossLog, read_losses


def test_what_was_kept_is_read_again(tmp_path):
    """By random runs that are killed, go on from any step that was saved, and save at any time."""
    for seed in range(30):
        random, folder = np.random.default_rng(seed), str(tmp_path / f"{seed}")
        expected: dict[int, dict[int, list[float]]] = {0: {}, 1: {}}
        for worker, kept in expected.items():
            saved, log, unsaved = [0], LossLog(folder, worker=worker), {}
            for _ in range(random.integers(1, 5)):
                if random.random() < 0.7:  # a new process; else one that goes back by itself
                    log, unsaved = LossLog(folder, worker=worker), {}
                start = int(random.choice(saved))
                for step in range(start, start + random.integers(1, 90)):
                    if random.random() < 0.8:
                        values = random.integers(0, 99, random.integers(1, 5)).astype(float)
                        log.add(step, values)
                        unsaved = {n: v for n, v in unsaved.items() if n < step}
                        unsaved[step] = values.tolist()
                    if random.random() < 0.1:
                        log.save()
                        for old in [n for n in kept if unsaved and n >= min(unsaved)]:
                            del kept[old]
                        kept.update(unsaved)
                        unsaved = {}
                        saved.append(step + 1)
        if not any(expected.values()):
            continue
        first, stop = sorted(random.integers(0, 200, 2).tolist())
        for some, within in (
            (read_losses(folder), range(1000)),
            (read_losses(folder, start=first, stop=stop), range(first, stop)),
        ):
            for worker, kept in expected.items():
                found = {n: one[worker].tolist() for n, one in some.items() if worker in one}
                assert found == {n: values for n, values in kept.items() if n in within}


def test_little_is_held_where_nobody_saves(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "_MOST_KEPT", 1000)
    monkeypatch.setattr(recording, "_MOST_WAITING", 10)
    log = LossLog(str(tmp_path), worker=3)
    for step in range(250):
        log.add(step, np.full(10, step))
    assert [*read_losses(str(tmp_path))] == [*range(200)]
