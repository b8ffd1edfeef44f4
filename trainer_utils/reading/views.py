"""Find the settings of an input's views, which `map` and `select` ask for.

    callback_of_map(spec, lambda batch: {**batch, "image": batch["image"] / 255})
    features_of_selection(spec, ["image", "label"])

A view is a new input with such a setting. It shares the files of the input that it was made from.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.options import Callback
from trainer_utils.reading.input_spec import InputSpec


@dataclasses.dataclass(frozen=True)
class MappedBatches:
    """A callback that calls functions of a batch one after the other.

    It can be pickled if they can. A tuple that a function returns becomes the arguments of the
    next one, as with the callbacks of `InputOptions`.
    """

    functions: tuple[Callback, ...]

    def __call__(self, *elements: Any) -> Any:
        """Return the result of the last function; raise ConfigError if one returns None."""
        result: Any = elements
        for function in self.functions:
            result = function(*result) if isinstance(result, tuple) else function(result)
            if result is None:
                name = getattr(function, "__name__", repr(function))
                raise ConfigError(f"map: expected {name} to return what it made, got None")
        return result


def callback_of_map(spec: InputSpec, function: Callable[..., Any]) -> MappedBatches:
    """Return the callback after batching that calls a function after all callbacks.

    Raises:
        ConfigError: it is not a function.
    """
    if not callable(function):
        raise ConfigError.of("map", function, allowed="a function of a batch")
    before = spec.after.functions if isinstance(spec.after, MappedBatches) else (spec.after,)
    return MappedBatches(tuple(call for call in (*before, function) if call is not None))


def features_of_selection(spec: InputSpec, names: Sequence[str]) -> str | list[str]:
    """Return the `features` of an input that reads some of its features only.

    The label and the sample weights stay the same, whether named or not.

    Raises:
        ConfigError: there is no such feature, or functions may need others.
    """
    options = spec.options
    if spec.before is not None or spec.after is not None:
        raise ConfigError(
            f"select: expected an input without callbacks and map, since these may need features "
            f"other than {', '.join(names)}. Call select first, then map; or pass features=.",
            setting="select",
            value=list(names),
        )
    there = [name for name in spec.structure if name != options.mask_feature]
    for name in names:
        if name not in there:
            rule = f"one of the features that are read, {', '.join(there)}"
            meant = did_you_mean(name, there).strip()
            raise ConfigError.of("select", name, allowed=rule, advice=meant)
    if not names:
        raise ConfigError.of("select", (), allowed="names of features")
    if [*names] == [options.features]:  # stays a single array
        return names[0]
    apart = {options.label, options.labels.sample_weight} if options.label is not None else set()
    return [name for name in dict.fromkeys(names) if name not in apart]
