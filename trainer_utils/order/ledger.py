"""`InputLedger`: what a run leaves, so that which records it saw at which step can be told later.

    ledger = InputLedger(plans=[plan], stretches=[stretch])
    InputLedger.from_json(ledger.to_json()) == ledger

It holds no record but those that could not be read: what was read in which order, and each stretch
of steps from one start of a process to the next. Some hundred bytes, and eighty a resume. The
records follow from these and the dataset; see `trainer_utils.order.history`.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainer_utils.format import DatasetError
from trainer_utils.format.file_ranges import FileRange
from trainer_utils.format.json_text import JsonObject, parse_json_object
from trainer_utils.order.input_order import InputOrder
from trainer_utils.order.options import OrderOptions
from trainer_utils.order.state import InputState

__all__ = ["InputLedger", "ReadPlan", "Runs", "Stretch", "merge_ledgers", "plan_of", "runs_of"]

_VERSION = 1
_ORDER_SETTINGS = (
    "batch_size",
    "shuffle",
    "shuffle_bytes",
    "seed",
    "remainder",
    "drop_remainder",
    "weights",
    "echoing",
    "on_corrupt",
)

Runs = Mapping[int, Sequence[tuple[int, int]]]
"""Records by the number of their file in an order: the first of each run of them, and how many."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadPlan:
    """What was read, and in which order.

    Args:
        datasets: the place of each, and the slices of it.
        settings: those of `OrderOptions` that say which record comes when.
        token: of the first step, with the dataset's digest and the lanes.
        mean_record_bytes: of the datasets, of which windows in bytes are made.
        keeps_pairs: as of `OrderOptions`.
    """

    datasets: Sequence[tuple[str | Sequence[str], str]]
    settings: Mapping[str, Any]
    token: InputState
    mean_record_bytes: float | None = None
    keeps_pairs: bool = False

    def order(
        self, ranges: Sequence[FileRange], *, digest: str, num_workers: int, num_replicas: int
    ) -> InputOrder:
        """The order again.

        Args:
            ranges: the parts of files of the datasets, as `mix_ranges` has them.
            digest: of the datasets as they are now.
            num_workers, num_replicas: of the stretch.

        Raises:
            ConfigError: the datasets are not those that were read.
        """
        kind = _PairedOptions if self.keeps_pairs else OrderOptions
        return InputOrder(
            ranges,
            kind(**self.settings, state=self.token),
            num_workers=num_workers,
            num_replicas=num_replicas,
            mean_record_bytes=self.mean_record_bytes,
            digest=digest,
        )

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: JsonObject) -> "ReadPlan":
        """What `to_json` gave."""
        datasets = [(_place(place), str(split)) for place, split in value["datasets"]]
        token = InputState(**value["token"])
        return cls(**{**value, "datasets": datasets, "token": token})


class _PairedOptions(OrderOptions):
    @property
    def keeps_pairs(self) -> bool:
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps that one start of a process made, one after the other.

    Args:
        plan: which of the ledger's plans they are of.
        first_step: the number of the first, of all steps of the run, from 0.
        steps: how many.
        start: the first one's place in the order, over all epochs.
        num_workers, num_replicas: that took part.
        skipped: records that could not be read.
        lost: batches that were left out since none of their records could be read: their numbers
            over all epochs, each of `echoing` as one.
    """

    plan: int
    first_step: int
    steps: int
    start: int
    num_workers: int
    num_replicas: int
    skipped: Runs = dataclasses.field(default_factory=dict)
    lost: Sequence[int] = ()

    @property
    def stop_step(self) -> int:
        """The number of the step after its last."""
        return self.first_step + self.steps

    def place_of(self, step: int, echoing: int) -> int:
        """The place in the order, over all epochs, of a step of the run."""
        place = self.start + step - self.first_step
        for lost in self._lost_from_start(echoing):
            if lost * echoing <= place:
                place += echoing
        return place

    def step_at(self, place: int, echoing: int) -> int | None:
        """The step of the run at a place in the order; None: it is none of this stretch's."""
        lost = self._lost_from_start(echoing)
        if place < self.start or place // echoing in lost:
            return None
        before = sum(number * echoing < place for number in lost)
        step = self.first_step + place - self.start - before * echoing
        return step if step < self.stop_step else None

    def _lost_from_start(self, echoing: int) -> list[int]:
        return sorted(number for number in self.lost if number * echoing >= self.start)

    def to_json(self) -> JsonObject:
        """Plain JSON types, without what is empty."""
        fields = dataclasses.asdict(self)
        fields["skipped"] = {str(file): runs for file, runs in sorted(self.skipped.items())}
        return {name: value for name, value in fields.items() if value or type(value) is int}

    @classmethod
    def from_json(cls, value: JsonObject) -> "Stretch":
        """What `to_json` gave."""
        skipped = {
            int(file): tuple((int(first), int(count)) for first, count in runs)
            for file, runs in value.get("skipped", {}).items()
        }
        stretch = cls(**{**value, "skipped": skipped, "lost": tuple(value.get("lost", ()))})
        numbers = [getattr(stretch, field.name) for field in dataclasses.fields(cls)[:6]]
        if not all(type(number) is int and number >= 0 for number in [*numbers, *stretch.lost]):
            raise ValueError(f"a stretch of numbers from 0 on, got {value!r}")
        return stretch

    def joined(self, other: "Stretch") -> "Stretch":
        """The same with what another worker could not read too."""
        skipped: dict[int, list[int]] = {}
        for runs in (self.skipped, other.skipped):
            for file, numbers in runs.items():
                skipped.setdefault(file, []).extend(_numbers(numbers))
        return dataclasses.replace(
            self,
            skipped={file: _to_runs(numbers) for file, numbers in sorted(skipped.items())},
            lost=tuple(sorted({*self.lost, *other.lost})),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputLedger:
    """A run's plans and its stretches in order, each from where the one before it ended."""

    plans: Sequence[ReadPlan] = ()
    stretches: Sequence[Stretch] = ()

    @property
    def steps(self) -> int:
        """Of the run."""
        return self.stretches[-1].stop_step if self.stretches else 0

    def with_stretch(self, plan: ReadPlan, stretch: Stretch) -> "InputLedger":
        """The same and a stretch of a plan, whatever number it says of that."""
        plans = list(self.plans)
        if plan not in plans:
            plans.append(plan)
        added = dataclasses.replace(stretch, plan=plans.index(plan))
        stretches = [one for one in self.stretches if one.steps]
        return InputLedger(plans=tuple(plans), stretches=(*stretches, added))

    def to_json(self) -> str:
        """One line of text."""
        facts = {
            "version": _VERSION,
            "plans": [plan.to_json() for plan in self.plans],
            "stretches": [stretch.to_json() for stretch in self.stretches],
        }
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, path: str = "ledger") -> "InputLedger":
        """Reads what `to_json` made.

        Args:
            text: of a ledger.
            path: of its file, for messages.

        Raises:
            DatasetError: it is none, or of another version.
        """
        facts = parse_json_object(text, path=path)
        if facts.get("version") != _VERSION:
            raise DatasetError(
                f"{path!r}: expected a ledger of version {_VERSION}, got version "
                f"{facts.get('version')!r}. Read it with the release of tfx-shards that wrote it.",
                path=path,
            )
        try:
            plans = tuple(map(ReadPlan.from_json, facts["plans"]))
            stretches = tuple(map(Stretch.from_json, facts["stretches"]))
            if any(stretch.plan >= len(plans) for stretch in stretches):
                raise ValueError("a plan for each stretch")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DatasetError(
                f"{path!r}: expected a ledger as InputProgress writes it, got {error!r}. "
                "Take it from another checkpoint.",
                path=path,
            ) from error
        return cls(plans=plans, stretches=stretches)


def plan_of(
    order: InputOrder,
    datasets: Sequence[tuple[str | Sequence[str], str]],
    mean_record_bytes: float | None,
) -> ReadPlan:
    """What a ledger keeps of an order.

    Args:
        order: of the input.
        datasets: the place of each that is read, and the slices of it.
        mean_record_bytes: as the order was given.
    """
    options = order.options
    settings = {name: getattr(options, name) for name in _ORDER_SETTINGS}
    if options.batch_size is not None:
        settings["batch_size"] = order.layout.batch_size
    if options.weights is not None:
        settings["weights"] = [float(weight) for weight in options.weights]
    return ReadPlan(
        datasets=[(_place(place), split) for place, split in datasets],
        settings=settings,
        token=dataclasses.replace(order.state(0), num_workers=1),
        mean_record_bytes=mean_record_bytes,
        keeps_pairs=options.keeps_pairs,
    )


def _place(place: str | Sequence[str]) -> str | list[str]:
    return place if isinstance(place, str) else list(place)


def runs_of(records: Iterable[tuple[str, int]], order: InputOrder) -> Runs:
    """Records by path and number as a ledger has them."""
    files = {path: number for number, path in enumerate(order.paths)}
    found: dict[int, list[int]] = {}
    for path, number in records:
        found.setdefault(files[path], []).append(number)
    return {file: _to_runs(numbers) for file, numbers in sorted(found.items())}


def _to_runs(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and sum(runs[-1]) == number:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((number, 1))
    return tuple(runs)


def _numbers(runs: Iterable[tuple[int, int]]) -> Iterable[int]:
    for first, count in runs:
        yield from range(first, first + count)


def merge_ledgers(ledger: InputLedger, others: Iterable[InputLedger]) -> InputLedger:
    """A ledger with what other workers of the same run could not read.

    Args:
        ledger: of one worker.
        others: of other workers, or older ones of the same: stretches that began alike are taken
            for the same, all else is left out.
    """
    stretches = {_identity(ledger, stretch): stretch for stretch in ledger.stretches}
    for other in others:
        for stretch in other.stretches:
            identity = _identity(other, stretch)
            if identity in stretches:
                stretches[identity] = stretches[identity].joined(stretch)
    return InputLedger(plans=ledger.plans, stretches=tuple(stretches.values()))


def _identity(ledger: InputLedger, stretch: Stretch) -> tuple[object, ...]:
    plan = json.dumps(ledger.plans[stretch.plan].to_json()["token"])
    return plan, stretch.first_step, stretch.start, stretch.num_workers, stretch.num_replicas
