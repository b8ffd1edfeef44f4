"""Describe a mixture of datasets as a `Recipe`, in Python or YAML, and change it during a run.

recipe = Recipe([Part("data/web", name="web", weight=3), Part("data/books", name="books")],
                schedule=[(10_000, {"web": 1})])
recipe = recipe.change(token, add=[Part("data/code", name="code")], drop=["web"])
"""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from trainer_utils.core.decoding import DecodeError, decode
from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.core.settings import NumberRule, one_of
from trainer_utils.order.mixing import WeightSchedule
from trainer_utils.order.resume_token import read_token

_STAIRS = 32  # steps that approximate a linear change of weights

Change = tuple[int, Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Part:
    """One dataset of a recipe.

    Args:
        uri: the uri of one dataset, as for `input_fn`.
        name: the name used in the schedule; the order of records depends on it. Empty: the uri.
        split: slices, such as `train[:80%]`. None: the default of `input_fn`.
        weight: the relative frequency of its records, in any unit, until the schedule changes it.
        after: the part that is an older version of this one. Records that it gave in its last epoch
            are left out of the first epoch of this one, so its dataset must stay available.
    """

    uri: Any
    name: str = dataclasses.field(default="", kw_only=True)
    split: str | None = dataclasses.field(default=None, kw_only=True)
    weight: float = dataclasses.field(default=1.0, kw_only=True)
    after: "Part | None" = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.name or self.place))

    @property
    def place(self) -> str:
        """The uri as a string."""
        return str(getattr(self.uri, "uri", self.uri))

    def to_dict(self) -> dict[str, Any]:
        """Return the part as plain types for YAML and JSON."""
        after = self.after and self.after.to_dict()
        shown = {**vars(self), "uri": self.place, "after": after}
        return {name: value for name, value in shown.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Datasets to mix, and their weights over the steps of a run.

    Args:
        parts: the datasets.
        schedule: steps, counted over all epochs, and the weights from that step on. Parts that are
            not named keep their weights; weight 0 pauses a part. Past steps may name parts that
            have been dropped.
        interpolation: `"stages"`: weights change at the given steps. `"linear"`: they change
            linearly between these steps, in 32 increments.
        epoch_records: records in an epoch, the unit that Keras and tokens count in. Each part
            starts its own next epoch when all of its records have come. None: as many as it takes
            until every record of each part of the first stage has come.

    Raises:
        ConfigError: a name is unknown or duplicated, steps are not in order, or weights are not
            numbers of at least 0 whose shares are at least 1/10,000.
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
            records = NumberRule(1)("epoch_records", self.epoch_records)
            object.__setattr__(self, "epoch_records", records)
        for change in self.schedule:
            is_pair = isinstance(change, (tuple, list)) and len(change) == 2
            if not is_pair or type(change[0]) is not int or not isinstance(change[1], Mapping):
                rule = "pairs of a step from 0 on and weights by the names of parts"
                raise ConfigError.of("schedule", change, allowed=rule)
        _ = self.weights

    @property
    def weights(self) -> WeightSchedule:
        """The weights of the parts, as for `input_fn`."""
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
        """Return the weights of all parts from each step on."""
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
        """Return the recipe that resumes from a token with other parts or weights.

        Parts that stay continue where they are; new parts start at their beginning.

        Args:
            state: the token to resume from, of a run with this recipe.
            add: parts to add.
            drop: names of parts to drop; their datasets are no longer opened.
            reweight: names of parts, and their weights from now on.
            update: names of parts, and the uri of a newer version of their dataset. The part is
                called `name@2` from now on, and records that it gave in this epoch do not repeat.

        Raises:
            ConfigError: a name is unknown or duplicated, or the token is not of a mixture.
        """
        token = read_token(state)
        if token is None or token.mix is None:
            raise ConfigError.of("state", state, allowed="a token of state(step) of a recipe")
        reweight, update = reweight or {}, update or {}
        self._check_names([*drop, *reweight, *update])
        step = token.epoch * token.mix.steps + token.step
        now = {**self._weights_at(step), **dict.fromkeys(drop, 0.0), **reweight}
        renamed = {name: _next_name(name) for name in update}
        newer = [
            self._newer_part(name, uri, name=renamed[name], weight=now[name])
            for name, uri in update.items()
        ]
        added, gone = [*add, *newer], {*drop, *renamed}
        self._check_unused([part.name for part in added])
        return Recipe(
            [*(part for part in self.parts if part.name not in gone), *added],
            schedule=self._changed_schedule(step, now, added=added, gone=gone, renamed=renamed),
            epoch_records=token.mix.records,
        )

    def _check_names(self, names: Collection[str]) -> None:
        """Raise a ConfigError for a name that no part has."""
        parts = [part.name for part in self.parts]
        for name in names:
            if name not in parts:
                meant = did_you_mean(name, parts).strip()
                rule = f"one of the parts {', '.join(parts)}"
                raise ConfigError.of("change", name, allowed=rule, advice=meant)

    def _check_unused(self, names: Collection[str]) -> None:
        """Raise a ConfigError for a name that a part has or had."""
        known = {name for _, weights in self._changes() for name in weights}
        for name in names:
            if name in known:
                raise ConfigError.of("add", name, allowed="a name that no part has or had")

    def _weights_at(self, step: int) -> Mapping[str, float]:
        """Return the weights at a step, counted over all epochs."""
        return [weights for begin, weights in self.weights.stages if begin <= step][-1]

    def _newer_part(self, old: str, uri: Any, *, name: str, weight: float) -> Part:
        """Return a newer version of the part called `old`."""
        part = next(part for part in self.parts if part.name == old)
        older = dataclasses.replace(part, weight=1.0)
        return Part(uri, name=name, split=part.split, weight=weight, after=older)

    def _changed_schedule(
        self,
        step: int,
        now: Mapping[str, float],
        *,
        added: Sequence[Part],
        gone: Collection[str],
        renamed: Mapping[str, str],
    ) -> list[Change]:
        """Return the schedule of all steps, with other parts from a step on.

        Args:
            step: the step of the change.
            now: the weights of the parts of this recipe from that step on.
            added: the new parts.
            gone: the names of parts that end at the step.
            renamed: the new names of parts whose newer versions take over their later weights.
        """
        new = {part.name: part.weight for part in added}
        stages = self.weights.stages
        past: list[Change] = [(begin, dict(weights)) for begin, weights in stages if begin < step]
        change: Change = step, {**now, **dict.fromkeys(gone, 0.0), **new}
        future: list[Change] = [
            (
                begin,
                {
                    renamed.get(name, name): weight
                    for name, weight in weights.items()
                    if name in renamed or name not in gone
                },
            )
            for begin, weights in stages
            if begin > step
        ]
        schedule = [*past, change, *future]
        schedule[0] = 0, {**dict.fromkeys(new, 0.0), **schedule[0][1]}
        return schedule

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain types for YAML and JSON."""
        return {
            "parts": [part.to_dict() for part in self.parts],
            "schedule": [
                {"step": step, "weights": dict(weights)} for step, weights in self.schedule
            ],
            "interpolation": self.interpolation,
            "epoch_records": self.epoch_records,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Recipe":
        """Build a recipe from the form of `to_dict`, which may be hand-written."""
        try:
            form: _RecipeForm = decode(_RecipeForm, value)
        except DecodeError as error:
            rule = f"parts of uri, name, split, weight; a schedule of step and weights ({error})"
            raise ConfigError.of("recipe", value, allowed=rule) from error
        return cls(
            [part.to_part() for part in form.parts],
            schedule=[(stage.step, stage.weights) for stage in form.schedule or ()],
            interpolation=form.interpolation,
            epoch_records=form.epoch_records,
        )

    def to_yaml(self) -> str:
        """Return the recipe as YAML."""
        import yaml

        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True))

    @classmethod
    def from_yaml(cls, text: str) -> "Recipe":
        """Parse a recipe from YAML or JSON, which may be hand-written."""
        import yaml

        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError.of("recipe", text, allowed=f"YAML ({error})") from error
        return cls.from_dict(value)


@dataclasses.dataclass(frozen=True)
class _PartForm:
    """A part in a recipe's YAML, where a name may be a number."""

    uri: object
    name: str | int = ""
    split: str | None = None
    weight: float = 1.0
    after: "_PartForm | None" = None

    def to_part(self) -> Part:
        """Return the part."""
        after = None if self.after is None else self.after.to_part()
        name = str(self.name)
        return Part(self.uri, name=name, split=self.split, weight=self.weight, after=after)


@dataclasses.dataclass(frozen=True)
class _Stage:
    """An entry of the schedule in a recipe's YAML."""

    step: int
    weights: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class _RecipeForm:
    """The form of a recipe in YAML."""

    parts: list[_PartForm]
    schedule: Sequence[_Stage] | None = ()
    interpolation: str = "stages"
    epoch_records: int | None = None


def _next_name(name: str) -> str:
    """Return the name of a part's newer version: `photos@2`, then `photos@3`."""
    stem, at, number = name.rpartition("@")
    return f"{stem}@{int(number) + 1}" if at and number.isdecimal() else f"{name}@2"


def _with_slopes(stages: Sequence[Change]) -> list[Change]:
    """Return the stages with increments between them, each with the mean weights of its steps."""
    changes: list[Change] = []
    for (begin, old), (end, new) in itertools.pairwise(stages):
        count = min(_STAIRS, end - begin)
        for stair in range(count):
            share = (stair + 0.5) / count
            weights = {
                n: round((1 - share) * old.get(n, 0) + share * new.get(n, 0), 12)
                for n in {**old, **new}
            }
            changes.append((begin + stair * (end - begin) // count, weights))
    return [*changes, stages[-1]]
