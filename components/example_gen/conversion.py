"""The steps of a conversion, whatever its examples are made of.

plan = conversion.plan(uri)              # splits, features, shards; as little as can be is read
conversion.check(plan, uri)
written = conversion.write(plan, uri)    # the shards, and what became of each input
"""

import abc
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from components.common.settings import ExecProperties
from components.example_gen.inputs import InputSelection, LocatedInputs
from components.example_gen.plan import Plan, Written
from components.example_gen.settings import ExampleGenSettings

__all__ = ["Conversion", "MakeConversion", "MakePipeline"]


_Plan = TypeVar("_Plan", bound=Plan)


class Conversion(abc.ABC, Generic[_Plan]):
    """From inputs to shards.

    Attributes:
        selection: of inputs and splits, as it is asked for.
        located: where the inputs are.
        settings: of the component, suited to what was found.
        unit: what the inputs are called, such as `images`.
    """

    selection: InputSelection
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
    def describe_search(self, names: Iterable[str]) -> str:
        """A sentence for inputs in which nothing was recognised, with what is at their top."""


MakePipeline: TypeAlias = Callable[[], Any]
"""What makes a Beam pipeline, which is not imported to plan."""

MakeConversion: TypeAlias = Callable[
    [ExecProperties, InputSelection, MakePipeline | None], Conversion[Any]
]
"""The steps of a component, from its settings as execution properties, the selection of inputs,
and what makes the Beam pipelines; None where nothing is to be written."""
