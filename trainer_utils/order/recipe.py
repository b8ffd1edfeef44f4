"""`Recipe`: what is read and in which shares, as one object or as YAML, and how that changes.

recipe = Recipe([Part("data/web", name="web", weight=3), Part("data/books", name="books")],
                schedule=[(10_000, {"web": 1})])
recipe = recipe.change(token, add=[Part("data/code", name="code")], drop=["web"])
"""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.settings import number, one_of
from trainer_utils.order.input_order import check_state
from trainer_utils.order.mixing import WeightSchedule

_STAIRS = 32  # of a slope between two steps

Change = tuple[int, Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Part:
    """One dataset of a recipe.

    Args:
        uri: as `input_fn` takes it, of one dataset.
        name: by which the schedule calls it; its order follows from it. Empty: the uri.
        split: slices, such as `train[:80%]`. None: as `input_fn` has it.
        weight: how often its records come, in any unit, until the schedule says otherwise.
        after: the part that was an older version of this one. What it gave in its last epoch does
            not come in the first epoch of this one; so its dataset has to stay where it is.
    """

    uri: Any
    name: str = dataclasses.field(default="", kw_only=True)
    split: str | None = dataclasses.field(default=None, kw_only=True)
    weight: float = dataclasses.field(default=1.0, kw_only=True)
    after: "Part | None" = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.name or self.place))
        if isinstance(self.after, Mapping):
            object.__setattr__(self, "after", Part(**self.after))

    @property
    def place(self) -> str:
        """The uri as text."""
        return str(getattr(self.uri, "uri", self.uri))

    def to_dict(self) -> dict[str, Any]:
        """The part as what YAML and JSON can hold."""
        after = self.after and self.after.to_dict()
        shown = {**vars(self), "uri": self.place, "after": after}
        return {name: value for name, value in shown.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Datasets to mix, and their weights by the steps of a run.

    Args:
        parts: the datasets.
        schedule: steps, counted over all epochs, from which on parts have other weights; parts that
            are not named keep theirs, and weight 0 is a rest. In steps that a run has behind it,
            names of parts may stand that are gone.
        interpolation: `"stages"`: weights change at those steps. `"linear"`: they change evenly
            from each of them to the next, in 32 stairs.
        epoch_records: of an epoch, which is only what Keras and tokens count by: each part begins
            its own next epoch when all of its records have come. None: as many as it takes until
            every record of each part of the first stage has come.

    Raises:
        ConfigError: a name is not known or comes twice, steps are not in order, or weights are no
            numbers from 0 on whose shares are at least 1/10,000.
    """

    parts: Sequence[Part]
    schedule: Sequence[Change] = dataclasses.field(default=(), kw_only=True)
    interpolation: str = dataclasses.field(default="stages", kw_only=True)
    epoch_records: int | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Part) for part in self.parts):
            raise ConfigError.of("parts", self.parts, allowed="a list of Part(uri, …)")
        one_of("stages", "linear")("interpolation", self.interpolation)
        if self.epoch_records is not None:
            records = number(1)("epoch_records", self.epoch_records)
            object.__setattr__(self, "epoch_records", records)
        for change in self.schedule:
            is_pair = isinstance(change, (tuple, list)) and len(change) == 2
            if not is_pair or type(change[0]) is not int or not isinstance(change[1], Mapping):
                rule = "pairs of a step from 0 on and weights by the names of parts"
                raise ConfigError.of("schedule", change, allowed=rule)
        _ = self.weights

    @property
    def weights(self) -> WeightSchedule:
        """The weights as `input_fn` takes them for the parts' datasets."""
        changes = self._changes()
        stages = _with_slopes(changes) if self.interpolation == "linear" else changes
        older = {}
        for part in self.parts:
            while part.after is not None:
                older[part.name] = part.after.name, part.after.place, part.after.split
                part = part.after
        return WeightSchedule(
            names=[part.name for part in self.parts],
            stages=stages,
            epoch_records=self.epoch_records,
            older=older,
        )

    def _changes(self) -> list[Change]:
        """The weights of all parts from each step on."""
        now = {part.name: part.weight for part in self.parts}
        changes: list[Change] = [] if self.schedule and self.schedule[0][0] == 0 else [(0, now)]
        for step, weights in self.schedule:
            now = {**now, **{str(name): weight for name, weight in weights.items()}}
            changes.append((step, now))
        if [step for step, _ in changes] != sorted({step for step, _ in changes}):
            steps = [step for step, _ in self.schedule]
            raise ConfigError.of("schedule", steps, allowed="steps in rising order, from 0 on")
        return changes

    def change(
        self,
        state: Any,
        *,
        add: Sequence[Part] = (),
        drop: Collection[str] = (),
        reweight: Mapping[str, float] | None = None,
        update: Mapping[str, Any] | None = None,
    ) -> "Recipe":
        """The recipe that goes on from a token with other parts or weights.

        What stays is read on where it is, what comes in from its beginning.

        Args:
            state: the token to go on from, of a run with this recipe.
            add: parts that come in.
            drop: names of parts that go; their datasets are not opened any more.
            reweight: names of parts that stay, and their weights from now on.
            update: names of parts whose dataset has a newer version, and the uri of that. The part
                is called `name@2` from now on, and what it gave in this epoch does not come again.

        Raises:
            ConfigError: a name is not known or comes twice, or the token is of no mixture.
        """
        token = check_state(state)
        if token is None or token.mix is None:
            raise ConfigError.of("state", state, allowed="a token of state(step) of a recipe")
        step, stages = token.epoch * token.mix.steps + token.step, self.weights.stages
        own, reweight = {part.name: part for part in self.parts}, reweight or {}
        newer = {name: _next_name(name) for name in update or {}}
        for name in (*drop, *reweight, *newer):
            if name not in own:
                meant = did_you_mean(name, own).strip()
                rule = f"one of the parts {', '.join(own)}"
                raise ConfigError.of("change", name, allowed=rule, advice=meant)
        now = [weights for at, weights in stages if at <= step][-1]
        now = {**now, **dict.fromkeys(drop, 0.0), **reweight}
        for name, uri in (update or {}).items():
            old = dataclasses.replace(own[name], weight=1.0)
            new = Part(uri, name=newer[name], split=old.split, weight=now[name], after=old)
            add = [*add, new]
        known, gone = {name for _, weights in self._changes() for name in weights}, {*drop, *newer}
        for part in add:
            if part.name in known:
                rule = "a name that no part has or had"
                raise ConfigError.of("add", part.name, allowed=rule)
        added = {part.name: part.weight for part in add}
        schedule = [(at, dict(weights)) for at, weights in stages if at < step]
        schedule.append((step, {**now, **dict.fromkeys(gone, 0.0), **added}))
        for at, weights in stages:
            if at > step:
                left = {
                    newer.get(n, n): w for n, w in weights.items() if n in newer or n not in gone
                }
                schedule.append((at, left))
        schedule[0] = 0, {**dict.fromkeys(added, 0.0), **schedule[0][1]}
        return Recipe(
            [*(part for name, part in own.items() if name not in gone), *add],
            schedule=schedule,
            epoch_records=token.mix.records,
        )

    def to_dict(self) -> dict[str, Any]:
        """The recipe as what YAML and JSON can hold."""
        return {
            "parts": [part.to_dict() for part in self.parts],
            "schedule": [{"step": step, "weights": dict(some)} for step, some in self.schedule],
            "interpolation": self.interpolation,
            "epoch_records": self.epoch_records,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Recipe":
        """What `to_dict` gave, or somebody wrote."""
        try:
            parts = [Part(**part) for part in value["parts"]]
            schedule = [(one["step"], one["weights"]) for one in value.get("schedule") or ()]
            return cls(**{**value, "parts": parts, "schedule": schedule})
        except (AttributeError, KeyError, TypeError) as error:
            rule = f"parts of uri, name, split, weight; a schedule of step and weights ({error})"
            raise ConfigError.of("recipe", value, allowed=rule) from error

    def to_yaml(self) -> str:
        """The recipe as YAML."""
        import yaml

        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True))

    @classmethod
    def from_yaml(cls, text: str) -> "Recipe":
        """Reads what `to_yaml` made, or somebody wrote; JSON is YAML too."""
        import yaml

        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError.of("recipe", text, allowed=f"YAML ({error})") from error
        return cls.from_dict(value)


def _next_name(name: str) -> str:
    """What a part is called when its dataset has a newer version: `photos@2`, then `photos@3`."""
    stem, at, number = name.rpartition("@")
    return f"{stem}@{int(number) + 1}" if at and number.isdecimal() else f"{name}@2"


def _with_slopes(stages: Sequence[Change]) -> list[Change]:
    """The stages with stairs between them, each of the mean weights of its steps."""
    found: list[Change] = []
    for (begin, old), (end, new) in itertools.pairwise(stages):
        count = min(_STAIRS, end - begin)
        for stair in range(count):
            share = (stair + 0.5) / count
            weights = {
                n: round((1 - share) * old.get(n, 0) + share * new.get(n, 0), 12)
                for n in {**old, **new}
            }
            found.append((begin + stair * (end - begin) // count, weights))
    return [*found, stages[-1]]
