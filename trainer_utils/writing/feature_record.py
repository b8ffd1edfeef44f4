"""What the features of examples are, kept while these are written: types agree, or it is an error.

values = record.take({"label": stored_value(3)})     # {'label': (3,)}, for the encoder
record.features()                                    # {'label': Feature(type='int')}
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from trainer_utils.dataset.inspection import (
    DatasetFacts,
    FeatureFacts,
    ImageFacts,
    features_of_facts,
)
from trainer_utils.format import Feature, InputError
from trainer_utils.format.tensors import TensorSpec
from trainer_utils.writing.values import Plain, Scalar, Steps, Stored, Tensor

Values = Mapping[str, Any]
_NO_STEPS = "steps"  # that have no value, and so no kind
_WIDER = {("float", "int"), ("steps of float", "steps of int")}


class FeatureRecord:
    """The features of all examples so far; where it `may_widen`, a float may come after ints.

    `kinds` has by name `int`, `float` or `string`, or another word for what is no plain value.
    """

    def __init__(self, *, may_widen: bool = False) -> None:
        self._may_widen = may_widen
        self._facts = DatasetFacts()
        self.kinds: dict[str, str] = {}
        self.tensors: dict[str, TensorSpec] = {}
        self._steps: dict[str, tuple[int, ...] | None] = {}  # the shape of each step, if one

    def take(self, example: Mapping[str, Stored]) -> tuple[Values, Values]:
        """Checks an example, and keeps what it shows; returns what stands in it and in its feature
        lists, by name. An InputError where a feature is not what it was before; nothing is kept
        then."""
        kinds = {name: self._agreed(name, value) for name, value in example.items()}
        self.kinds |= {name: kind for name, kind in kinds.items() if kind is not None}
        values: dict[str, tuple[Scalar, ...] | bytes] = {}
        lists: dict[str, tuple[tuple[Scalar, ...], ...]] = {}
        for name, value in example.items():
            if isinstance(value, Tensor):
                self.tensors[name] = self.tensors.get(name, value.spec).merge(value.spec)
                values[name] = value.data
                self._add(self._facts.features, name, "string", (value.data,))
            elif isinstance(value, Steps):
                lists[name] = self._take_steps(name, value)
            elif value is not None and value.kind is not None:
                values[name] = self._take_plain(name, value)
        self._facts.records += 1
        return values, lists

    def _agreed(self, name: str, value: Stored) -> str | None:
        """What a feature is, this value and those before it; None where nothing says it."""
        known, kind = self.kinds.get(name), _kind_of(value)
        if isinstance(value, Steps) and value.steps and name in self._steps:
            shape = self._steps[name]
            if shape != value.shape and any(len(s or (1,)) > 1 for s in (shape, value.shape)):
                raise InputError(
                    f"feature {name!r}: expected steps of shape {shape} as in the examples "
                    f"before, got {value.shape}. Give all steps one shape"
                )
        if known is None or kind is None or kind == known:
            return kind or known
        if (known, kind) in _WIDER or (kind == _NO_STEPS and known.startswith(_NO_STEPS)):
            return known
        may_be = known == _NO_STEPS and kind.startswith(_NO_STEPS)
        if may_be or (self._may_widen and (kind, known) in _WIDER):
            return kind
        advice = "Give all of them alike, or another name"
        if (known, kind) == ("int", "float"):
            advice = "Give floats from the first on: float(value)"
        if "tensor" in known and "tensor" in kind:
            advice = "Cast or reshape it"
        raise InputError(
            f"feature {name!r}: expected {known} as in the examples before, got {kind}. {advice}"
        )

    def _take_plain(self, name: str, value: Plain) -> tuple[Scalar, ...] | bytes:
        values = value.values
        if self.kinds[name] == "float" and value.kind == "int":
            values = tuple(map(float, values))
        self._add(self._facts.features, name, self.kinds[name], values)
        only = values[0]
        # One without a copy: an image is among the parts of its record as it was given.
        return only if len(values) == 1 and isinstance(only, bytes) else values

    def _take_steps(self, name: str, value: Steps) -> tuple[tuple[Scalar, ...], ...]:
        steps = value.steps
        if self.kinds[name] == "steps of float" and value.kind == "int":
            steps = tuple(tuple(map(float, step)) for step in steps)
        if steps and self._steps.setdefault(name, value.shape) != value.shape:
            self._steps[name] = None
        kind = self.kinds[name].removeprefix(_NO_STEPS).removeprefix(" of ") or "int"
        for step in steps:
            self._add(self._facts.lists, name, kind, step)
        return steps

    def _add(
        self, facts: dict[str, FeatureFacts], name: str, kind: str, values: tuple[Scalar, ...]
    ) -> None:
        known, images, count = facts.get(name), None, len(values)
        may_be_images = known is None or known.images is not None  # else one was none already
        if kind == "string" and name not in self.tensors and may_be_images:
            images = ImageFacts.of_values(values)
        new = FeatureFacts(kind, 1, count, count, count, images=images)
        if known is None:
            facts[name] = new
        else:
            known.kind = kind  # empty steps may have come before any value
            known.merge(new)

    @property
    def images(self) -> frozenset[str]:
        """Features whose every value is an image."""
        facts = self._facts.features.items()
        return frozenset(name for name, entry in facts if entry.images is not None)

    def features(self) -> dict[str, Feature]:
        """All features, by name."""
        features = features_of_facts(self._facts)
        for name, spec in self.tensors.items():
            dense = self._facts.features[name].present == self._facts.records
            extra = {"tensor": spec.to_json()}
            shape = () if dense else (1,)
            features[name] = Feature(type="string", shape=shape, dense=dense, extra=extra)
        for name, steps in self._steps.items():
            if steps is not None and name in features:
                extra = {"sequence": list(steps)}
                features[name] = dataclasses.replace(features[name], shape=steps, extra=extra)
        return features


def _kind_of(value: Stored) -> str | None:
    """What of it must be the same in all examples; None where it says nothing."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        return f"a tensor of {value.spec.dtype} and rank {len(value.spec.shape)}"
    if isinstance(value, Steps):
        return _NO_STEPS if value.kind is None else f"{_NO_STEPS} of {value.kind}"
    return value.kind
