"""The steps of a conversion, whatever its examples are made of.

conversion = ImageConversion.of(exec_properties, InputSelection(base="photos/"), runner)
plan = conversion.plan(uri)              # splits, features, shards; as little as can be is read
conversion.check(plan, uri)
written = conversion.write(plan, uri)    # the shards, and what became of each input
"""

import abc
import dataclasses
import hashlib
import json
from typing import Any, ClassVar, Generic, TypeVar

from components.common.settings import ExecProperties
from components.common.tasks import Runner
from components.example_gen.inputs import InputSelection, LocatedInputs, fingerprint, locate
from components.example_gen.plan import Plan, Written
from components.example_gen.settings import ExampleGenSettings

__all__ = ["Conversion"]

_Plan = TypeVar("_Plan", bound=Plan)


class Conversion(abc.ABC, Generic[_Plan]):
    """From inputs to shards.

    Args:
        runner: of the work on shards; None where nothing is to be written but a plan.

    Attributes:
        settings_class: the component's.
        workers_module: of `components`, where what workers do comes from.
        selection: of inputs and splits, as it is asked for.
        located: where the inputs are.
        settings: of the component, suited to what was found.
        unit: what the inputs are called, such as `images`.
        sees_siblings: whether a file that is an input by itself may name others, as a list does.
        looked_for: the layouts that are recognised, for inputs that have none of them.

    Raises:
        InputError, ConfigError: the inputs are not there, or a setting is not allowed.
    """

    settings_class: ClassVar[type[ExampleGenSettings]]
    workers_module: ClassVar[str]
    selection: InputSelection
    located: LocatedInputs
    settings: ExampleGenSettings
    unit: ClassVar[str]
    sees_siblings: ClassVar[bool] = True
    looked_for: ClassVar[str]

    def __init__(self, settings: Any, selection: InputSelection, runner: Runner | None) -> None:
        self.settings, self.selection = settings, selection
        self._runner = runner
        self.located = locate(
            selection.base,
            selection.patterns,
            selection.range_config,
            image_roots=settings.image_roots if self.sees_siblings else (),
            is_source_file=self.is_source_file,
            sees_siblings=self.sees_siblings,
            unit=self.unit,
        )

    @classmethod
    def of(
        cls,
        properties: ExecProperties,
        selection: InputSelection,
        runner: Runner | None,
    ) -> "Conversion[Any]":
        """The conversion that execution properties ask for.

        Raises:
            InputError, ConfigError: the inputs are not there, or a setting is not allowed.
        """
        return cls(cls.settings_class.from_properties(properties), selection, runner)

    def key(self) -> str:
        """A digest of all that shards depend on: a run of the same goes on where one was killed."""
        from components.common.publish import package_versions  # TFX: a plan has none

        known = [
            type(self).__name__,
            fingerprint(self.located),
            dataclasses.asdict(self.settings),
            self.selection.partition and dataclasses.asdict(self.selection.partition),
            package_versions(),
        ]
        return hashlib.sha256(json.dumps(known, default=repr).encode()).hexdigest()

    @abc.abstractmethod
    def is_source_file(self, path: str) -> bool:
        """Whether a path is by itself what examples are made of, as a list is."""

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
