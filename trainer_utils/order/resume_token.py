"""The token that a run resumes from, and the checks that refuse one of another run.

    token = order.state(step=100).to_json()
    InputState.from_json(token).step

A token is of the same dataset, seed and order as the input, or of the raw inputs that the dataset
was converted from.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer_utils.core.decoding import Count, decode
from trainer_utils.core.errors import ConfigError
from trainer_utils.order.mixing import Shares
from trainer_utils.order.order_options import OrderOptions

_VERSION = 3  # version of the order: tokens of another version describe different batches

_MAX_NAMED = 10  # inputs in a message


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixState:
    """The history of a mixture up to a token.

    Args:
        records: records in an epoch.
        steps: steps in an epoch.
        stages: the stages so far, each with the row of the run at which it began.
        parts: for each part that has been read, its number of records and its digest.
    """

    records: Count
    steps: Count
    stages: Sequence[tuple[Count, Shares]]
    parts: Mapping[str, tuple[int, str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputsState:
    """The raw inputs that the records of a token come from.

    Args:
        files: a digest of the names, sizes and versions of the inputs.
        settings: a digest of the settings of their conversion.
        digest: a digest of both, of the order of the records, and of the order of the input.
        num_files: the number of files.
        newest: the latest change of a local file, in nanoseconds; None if it is not known.
        num_rejected: the number of inputs that a conversion rejected.
        rejected: the first of these, by name and code.
    """

    files: str
    settings: str
    digest: str
    num_files: int
    newest: int | None = None
    num_rejected: int = 0
    rejected: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputState:
    """The position of an input. A run can resume from it.

    Args:
        epoch, step: the next step to read, both counted from 0; `step` counts within its epoch.
        batch_size: the global batch size; without batches, the number of workers.
        seed: the seed of all orders.
        digest: a digest of the dataset, the slices read, and the settings that shape batches.
        version: the version of the order. Any other version raises a ConfigError.
        mix: the history of a mixture, or None if datasets are not mixed.
        inputs: the raw inputs of the records. With them, a token of raw inputs is valid for the
            dataset that was converted from them, and the other way round. None: they are not known.
        where: the condition that the records meet; None: all are read.
    """

    epoch: int
    step: int
    batch_size: int
    seed: int
    digest: str
    version: int = _VERSION
    mix: MixState | None = None
    inputs: InputsState | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if self.version != _VERSION:
            rule = f"a token of version {_VERSION}, since other versions have another order"
            cure = "Restart the epoch with state=None, or resume with the tfx-shards that wrote it"
            raise ConfigError.of("state", self.version, allowed=rule, advice=cure)
        for name, least in (("epoch", 0), ("step", 0), ("batch_size", 1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < 1 << 63:
                rule = f"a token of state(step), whose {name} is an int of at least {least}"
                raise ConfigError.of("state", value, allowed=rule)

    def to_json(self) -> str:
        """Return the token as one line of JSON."""
        fields = dataclasses.asdict(self)
        return json.dumps({n: v for n, v in fields.items() if v is not None}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "InputState":
        """Parse the result of `to_json`."""
        try:
            fields = json.loads(text)
            if not {"epoch", "version"} & fields.keys():
                raise TypeError("expected a token")
            if (version := fields.get("version", 1)) != _VERSION:  # it may have other fields
                return cls(epoch=0, step=0, batch_size=1, seed=0, digest="", version=version)
            state: InputState = decode(cls, fields)
            return state
        except ConfigError:
            raise
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError.of("state", text, allowed="a token of state(step)") from error


def _check_same(name: str, wanted: object, got: object, cure: str) -> None:
    """Raise a ConfigError if a value of the token differs from that of this input."""
    if wanted != got:
        rule = f"the {name} of the token, {wanted!r}"
        raise ConfigError.of("state", got, allowed=rule, advice=f"{cure}.")


def _check_condition(wanted: str | None, got: str | None) -> None:
    """Raise a ConfigError if a token is of records that meet another condition."""
    if wanted == got:
        return
    rule = "a token of all records" if got is None else f"a token of the records where {got!r}"
    records = "all records" if wanted is None else f"the records where {wanted!r}"
    cure = "Leave out where=" if wanted is None else f"Pass where={wanted!r}"
    raise ConfigError(
        f"state: expected {rule}, got one of {records}. {cure}, or start again with state=None.",
        setting="state",
        value=wanted,
        allowed=rule,
    )


def check_inputs(
    then: InputsState,
    here: InputsState,
    find_changed: Callable[[int], Sequence[str]] | None,
    *,
    is_by_size: bool,
) -> None:
    """Raise a ConfigError if records have other numbers than in the run of a token.

    Args:
        then: the raw inputs of the token.
        here: the raw inputs of this input, or of the conversion that it reads.
        find_changed: returns the raw inputs that changed after a time in nanoseconds.
        is_by_size: whether the sizes of records determine the order, as with `shuffle=True`.
    """
    restart = "Start again with state=None, or resume with the inputs of the token"
    for inputs, where in ((then, "the token's dataset"), (here, "this dataset")):
        if inputs.num_rejected:
            rule = f"a token of inputs of which no conversion rejected any, but {where} lacks "
            names = _first_names(inputs.rejected, inputs.num_rejected)
            raise ConfigError.of(
                "state",
                inputs.num_rejected,
                allowed=f"{rule}{inputs.num_rejected} rejected inputs ({names})",
                advice="Records after them have other numbers. Resume with the dataset of the "
                "token; or fix or remove these inputs before a run starts",
            )
    if then.files != here.files:
        changed = [*(find_changed(then.newest) if find_changed and then.newest else ())]
        names = f": {_first_names(changed, len(changed))}" if changed else ""
        count = f"{len(changed)} new or changed" if changed else "some removed or changed"
        rule = f"the {then.num_files} files of the token as they were, found {here.num_files} "
        raise ConfigError.of(
            "state", here.files, allowed=f"{rule}files, {count}{names}", advice=restart
        )
    if then.settings != here.settings:
        rule = "a token of a conversion with the same settings and label names"
        raise ConfigError.of(
            "state", here.settings, allowed=rule, advice="Pass conversion= as given to convert"
        )
    cure = "It is of another split, or of other settings of the order (shuffle, remainder, echoing)"
    if is_by_size:
        cure += (
            "; or the blocks of shuffle=True differ, as the records of the conversion have other "
        )
        cure += "sizes than the files. Start runs that are to continue there with shuffle='global'"
    _check_same("digest", then.digest, here.digest, cure)


def _first_names(names: Sequence[str], count: int) -> str:
    """Return the first names, with an ellipsis if there are more."""
    shown = ", ".join(names[:_MAX_NAMED])
    return f"{shown}, …" if count > _MAX_NAMED else shown


def check_token(
    token: InputState,
    here: InputState,
    options: OrderOptions,
    *,
    steps_per_epoch: int,
    find_changed: Callable[[int], Sequence[str]] | None,
) -> None:
    """Raise a ConfigError if a token has another dataset, seed or order than an input.

    Args:
        token: the token.
        here: a token of this input, at any step.
        options: the settings of the input's order.
        steps_per_epoch: the steps of an epoch of the input.
        find_changed: returns the raw inputs that changed after a time in nanoseconds.
    """
    _check_condition(token.where, here.where)
    if token.digest != here.digest and token.inputs is not None and here.inputs is not None:
        check_inputs(token.inputs, here.inputs, find_changed, is_by_size=options.shuffle is True)
    else:
        cure = "It is of another dataset, split, or of other settings of the order (shuffle, "
        cure += "remainder, echoing). Start again with state=None"
        _check_same("digest", token.digest, here.digest, cure)
    _check_same("seed", token.seed, here.seed, "Set that seed")
    if token.step:
        cure = "Set that batch_size, or change it at the start of an epoch"
        if options.batch_size is None:
            cure = "Within an epoch, single examples resume only on the same number of workers"
        _check_same("batch_size", token.batch_size, here.batch_size, cure)
        if token.step >= steps_per_epoch:
            rule = f"a step below {steps_per_epoch}, the steps of an epoch"
            raise ConfigError.of("state", token.step, allowed=rule)


def check_mixture(then: MixState | None, here: MixState) -> MixState:
    """Return the history of a token's mixture; raise a ConfigError if that of an input differs.

    Args:
        then: the history in the token.
        here: the history of the input before the same step.
    """
    cure = "Take the recipe of the run and change it: recipe.change(state, …)"
    if then is None:
        raise ConfigError.of("state", None, allowed="a token of a mixture", advice=cure)
    _check_same("records", then.records, here.records, cure)
    _check_same("stages", then.stages, here.stages, cure)
    for name, part in here.parts.items():
        _check_same(f"part {name!r}", then.parts.get(name), part, cure)
    return then


def read_token(token: Any) -> InputState | None:
    """Return the token of a setting given as an object, a dict or JSON, or None without one."""
    if token is None or isinstance(token, InputState):
        return token
    return InputState.from_json(json.dumps(token) if isinstance(token, dict) else str(token))
