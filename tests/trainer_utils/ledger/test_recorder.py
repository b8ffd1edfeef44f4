"""A run's ledger against the run's own log: restarts, other workers, damaged records."""

import collections
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from pipelines.tools.ledger import RunLedger
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature
from trainer_utils.ledger import recorder
from trainer_utils.ledger.recorder import LEDGER_FILE, LossLog, read_ledger, read_losses

SIZES = (23, 1, 36)
FEATURES = {"x": Feature(type="int"), "id": Feature(type="string")}


@pytest.fixture
def uri(tmp_path, write_dataset) -> str:
    numbers = itertools.count()
    names = [[next(numbers) for _ in range(size)] for size in SIZES]
    shards = [[{"x": [n], "id": [f"r{n}".encode()]} for n in shard] for shard in names]
    return write_dataset(tmp_path / "data", {"train": shards}, FEATURES)


def damage(uri: str, shard: int, marks: list[str]) -> None:
    """Damage the bytes of some records, so that their checksums fail."""
    path = Path(uri, "Split-train", f"data_tfrecord-{shard:05d}-of-00003")
    data = bytearray(path.read_bytes())
    for mark in marks:
        data[data.index(mark.encode())] ^= 0xFF
    path.write_bytes(data)


class Run:
    """A training run that is killed and resumed; each step's rows are logged, worker by worker."""

    def __init__(self, uri: str, folder: str, **settings) -> None:
        self.uri, self.folder, self.settings = uri, folder, settings
        self.log: list[list[tuple[int, str]]] = []
        self._saved = ""

    def go_on(self, steps: int, *, lost: int = 0, workers: int = 1) -> None:
        """Run some steps, save the last, and run some more that are lost."""
        logs, saved = [], []
        for worker in range(workers):
            progress = trainer_utils.InputProgress(self.folder)
            progress.deserialize(self._saved)
            dataset = trainer_utils.input_fn(
                self.uri,
                features="id",
                state=progress.state,
                input_context=tf.distribute.InputContext(workers, worker, workers),
                **{"repeat": True, **self.settings},
            )
            log = []
            for batch in itertools.islice(progress.follow(dataset), steps + lost):
                log.append([(worker, name) for name in rows_of(batch)])
                if len(log) == steps:
                    saved.append(progress.serialize())
            logs.append(log[:steps])
        self._saved = saved[0]
        self.log += [list(itertools.chain(*rows)) for rows in zip(*logs, strict=True)]


def rows_of(batch) -> list[str]:
    names, mask = batch if isinstance(batch, tuple) else (batch, None)
    kept = names if mask is None else tf.boolean_mask(names, mask > 0)
    return [name.decode() for name in tf.reshape(kept, [-1]).numpy()]


def check(run: Run) -> None:
    """Assert that the ledger equals the log, by step and by record."""
    told = RunLedger(run.folder)
    assert told.summary().steps == len(run.log)
    seen = collections.defaultdict(set)
    for step, logged in enumerate(run.log):
        found = told.at_step(step)
        assert [(row.worker, row.record.name) for row in found.rows] == logged, step
        for _, name in logged:
            seen[name].add(step)
    for number in range(sum(SIZES)):
        (sighting,) = told.of_place("train", number).sightings
        assert [at.step for at in sighting.steps] == sorted(seen[f"r{number}"]), number


SETTINGS = [
    {"batch_size": 8},
    {"batch_size": 8, "shuffle": 12, "remainder": "drop", "echoing": 2},
    {"batch_size": 12, "shuffle": "global", "remainder": "pad"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_run_with_restarts_other_workers_and_damage(uri, tmp_path, settings):
    damage(uri, 0, ["r3", "r17"])
    run = Run(uri, str(tmp_path / "run"), on_corrupt="skip", seed=3, **settings)
    run.go_on(5, lost=2)
    run.go_on(9, workers=2)
    run.go_on(3, workers=4, lost=1)
    run.go_on(11)
    check(run)
    assert [one.num_workers for one in read_ledger(run.folder).segments] == [1, 2, 4, 1]


def test_the_next_record_replaces_an_unreadable_one(uri, tmp_path):
    damage(uri, 0, ["r4", "r5", "r8", "r9", "r10", "r11"])
    settings = {"on_corrupt": "skip", "batch_size": 4, "shuffle": False}
    run = Run(uri, str(tmp_path / "run"), **settings)
    run.go_on(16, workers=2)
    check(run)
    assert run.log[1] == [(0, "r6"), (0, "r6"), (1, "r6"), (1, "r7")]
    assert run.log[2] == [(0, "r12"), (0, "r12"), (1, "r12"), (1, "r12")]
    told = RunLedger(run.folder)
    assert [row.stands_in for row in told.at_step(1).rows] == [True, True, False, False]
    assert [record.number for record in told.at_step(1).skipped] == [4, 5]


def test_invalid_ledgers_are_refused(tmp_path, subtests):
    for text in (None, "{", json.dumps({"version": 9}), json.dumps({"version": 2, "steps": 3})):
        with subtests.test(text=text):
            if text is not None:
                (tmp_path / LEDGER_FILE).write_text(text)
            with pytest.raises(DatasetError, match="ledger"):
                read_ledger(str(tmp_path))


# --- Losses ---


def test_kept_losses_are_read_again(tmp_path):
    """Use random runs that are killed, resume from any saved step, and save at any time."""
    for seed in range(30):
        random, folder = np.random.default_rng(seed), str(tmp_path / f"{seed}")
        expected: dict[int, dict[int, list[float]]] = {0: {}, 1: {}}
        for worker, kept in expected.items():
            saved, log, unsaved = [0], LossLog(folder, worker=worker), {}
            for _ in range(random.integers(1, 5)):
                if random.random() < 0.7:  # a new process; else the same one resumes
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


def test_few_losses_are_held_without_saving(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "_MAX_KEPT", 1000)
    monkeypatch.setattr(recorder, "_MAX_WAITING", 10)
    log = LossLog(str(tmp_path), worker=3)
    for step in range(250):
        log.add(step, np.full(10, step))
    assert [*read_losses(str(tmp_path))] == [*range(200)]
