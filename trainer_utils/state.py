"""Tokens to go on from: where an input is, small enough to lie beside every checkpoint.

    token = train.state(step).to_json()
    train = input_fn(uri, "train", batch_size=256, state=token)   # in a new process

A token names the epoch and the records of it that were consumed, and what they were an order of:
the dataset's digest, the seed and the settings that shape batches. Where one of these is another,
the token is refused, since the batches that follow would be others. The number of workers may
change, and so may all that comes after the order: features, parsing, hooks.
"""

import dataclasses
import json

from trainer_utils.format import ConfigError
from trainer_utils.layout import Layout
from trainer_utils.options import InputOptions

__all__ = ["InputState", "first_state", "state_at", "steps_per_epoch"]

_ORDER_SETTINGS = ("shuffle", "shuffle_bytes", "weights", "remainder", "drop_remainder", "echoing")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputState:
    """Where an input is.

    Args:
        epoch: counted from 0.
        step: the one that comes next, in that epoch.
        records: of the epoch, consumed by all workers together.
        batch_size: of the global batch.
        num_lanes: that an epoch is dealt in (see `trainer_utils.layout`).
        num_workers: that made it.
        seed: of all orders.
        digest: of the dataset and of the slices that are read.
        order: the settings that shape batches.
    """

    epoch: int
    step: int
    records: int
    batch_size: int
    num_lanes: int
    num_workers: int
    seed: int
    digest: str
    order: str

    def to_json(self) -> str:
        """The token as one line of text."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "InputState":
        """Reads what `to_json` made.

        Raises:
            ConfigError: it is no such text.
        """
        try:
            state = cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"state: expected a token of state(step), got {text!r}") from error
        return state


def state_at(step: int, options: InputOptions, layout: Layout, digest: str) -> InputState:
    """The token for a step, of all steps of all epochs."""
    each = steps_per_epoch(options, layout)
    epoch, within = divmod(step, each) if each else (0, 0)
    rows = layout.num_workers if options.batch_size is None else layout.batch_size
    return InputState(
        epoch=epoch,
        step=within,
        records=min(within // options.echoing * rows, layout.num_records),
        batch_size=rows,
        num_lanes=layout.num_lanes,
        num_workers=layout.num_workers,
        seed=options.seed,
        digest=digest,
        order=json.dumps({name: getattr(options, name) for name in _ORDER_SETTINGS}),
    )


def first_state(options: InputOptions, layout: Layout, digest: str) -> InputState:
    """Where an input begins: at `start_step`, or where the token in `state` says.

    Raises:
        ConfigError: the token is of another dataset, seed, batch or order.
    """
    if options.state is None:
        return state_at(options.start_step, options, layout, digest)
    token = options.state
    if not isinstance(token, InputState):
        text = json.dumps(token) if isinstance(token, dict) else str(token)
        token = InputState.from_json(text)
    here = state_at(0, options, layout, digest)
    cures = {
        "digest": "It is of another dataset or split: begin anew, with state=None",
        "seed": "Set that seed",
        "batch_size": "Set that batch_size",
        "order": "Set these settings",
        "num_lanes": "Take a number of workers that divides this, or a divisor of it",
    }
    for name, cure in cures.items():
        wanted, got = getattr(token, name), getattr(here, name)
        if wanted != got:
            raise ConfigError(
                f"state: expected the {name} of the token, {wanted!r}, got {got!r}. {cure}."
            )
    if (
        token.num_workers != layout.num_workers
        and options.remainder == "balance"
        and token.step // options.echoing > layout.full_steps
    ):
        raise ConfigError(
            f"state: expected {token.num_workers} workers, got {layout.num_workers}: with "
            "remainder='balance' the last two batches are dealt out for a number of workers. "
            "Go on with as many, or from another step."
        )
    return token


def steps_per_epoch(options: InputOptions, layout: Layout) -> int:
    """Steps of an epoch; without a batch size, examples of each worker."""
    if options.batch_size is None:
        return layout.num_records // layout.num_workers
    return layout.steps * options.echoing
