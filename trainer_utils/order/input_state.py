"""Tokens to go on from: where an input is, small enough to lie beside every checkpoint.

Any number of workers goes on from a token, and all that comes after the order may change; between
two epochs the batch size, too.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer_utils.format import ConfigError
from trainer_utils.order.mixing import Stage, WeightSchedule

if TYPE_CHECKING:
    from trainer_utils.order.options import OrderOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixState:
    """What a mixture has behind it: records and steps of an epoch, stages by rows of the run,
    and the parts that gave records: how many they have, and a digest of which.
    """

    records: int
    steps: int
    stages: Sequence[Stage]
    parts: Mapping[str, tuple[int, str]]

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "MixState":
        """What `asdict` and JSON make of one; KeyError, TypeError or ValueError if it is none."""
        stages = [(int(row), dict(shares)) for row, shares in value["stages"]]
        parts = {name: (count, digest) for name, (count, digest) in value["parts"].items()}
        counts = [value["records"], value["steps"], *(row for row, _ in stages)]
        if not all(type(count) is int and count >= 0 for count in counts):
            raise TypeError(f"expected numbers from 0 on, got {counts}")
        return cls(**{**value, "stages": stages, "parts": parts})


_VERSION = 3  # of the order of records: another is a token of other batches


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputState:
    """Where an input is.

    Args:
        epoch, step: what comes next, counted from 0, the step in that epoch.
        batch_size: of the global batch; of single examples the number of workers.
        seed: of all orders.
        digest: of the dataset, the slices that are read, and the settings that shape batches.
        version: of the order of records; another is refused with a ConfigError.
        mix: of a mixture, what it has behind it; None: there is no mixture.
    """

    epoch: int
    step: int
    batch_size: int
    seed: int
    digest: str
    version: int = _VERSION
    mix: MixState | None = None

    def __post_init__(self) -> None:
        if self.version != _VERSION:
            rule = f"a token of version {_VERSION}, since after others other records come"
            cure = "Begin the epoch anew, with state=None, or go on with the tfx-shards it is of"
            raise ConfigError.of("state", self.version, allowed=rule, advice=cure)
        for name, least in (("epoch", 0), ("step", 0), ("batch_size", 1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < 1 << 63:
                rule = f"a token of state(step), whose {name} is an int of at least {least}"
                raise ConfigError.of("state", value, allowed=rule)

    def to_json(self) -> str:
        """The token as one line of text."""
        fields = dataclasses.asdict(self)
        return json.dumps({n: v for n, v in fields.items() if v is not None}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "InputState":
        """Reads what `to_json` made."""
        try:
            fields = json.loads(text)
            if not {"epoch", "version"} & fields.keys():
                raise TypeError("expected a token")
            if (version := fields.get("version", 1)) != _VERSION:  # which may have other fields
                return cls(epoch=0, step=0, batch_size=1, seed=0, digest="", version=version)
            if (mix := fields.get("mix")) is not None:
                fields["mix"] = MixState.from_dict(mix)
            return cls(**fields)
        except ConfigError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError.of("state", text, allowed="a token of state(step)") from error


def check_state(token: Any) -> InputState | None:
    """The token that a setting brings, in whatever form; None: there is none."""
    if token is None or isinstance(token, InputState):
        return token
    return InputState.from_json(json.dumps(token) if isinstance(token, dict) else str(token))


def order_digest(digest: str, options: "OrderOptions", *, with_weights: bool = True) -> str:
    """SHA-256, 32 hex digits, of a dataset's own digest and of the settings that shape batches."""
    weights: Any = options.weights
    if weights is not None:
        weights = dataclasses.asdict(WeightSchedule.of(weights)) if with_weights else "mixed"
    shuffle = options.shuffle if isinstance(options.shuffle, (bool, str)) else int(options.shuffle)
    # Single examples leave out what fills no step, with which an order without shuffle goes on.
    is_dropping = options.batch_size is None and not shuffle
    remainder = "drop" if is_dropping else options.remainder
    settings: list[Any] = [digest, shuffle, remainder, weights, options.echoing]
    if not options.reshuffle_each_iteration:
        settings.append("same each epoch")
    if options.pack is not None:
        settings.append(dataclasses.asdict(options.pack))
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:32]
