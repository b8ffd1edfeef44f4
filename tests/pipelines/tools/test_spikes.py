"""Losses by row, stored next to the ledger, and the records before a loss spike."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import trainer_utils
from pipelines.cli.app import app
from pipelines.tools.ledger import RunLedger
from pipelines.tools.spikes import find_suspects
from tests.make import write_rows
from trainer_utils import ConfigError, DatasetError, Part, Recipe
from trainer_utils.ledger.recorder import InputRecorder, LossLog, read_losses


def write(uri: Path, count: int) -> str:
    return write_rows(uri, ({"id": f"row {n}", "n": n} for n in range(count)), num_shards=4)


def record(run: str, data: Iterable[Any], losses_of: Callable[[int, Any], Any]) -> int:
    """Record the losses `losses_of(step, batch)` of each step; return the number of steps."""
    recorder, step = InputRecorder(run, losses=True), -1
    recorder.begin(data)
    for step, batch in enumerate(data):
        recorder.count_steps()
        recorder.keep_losses(losses_of(step, batch))
    recorder.save()
    return step + 1


def numbers_by_step(run: str, step: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in RunLedger(run).at_step(step).rows:
        found.setdefault(row.worker, []).append(int(row.record.name.split()[1]))
    return found


def simulated(numbers: np.ndarray, bad: set[int], level: float, random) -> np.ndarray:
    """Return losses with one row in a hundred high by itself, in every step."""
    losses = level * random.lognormal(0, 0.3, len(numbers))
    hard = (numbers * 2654435761 % 1000) < 10
    losses[hard] *= 3
    losses[np.isin(numbers, [*bad])] = level * random.uniform(4, 8)
    return losses


def rising(bad: set[int]) -> Callable[[int, np.ndarray], np.ndarray]:
    """Return a function of losses that rise in the steps after each bad row."""
    random, lift = np.random.default_rng(3), 0.0

    def losses_of(step: int, numbers: np.ndarray) -> np.ndarray:
        nonlocal lift
        losses = simulated(numbers, bad, 1 + lift, random)
        lift = 0.8 * lift + 0.5 * len(bad & {*numbers.tolist()})
        return losses

    return losses_of


def train_simulated(uri: str, run: str, bad: set[int]) -> int:
    """Simulate a run with bad rows that raise later losses; return the number of steps."""
    return record(
        run,
        trainer_utils.iterate(uri, "train", batch_size=64, seed=2, features="n"),
        rising(bad),
    )


def test_bad_rows_are_found_among_hard_rows(tmp_path):
    uri = write(tmp_path / "data", 40_000)
    bad = {*np.random.default_rng(1).choice(40_000, 20, replace=False).tolist()}
    steps = train_simulated(uri, str(tmp_path / "run"), bad)
    found = find_suspects(str(tmp_path / "run"), step=steps - 1, window=steps, most=20)
    named = {int(one.record.name.split()[1]) for one in found.suspects}
    assert len(named & bad) >= 18
    scores = [one.score for one in found.suspects]
    assert scores == sorted(scores, reverse=True)


def test_training_resumes_without_excluded_suspects(tmp_path):
    uri, run = write(tmp_path / "data", 3_000), str(tmp_path / "run")
    bad = {7, 1234}
    recipe = Recipe([Part(uri, name="rows")])
    options = {"batch_size": 20, "seed": 2, "features": "n"}
    data = trainer_utils.iterate(recipe, **options)
    assert record(run, data, rising(bad)) == 150
    steps = [*trainer_utils.iterate(recipe, **options)]
    before = next(step for step, numbers in enumerate(steps) if bad & {*numbers.tolist()})
    seen = [n for numbers in steps[:before] for n in numbers.tolist()]
    listed = str(tmp_path / "suspects.txt")
    arguments = ["ledger", run, "--spike", "149", "--window", "150", "-n", "2", "--write", listed]
    told = CliRunner().invoke(app, [*arguments, "--json"])
    assert told.exit_code == 0, told.output
    assert {one["record"]["name"] for one in json.loads(told.stdout)["suspects"]} == {
        f"row {n}" for n in bad
    }
    assert {*Path(listed).read_text().splitlines()} == {f"row {n}" for n in bad}
    from components import steps
    from components.balancing.settings import BalancerSettings

    clean = str(tmp_path / "clean")
    steps.balance([uri], clean, BalancerSettings(exclude=listed))
    state = data.state(before)
    changed = recipe.change(state, update={"rows": clean})
    for rows in trainer_utils.iterate(changed, **options, state=state):
        seen += rows.tolist()
    assert sorted(seen[:2_998]) == sorted({*range(3_000)} - bad)


def losses_of(run: str) -> Mapping[int, dict[int, list[float]]]:
    return {s: {w: x.tolist() for w, x in by.items()} for s, by in read_losses(run).items()}


@pytest.mark.parametrize("remainder", [None, "pad"])
def test_each_loss_belongs_to_its_row_on_any_worker(tmp_path, remainder):
    uri, run = write(tmp_path / "data", 100), str(tmp_path / "run")
    for worker in (0, 1):
        settings = {"worker": worker, "num_workers": 2, "remainder": remainder}
        data = trainer_utils.iterate(uri, "train", batch_size=16, features="n", **settings)
        record(run, data, lambda step, batch: batch[0] if remainder else batch)
    for step, by_worker in losses_of(run).items():
        for worker, numbers in numbers_by_step(run, step).items():
            assert by_worker[worker][: len(numbers)] == numbers
    found = find_suspects(run, step=3, window=1, most=100)
    assert all(int(one.record.name.split()[1]) == one.loss for one in found.suspects)
    assert max(one.loss for one in found.suspects) == max(
        n for some in numbers_by_step(run, 3).values() for n in some
    )


def test_tensorflow_losses_of_a_run_that_rolled_back(tmp_path):
    tf = pytest.importorskip("tensorflow", reason="InputProgress is of it")
    uri, run = write(tmp_path / "data", 64), str(tmp_path / "run")
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    def take(state, steps: int, sign: int):
        progress = trainer_utils.InputProgress(run, losses=True)
        options = {"batch_size": 8, "features": "n", "repeat": True, "state": state}
        data = trainer_utils.distribute(strategy, uri, "train", **options)
        if ledgers:
            progress.deserialize(ledgers[-1])
        for step, batch in enumerate(progress.follow(data)):
            progress.keep_losses(strategy.run(lambda n: sign * tf.cast(n, tf.float32), [batch]))
            if step == steps - 1:
                return progress
        raise AssertionError

    ledgers: list[str] = []
    ledgers.append((first := take(None, 3, 1)).serialize())
    after = take(first.state, 4, 1)
    after.serialize()  # this checkpoint is lost: the run resumes from the first one
    take(first.state, 2, -1).serialize()
    kept = losses_of(run)
    assert list(kept) == [0, 1, 2, 3, 4]
    assert all(x >= 0 for step in (0, 1, 2) for x in kept[step][0])
    assert all(x <= 0 for step in (3, 4) for x in kept[step][0])
    for step in range(5):
        assert [abs(x) for x in kept[step][0]] == numbers_by_step(run, step)[0]


def test_nan_loss_is_the_worst_and_large_loss_is_kept(tmp_path):
    uri, run = write(tmp_path / "data", 64), str(tmp_path / "run")
    data = trainer_utils.iterate(uri, "train", batch_size=8, features="n", shuffle=False)
    odd = {17: np.nan, 33: 1e30}
    record(run, data, lambda step, numbers: [odd.get(n, 1 + n % 7 / 10) for n in numbers.tolist()])
    found = find_suspects(run, step=7, window=8, most=2)
    assert [(one.record.name, one.loss) for one in found.suspects] == [
        ("row 17", None),
        ("row 33", float(np.finfo(np.float16).max)),
    ]
    assert json.dumps(found.to_json(), allow_nan=False)


def test_invalid_losses_are_refused(tmp_path, subtests):
    with pytest.raises(ConfigError):
        InputRecorder(losses=True)
    with pytest.raises(ConfigError):
        InputRecorder(str(tmp_path / "a"), losses=True).keep_losses([1.0])
    with pytest.raises(DatasetError):
        read_losses(str(tmp_path))
    log = LossLog(str(tmp_path / "b"))
    log.add(0, "words")
    with pytest.raises(ConfigError):
        log.save()
    uri, run = write(tmp_path / "data", 640), str(tmp_path / "run")
    for rows in (5, 17):
        with subtests.test(rows=rows):
            recorder = InputRecorder(str(tmp_path / "c"), losses=True)
            recorder.begin(trainer_utils.iterate(uri, "train", batch_size=16))
            recorder.count_steps()
            recorder.keep_losses(np.zeros(rows))
            with pytest.raises(ConfigError):
                recorder.save()
    steps = train_simulated(uri, run, set())
    with pytest.raises(ConfigError):
        find_suspects(run, step=steps + 300, window=10)
    (path,) = Path(run).glob("losses-*.npz")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-30], whole[: len(whole) // 2], b"x" * 99):
        with subtests.test(damaged=damaged):
            path.write_bytes(damaged)
            with pytest.raises(DatasetError) as caught:
                read_losses(run)
            assert caught.value.path == str(path)


@pytest.mark.parametrize(("times", "spike"), [(5, 70), (20, 51), (np.nan, 59)])
def test_records_before_a_diverged_loss_are_found(tmp_path, times, spike):
    uri, run = write(tmp_path / "data", 4_000), str(tmp_path / "run")
    random, culprit = np.random.default_rng(0), -1

    def losses_of(step: int, numbers: np.ndarray) -> np.ndarray:
        nonlocal culprit
        losses = 2 * random.lognormal(0, 0.3, 32)
        if step == 50:
            losses[7], culprit = 2 * times, int(numbers[7])
        return losses if step <= 50 else np.full(32, np.nan)

    record(run, trainer_utils.iterate(uri, batch_size=32, seed=1, features="n"), losses_of)
    found = find_suspects(run, step=spike, window=30).suspects
    assert found[0].record.name == f"row {culprit}"
    assert all(one.step <= 50 for one in found)


def test_ambiguous_names_are_not_written(tmp_path, subtests):
    run, listed = str(tmp_path / "run"), tmp_path / "suspects.txt"
    for name, given in (("none", {}), ("lines", {"id": "row\n1"})):
        with subtests.test(name=name):
            uri = write_rows(tmp_path / name, ({"n": n, **given} for n in range(8)), num_shards=1)
            record(
                run, trainer_utils.iterate(uri, batch_size=8), lambda step, batch: np.arange(8.0)
            )
            with pytest.raises(ConfigError):
                find_suspects(run, step=0).write(str(listed))
            assert not listed.exists()
            for path in Path(run).iterdir():
                path.unlink()
