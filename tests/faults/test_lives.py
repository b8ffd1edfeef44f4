"""Any history of a trainer that hypothesis generates reads each epoch once, or a refusal says why.

Workers start, stop and die during a step. They resume from the last token, an old one, a number of
steps or nothing, as more or fewer workers, with another batch size, order or dataset: moved,
balanced, updated with added and removed files, or with excluded records. The model is a list of
names and arithmetic on its length. The ledger of the run must match the records seen.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from pipelines.tools.ledger import RunLedger
from tests.faults.counts import some_or_many
from tests.faults.engine import STEPS
from tests.faults.test_plans import batch_sizes
from trainer_utils import ConfigError, iterate
from trainer_utils.ledger.input_ledger import InputLedger
from trainer_utils.ledger.recorder import LEDGER_FILE, InputRecorder
from trainer_utils.reading.batch_iterator import BatchIterator

QUICK, LONG = 100, 10_000  # histories
STEPS_OF_A_LIFE = 25  # maximum number of rules per history
_FIRST_FILES = 13
SETTINGS = {"layout": "folder", "splits": {"train": 1}, "target_shard_bytes": 256}


class World(NamedTuple):
    """A dataset: its folder, the names of its records, and the steps that changed its bytes."""

    uri: Path
    names: frozenset[str]
    content: tuple[str, ...]
    conversion: Path  # the base of an update
    files: tuple[int, ...]


class Worlds:
    """Datasets by the steps that created them, each created once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, ...], World] = {}

    def of(self, *done: str) -> World:
        if done not in self._made:
            self._made[done] = self._make(done)
        return self._made[done]

    def _make(self, done: tuple[str, ...]) -> World:
        uri = self._folder / "-".join(("first", *done))
        if not done:
            return self._convert(uri, tuple(range(_FIRST_FILES)), None, done)
        before, last = self.of(*done[:-1]), done[-1]
        if last == "moved":
            shutil.copytree(before.uri, uri)
            return before._replace(uri=uri)
        if last in ("more", "fewer"):
            top = before.files[-1] + 1
            files = (*before.files, *range(top, top + 4)) if last == "more" else before.files[2:]
            return self._convert(uri, files, before.conversion, done)
        left_out = [min(before.names)] if last == "excluded" else []
        STEPS["balance"](str(before.uri), str(uri), {"num_shards": 3, "exclude": left_out}, ())
        names = before.names.difference(left_out)
        return before._replace(uri=uri, names=names, content=(*before.content, last))

    def _convert(
        self, uri: Path, files: tuple[int, ...], base: Path | None, done: tuple[str, ...]
    ) -> World:
        raw = uri.with_name(f"{uri.name}-raw")
        (raw / "a").mkdir(parents=True)
        for number in files:
            (raw / f"a/{number:02}.txt").write_text(f"{number} " * 20)
        how = {**SETTINGS} if base is None else {**SETTINGS, "base_dataset": str(base)}
        STEPS["texts"](str(raw), str(uri), how, ())
        names = frozenset(f"a/{number:02}.txt" for number in files)
        return World(uri, names, done, uri, files)


class Place(NamedTuple):
    """The state of a run in the model."""

    world: World
    how: dict[str, Any]  # the settings
    size: int  # records per batch
    step: int  # step, counted over all epochs
    each: int  # steps per epoch
    seen: tuple[frozenset[str], ...]  # the records of the batches of this epoch so far
    first: int  # the first step in the ledger, counted over the run
    history: tuple[frozenset[str], ...]  # the records of each step in the ledger


class Checkpoint(NamedTuple):
    """A checkpoint for a trainer to resume."""

    token: str
    ledger: InputLedger
    place: Place


BATCHES = st.sampled_from([None, 1, 2, 3, 4, 6, 12])
WORKERS = st.integers(1, 4)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "shuffle": st.sampled_from([True, False, "global", 3]),
    "remainder": st.sampled_from([None, None, "drop", "pad", "balance"]),
    "echoing": st.sampled_from([1, 1, 2]),
    "seed": st.integers(0, 1),
}
BEGINNINGS = st.fixed_dictionaries({"batch_size": BATCHES, "repeat": st.booleans(), **FIELDS})
OTHER_ORDERS = st.one_of(*(st.fixed_dictionaries({name: FIELDS[name]}) for name in FIELDS))


class Life(RuleBasedStateMachine):
    """A run of a trainer, with its model in `place`."""

    worlds: Worlds

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-"))
        self.done: tuple[str, ...] = ()
        self.kept: list[Checkpoint] = []
        self.workers: list[Any] = []

    @initialize(how=BEGINNINGS, workers=WORKERS)
    def begin(self, how: dict[str, Any], workers: int) -> None:
        self.start(workers, how, None, None)

    @rule(steps=st.integers(1, 9))
    def train(self, steps: int) -> None:
        for _ in range(steps if self.workers else 0):
            self.take([self.next_of(worker) for worker in range(len(self.workers))])

    @rule()
    def save(self) -> None:
        if self.workers:
            (token,) = {one.state(self.place.step).to_json() for one in self.inputs}
            self.kept.append(Checkpoint(token, self.recorder.ledger, self.place))

    @rule(dying=st.integers(0, 3))
    def lose_a_worker_and_bring_it_back(self, dying: int) -> None:
        """Kill and restart a worker during a step, while the others keep their batches."""
        if self.workers:
            dying %= len(self.workers)
            batches = [self.next_of(worker) for worker in range(len(self.workers))]
            self.workers[dying].close()
            token = self.inputs[0].state(self.place.step)
            self.inputs[dying] = self.open(dying, len(self.workers), self.place, token)
            self.workers[dying] = iter(self.inputs[dying])
            batches[dying] = self.next_of(dying)
            self.take(batches)

    @rule(
        which=st.integers(0, 5),
        kind=st.sampled_from(["token", "token", "token", "count", "nothing"]),
        workers=WORKERS,
        batch_size=st.sampled_from(["same", "as many rows"]) | BATCHES,
        order=st.just({}) | st.just({}) | OTHER_ORDERS,
        ahead=st.integers(0, 3),
    )
    def die_and_go_on(
        self,
        which: int,
        kind: str,
        workers: int,
        batch_size: int | str | None,
        order: dict[str, Any],
        ahead: int,
    ) -> None:
        """Kill all workers after some took one more batch; resume from a remaining checkpoint."""
        for worker in range(min(ahead, len(self.workers))):
            self.next_of(worker)
        self.stop()
        from_here = self.kept[-1 - which % len(self.kept)] if self.kept else None
        how = (self.how if from_here is None else from_here.place.how) | order
        if batch_size == "as many rows":  # for single examples, a batch of one per worker
            how["batch_size"] = workers if from_here is None else from_here.place.size
        elif batch_size != "same":
            how["batch_size"] = batch_size
        if from_here is None or kind == "nothing":
            self.start(workers, how, None, None)
            return
        token, ledger, place = from_here
        is_same = how == place.how and self.worlds.of(*self.done).content == place.world.content
        if kind == "count" and is_same and (how["batch_size"] or workers) == place.size:
            # A number of steps identifies neither dataset nor order, and has no ledger.
            place = place._replace(first=place.step, history=())
            self.start(workers, how, place, None, token=place.step)
        else:
            self.start(workers, how, place, ledger, token=token)

    @rule(change=st.sampled_from(["moved", "balanced", "more", "fewer", "excluded"]))
    def change_the_dataset(self, change: str) -> None:
        """Change the dataset for readers started later; running ones keep the old one."""
        if len(self.done) < 3:
            self.done = (*self.done, change)

    def teardown(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(
        self,
        workers: int,
        how: dict[str, Any],
        place: Place | None,
        ledger: InputLedger | None,
        token: str | int | None = None,
    ) -> None:
        """Start all workers, unless the model expects a refusal."""
        self.how = how
        world = self.worlds.of(*self.done)
        size = how["batch_size"] or workers
        is_single = how["batch_size"] is None
        remainder = "drop" if is_single else how["remainder"]
        sizes = batch_sizes(len(world.names), size, remainder, workers)
        is_impossible = sizes is None or size % workers
        is_impossible |= is_single and how["remainder"] in ("pad", "balance")
        reasons = {"batch_size", "remainder", "workers"} if is_impossible else set[str]()
        each = len(sizes or ()) * how["echoing"]
        new = Place(world, how, size, 0, each, (), 0, ())
        if place is not None:
            new = new._replace(step=place.step, seen=place.seen)
            new = new._replace(first=place.first, history=place.history)
            reasons |= self.changes(place, new)
            new = new._replace(step=place.step // place.each * each + place.step % place.each)
        # The same records in another dataset, or a change between single examples and batches.
        may_be_refused = place is not None and (
            place.world.content != world.content or (place.how["batch_size"] is None) != is_single
        )
        refusal = None
        try:
            inputs = [self.open(one, workers, new, token) for one in range(workers)]
        except ConfigError as error:
            refusal = error
        if refusal is not None:
            assert reasons or may_be_refused, f"refused without a reason: {refusal}"
            assert refusal.setting in reasons | {"state"}, f"{reasons}: {refusal}"
            return
        assert not reasons, f"another {reasons}, and nobody says so"
        self.sizes, self.place, self.inputs = sizes or [], new, inputs
        self.workers = [iter(one) for one in inputs]
        self.recorder = InputRecorder()
        if ledger is not None:
            self.recorder.restore(ledger)
        (first, *_) = inputs
        self.recorder.begin(first)

    def changes(self, old: Place, new: Place) -> set[str]:
        """Return the changes that forbid to resume from a token."""
        order = [name for name in old.how if name != "batch_size"]
        is_other = any(old.how[name] != new.how[name] for name in order)
        is_other |= old.world.names != new.world.names
        is_within = old.step % old.each != 0
        return {"state"} if is_other or (is_within and old.size != new.size) else set()

    def open(self, worker: int, workers: int, place: Place, token: Any) -> BatchIterator:
        uri, how = str(place.world.uri), place.how
        return iterate(
            uri, "train", worker=worker, num_workers=workers, features=["id"], state=token, **how
        )

    def next_of(self, worker: int) -> dict[str, Any]:
        """Return the next batch of a worker; without `repeat` each epoch has its own iterator."""
        found: dict[str, Any] | None = next(self.workers[worker], None)
        if found is None:
            assert not self.place.how["repeat"]
            self.workers[worker] = iter(self.inputs[worker])
            found = next(self.workers[worker])
        return found

    def take(self, batches: list[dict[str, Any]]) -> None:
        """Record a step of all workers, and check that the epoch has no record twice."""
        place = self.place
        rows = [names_in(batch) for batch in batches]
        names = frozenset(name for own in rows for name in own)
        assert len(names) == sum(map(len, rows)), "a record twice in a batch"
        batch, echo = divmod(place.step % place.each, place.how["echoing"])
        assert len(names) == self.sizes[batch]
        assert max(map(len, rows)) - min(map(len, rows)) <= 1, "workers have unequal parts"
        if echo:
            assert names == place.seen[-1], "not echoed"
        else:
            assert names <= place.world.names
            assert not names.intersection(*[frozenset[str]().union(*place.seen)]), "seen before"
            place = place._replace(seen=(*place.seen, names))
        place = place._replace(step=place.step + 1, history=(*place.history, names))
        self.place = place if place.step % place.each else place._replace(seen=())
        self.recorder.count_steps()

    def stop(self) -> None:
        """Stop all workers and compare the ledger with the records seen."""
        for worker in self.workers:
            worker.close()
        if self.workers and self.place.history:
            (self.folder / LEDGER_FILE).write_text(self.recorder.ledger.to_json())
            run, place = RunLedger(str(self.folder)), self.place
            assert run.summary().steps == place.first + len(place.history)
            for number in {0, len(place.history) // 2, len(place.history) - 1}:
                rows = run.at_step(place.first + number).rows
                assert {row.record.name for row in rows} == place.history[number]
        self.workers = []


def names_in(batch: dict[str, Any]) -> list[str]:
    """Return the names of the records of a worker's batch, without padding rows."""
    names = np.atleast_1d(batch["id"])
    weights = batch.get("mask", np.ones(len(names)))
    return [name.decode() for name, weight in zip(names, weights, strict=True) if weight]


@pytest.fixture(scope="module")
def life(tmp_path_factory) -> type[Life]:
    return type("Life", (Life,), {"worlds": Worlds(tmp_path_factory.mktemp("worlds"))})


@some_or_many(QUICK, LONG)
def test_any_trainer_history_is_exactly_once_or_refused(life, count, seed):
    many = settings(
        max_examples=count, stateful_step_count=STEPS_OF_A_LIFE, derandomize=False, database=None
    )
    run_state_machine_as_test(hypothesis.seed(seed)(life), settings=many)
