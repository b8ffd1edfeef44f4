"""The steps of a conversion, whatever its examples are made of, and what goes from one to the next.

plan = conversion.plan(uri)              # splits, features, shards; as little as can be is read
conversion.check(plan, uri)
written = conversion.write(plan, uri)    # the shards, and what became of each input
"""

import abc
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from components.common.listing import Column
from components.common.rejects import Reject
from components.example_gen.inputs import LocatedInputs
from components.example_gen.settings import ExampleGenSettings
from trainer_utils.format import Feature, Shard

__all__ = ["Conversion", "Plan", "Written"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is decided before anything is written.

    Args:
        splits: their names, in order.
        columns: that become features, with what they are.
        vocabularies: values by feature, sorted or as given; a value's place is its id.
        rejects: inputs that are known to be left out.
        skipped: inputs left out on purpose, by split.
        found: inputs in all.
    """

    splits: tuple[str, ...]
    columns: tuple[Column, ...]
    vocabularies: Mapping[str, tuple[str, ...]]
    rejects: tuple[Reject, ...]
    skipped: Mapping[str, int]
    found: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """What became of a plan.

    Args:
        shards: all of them, read back, by split and number.
        features: of the examples, by name.
        label_counts: examples by split and class, an id or a number.
        rejects: inputs that were found to be bad only while they were read for their shard.
        conversions: inputs that are not kept byte for byte, by what was done to them.
        fingerprint: of the inputs, hexadecimal.
    """

    shards: tuple[Shard, ...]
    features: Mapping[str, Feature]
    label_counts: Mapping[str, Mapping[int, int]]
    fingerprint: str
    rejects: tuple[Reject, ...] = ()
    conversions: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def num_records(self) -> int:
        """How many examples there are."""
        return sum(shard.records for shard in self.shards)


_Plan = TypeVar("_Plan", bound=Plan)


class Conversion(abc.ABC, Generic[_Plan]):
    """From inputs to shards.

    Attributes:
        located: where the inputs are.
        settings: of the component, suited to what was found.
        unit: what the inputs are called, such as `images`.
    """

    located: LocatedInputs
    settings: ExampleGenSettings
    unit: str

    @abc.abstractmethod
    def plan(self, uri: str) -> _Plan:
        """Decides splits, features and shards.

        Raises:
            InputError: the input is missing or malformed.
            ConfigError: a setting contradicts the inputs.
        """

    @abc.abstractmethod
    def check(self, plan: _Plan, uri: str) -> None:
        """Refuses what is known to fail before anything is written.

        Raises:
            InputError: too many inputs are to be left out.
        """

    @abc.abstractmethod
    def write(self, plan: _Plan, uri: str) -> Written:
        """Writes every shard of what `plan` gave, and reads it back."""

    @abc.abstractmethod
    def looked_for(self, names: Iterable[str]) -> str:
        """A sentence for inputs in which nothing was recognised, with what is at their top."""
