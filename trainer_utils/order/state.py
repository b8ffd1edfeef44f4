"""Tokens to go on from: where an input is, small enough to lie beside every checkpoint.

    token = train.state(step).to_json()
    train = input_fn(uri, "train", batch_size=256, state=token)   # in a new process

A token names the epoch and the records of it that were consumed, and what they were an order of:
the dataset's digest, the seed and the settings that shape batches. Where one of these is another,
the token is refused, since the batches that follow would be others. The number of workers may
change, and so may all that comes after the order: features, parsing, hooks. Single examples are
the exception: within an epoch the same number of workers must go on.
"""

import dataclasses
import json
from collections.abc import Mapping
from types import MappingProxyType

from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.options import OrderOptions

__all__ = ["InputState", "check_state", "first_state", "state_at", "steps_per_epoch"]

_VERSION = 2  # of the order of records: another is a token of other batches


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputState:
    """Where an input is.

    Args:
        epoch: counted from 0.
        step: the one that comes next, in that epoch.
        records: of the epoch, consumed by all workers together.
        batch_size: of the global batch; None: single examples.
        num_lanes: that an epoch is laid out in (see `trainer_utils.order.layout`).
        num_workers: that made it.
        seed: of all orders.
        digest: of the dataset and of the slices that are read.
        order: the settings that shape batches.
        version: of the order of records.

    Raises:
        ConfigError: it is of another version, or no such token.
    """

    epoch: int
    step: int
    records: int
    batch_size: int | None
    num_lanes: int
    num_workers: int
    seed: int
    digest: str
    order: str
    version: int = _VERSION

    def __post_init__(self) -> None:
        if self.version != _VERSION:
            raise ConfigError(
                f"state: expected a token of version {_VERSION}, got one of version "
                f"{self.version!r}, after which other records come. Begin the epoch anew, with "
                "start_step=, or go on with the version of tfx-shards that it is of.",
                setting="state",
            )
        least = {"epoch": 0, "step": 0, "records": 0, "num_lanes": 1, "num_workers": 1}
        counts = {name: (getattr(self, name), low) for name, low in least.items()}
        if self.batch_size is not None:
            counts["batch_size"] = self.batch_size, 1
        for name, (value, low) in counts.items():
            if type(value) is not int or value < low:
                raise ConfigError.of(
                    "state",
                    value,
                    allowed=f"a token of state(step), whose {name} is an int of at least {low}",
                )

    def to_json(self) -> str:
        """The token as one line of text."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "InputState":
        """Reads what `to_json` made.

        Raises:
            ConfigError: it is no such text, or of another version.
        """
        try:
            fields = json.loads(text)
            state = cls(**{"version": 1, **fields})  # the first had no number
        except (TypeError, json.JSONDecodeError) as error:
            raise ConfigError.of("state", text, allowed="a token of state(step)") from error
        return state


def check_state(options: OrderOptions) -> InputState | None:
    """The token that the options bring, in whatever form; None: there is none.

    Raises:
        ConfigError: it is no token, or of another version.
    """
    token = options.state
    if token is None or isinstance(token, InputState):
        return token
    return InputState.from_json(json.dumps(token) if isinstance(token, dict) else str(token))


def state_at(step: int, options: OrderOptions, layout: BatchLayout, digest: str) -> InputState:
    """The token for a step, of all steps of all epochs."""
    each = steps_per_epoch(options, layout)
    epoch, within = divmod(step, each) if each else (0, 0)
    is_batched = options.batch_size is not None
    taken = within // options.echoing
    return InputState(
        epoch=epoch,
        step=within,
        records=layout.begin(taken) if is_batched else taken * layout.num_workers,
        batch_size=layout.batch_size if is_batched else None,
        num_lanes=layout.num_lanes,
        num_workers=layout.num_workers,
        seed=options.seed,
        digest=digest,
        order=_order_of(options, layout),
    )


def first_state(
    options: OrderOptions,
    layout: BatchLayout,
    digest: str,
    earlier_digests: Mapping[str, str] = MappingProxyType({}),
) -> InputState:
    """Where an input begins: at `start_step`, or where the token in `state` says.

    Args:
        options, layout, digest: of the order.
        earlier_digests: as of `InputOrder`.

    Raises:
        ConfigError: the token is of another dataset, seed, batch or order, or of single examples
            of another number of workers.
    """
    token = check_state(options)
    if token is None:
        return state_at(options.start_step, options, layout, digest)
    here = state_at(0, options, layout, digest)
    if token.digest in earlier_digests:
        raise ConfigError(
            f"state: expected a token of {earlier_digests[token.digest]!r} as it is now, got one "
            "of before `tfx-shards forget` took records out of it, after which other batches "
            "come. Begin anew, with state=None.",
            setting="state",
        )
    cures = {
        "digest": "It is of another dataset or split: begin anew, with state=None",
        "seed": "Set that seed",
        "batch_size": "Set that batch_size",
        "order": "Set these settings",
    }
    for name, cure in cures.items():
        wanted, got = getattr(token, name), getattr(here, name)
        if wanted != got:
            raise ConfigError.of(
                "state", got, allowed=f"the {name} of the token, {wanted!r}", advice=f"{cure}."
            )
    if options.batch_size is None:
        _check_singles(token, options, layout)
    elif token.num_lanes != layout.num_lanes:
        raise ConfigError(
            f"state: expected a divisor of the batch size {layout.batch_size} as num_lanes of "
            f"the token, got {token.num_lanes}. It is not one of state(step).",
            setting="state",
        )
    if token.step >= max(steps_per_epoch(options, layout), 1):
        raise ConfigError(
            f"state: expected a step below {steps_per_epoch(options, layout)}, the steps of an "
            f"epoch, got {token.step}. It is not a token of state(step).",
            setting="state",
        )
    return token


def steps_per_epoch(options: OrderOptions, layout: BatchLayout) -> int:
    """Steps of an epoch; without a batch size, examples of each worker."""
    if options.batch_size is None:
        return layout.num_records // layout.num_workers * options.echoing
    return layout.steps * options.echoing


def _check_singles(token: InputState, options: OrderOptions, layout: BatchLayout) -> None:
    """Single examples are counted one by one, and divided for a fixed number of workers."""
    if not token.step:
        return
    if token.num_workers != layout.num_workers:
        raise ConfigError(
            f"state: expected {token.num_workers} workers as in the token, got "
            f"{layout.num_workers}: single examples are divided for a fixed number of workers. "
            "Go on with as many, from the first step of an epoch, or with a batch_size.",
            setting="state",
        )
    if options.on_corrupt == "skip":
        raise ConfigError(
            f"state: expected the first step of an epoch, got step {token.step}: which single "
            "example it is, is unknown where some may have been skipped. "
            "Go on from there, with on_corrupt='raise', or with a batch_size.",
            setting="state",
        )


def _order_of(options: OrderOptions, layout: BatchLayout) -> str:
    """The settings that shape batches, each in one form, whatever it was given as."""
    weights = None if options.weights is None else [float(weight) for weight in options.weights]
    settings: JsonObject = {
        "shuffle": options.shuffle,
        "weights": weights,
        "remainder": layout.remainder,
        "echoing": options.echoing,
    }
    if options.shuffle is True:
        settings["shuffle_bytes"] = options.shuffle_bytes
    if options.shuffle is False:  # what it leaves out is the same in each epoch
        settings["drop_remainder"] = options.drop_remainder
    return json.dumps(settings)
