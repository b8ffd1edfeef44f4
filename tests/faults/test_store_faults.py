"""Every call to an object store fails, once or permanently, or the process dies at it.

The result is one of our errors, which names the object, or the same objects. No partial dataset
looks complete, no input is rejected, and the next run without faults writes the same objects.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.input_selection import InputSelection
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from pipelines.tools.verification import verify_dataset
from tests.faults.counts import drawn, some_of_any_or_all_of_each
from tests.faults.simulated_store import FATES, SimulatedDeath, SimulatedStore, served
from trainer_utils import ConfigError, DatasetError, DatasetWriter, iterate
from trainer_utils.core.errors import InputError
from trainer_utils.format.naming import LINEAGE_FILE

QUICK = 15  # failing calls per step
OUT = "data/out"


def _convert(source: str, settings: object) -> None:
    steps.convert(InputSelection(base=f"s3://data/{source}"), f"s3://{OUT}", settings)


def _write() -> None:
    with DatasetWriter(f"s3://{OUT}", num_shards={"train": 2}) as writer:
        for number in range(20):
            writer.write("train", {"id": f"{number}", "x": number})


def _read(cache: str) -> None:
    """Read an epoch through a cache, resuming in the middle, and write it to an object."""
    from trainer_utils import storage

    settings = {"batch_size": 4, "features": "filename", "cache": cache}
    found = iterate("s3://data/dataset", "train", **settings)
    first = next(iter(found))
    rest = [*iterate("s3://data/dataset", "train", **settings, state=found.state(1))]
    text = repr([batch.tolist() for batch in (first, *rest)])
    storage.write_text(f"s3://{OUT}/batches", text, temporary_folder=f"s3://{OUT}")


class Damaged(DatasetError):
    """An error for problems that `verify` reports."""


def _verify() -> None:
    if not (found := verify_dataset("s3://data/dataset")).is_good:
        raise Damaged(f"s3://data/dataset: {found.problems}")


Task = Callable[[Path], None]
SMALL = {"target_shard_bytes": 4096, "max_reject_fraction": 0.5}
TASKS: dict[str, Task] = {
    "images": lambda _: _convert("images", ImageSettings(**SMALL)),
    "texts": lambda _: _convert("texts", TextSettings(**SMALL)),
    "sounds": lambda _: _convert("audio", AudioSettings(**SMALL)),
    "balance": lambda _: steps.balance(
        ["s3://data/dataset"], f"s3://{OUT}", BalancerSettings(num_shards=3)
    ),
    "exclude": lambda _: steps.balance(
        ["s3://data/dataset"], f"s3://{OUT}", BalancerSettings(exclude=["a/00.jpg"], num_shards=2)
    ),
    "write": lambda _: _write(),
    "read": lambda folder: _read(str(folder / "cache")),
    "verify": lambda _: _verify(),
}


@dataclasses.dataclass(frozen=True)
class Undisturbed:
    """The objects before and after an undisturbed step, and its number of calls."""

    before: dict[str, bytes]
    after: dict[str, bytes]
    calls: list[str]


def outputs(store: SimulatedStore) -> dict[str, bytes]:
    return {key: data for key, data in store.objects.items() if key.startswith(f"{OUT}/")}


@pytest.fixture(scope="session")
def world(tmp_path_factory, raw) -> Callable[[str], Undisturbed]:
    inputs = {
        f"data/{kind}/{path.relative_to(folder)}": path.read_bytes()
        for kind, folder in raw.items()
        if kind != "more"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    made = SimulatedStore(inputs)
    with served(made):
        TASKS["images"](Path())
    dataset = {f"data/dataset{key[len(OUT) :]}": data for key, data in outputs(made).items()}

    @functools.cache
    def of(step: str) -> Undisturbed:
        store = SimulatedStore({**inputs, **dataset})
        with served(store):
            store.arm(0, "")
            TASKS[step](tmp_path_factory.mktemp("undisturbed"))
        return Undisturbed({**inputs, **dataset}, outputs(store), list(store.calls))

    return of


def disturb(plain: Undisturbed, task: Task, folder: Path, call: int, fate: str, ever: bool) -> None:
    """Check a run with one or all later calls failing, and the next run without faults."""
    store = SimulatedStore(plain.before)
    print(call, fate, ever)  # the last line shows the failing case
    whole = plain.after
    said = f"call {call} ({plain.calls[call - 1]}): {fate}{' for ever' * ever}"
    caught: BaseException | None = None
    with served(store):
        store.arm(call, fate, for_ever=ever)
        try:
            task(folder)
        except BaseException as error:
            caught = error
        store.disarm()
        found = outputs(store)
        if isinstance(caught, SimulatedDeath):
            assert fate in ("DIE", "DIED"), said
        elif caught is not None:
            assert isinstance(caught, (DatasetError, ConfigError, OSError)), f"{said}: {caught!r}"
            is_rejects = isinstance(caught, InputError) and "reject" in str(caught)
            assert not is_rejects, f"{said}: {caught!r}"
            is_false = isinstance(caught, Damaged) and "cannot be read" not in str(caught)
            assert not is_false or fate == "SHORT" or ever, f"{said}: {caught!r}"
            assert "s3://data/" in str(caught), f"{said}: {caught!r}"
        elif not ever and fate == "SHORT" and plain.calls[call - 1].endswith(LINEAGE_FILE):
            lineage = f"{OUT}/{LINEAGE_FILE}"  # after a warning, the lineage starts at this step
            plain = dataclasses.replace(plain, after={**plain.after, lineage: found[lineage]})
            assert found == plain.after, said
        elif not ever:
            assert found == plain.after, said
        if f"{OUT}/manifest.json" in found:
            assert {key: found.get(key) for key in plain.after} == plain.after, said
        was_killed = isinstance(caught, SimulatedDeath) or ever  # so that it could not clean up
        refused: ConfigError | None = None
        try:
            task(folder)
        except ConfigError as error:  # the output folder is occupied
            refused = error
        if refused is not None:
            assert refused.setting == "uri", f"{said}: {refused!r}"
            assert was_killed or f"{OUT}/manifest.json" in found, f"{said}: {refused!r}"
            return
        plain = dataclasses.replace(plain, after=whole)
        assert {k: outputs(store).get(k) for k in plain.after} == plain.after, said
        left = outputs(store).keys() - plain.after.keys()
        assert not left or was_killed, f"{said}: {left}"
    assert store.objects.items() >= plain.before.items(), f"{said}: an input was changed"


@some_of_any_or_all_of_each("fate", FATES)
@pytest.mark.parametrize("step", TASKS)
def test_failed_store_call_is_an_error_without_loss(world, tmp_path, step, fate, chance):
    plain = world(step)
    for call, how in drawn(chance, fate, QUICK, range(1, len(plain.calls) + 1), FATES):
        for ever in (False, True) if how not in ("DIE", "DIED") else (False,):
            disturb(plain, TASKS[step], tmp_path / f"{call}-{how}-{ever}", call, how, ever)
