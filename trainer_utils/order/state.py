"""Tokens to go on from: where an input is, small enough to lie beside every checkpoint.

    token = train.state(step).to_json()
    train = input_fn(uri, "train", batch_size=256, state=token)   # in a new process

Any number of workers goes on from a token, and all that comes after the order may change: features,
decoding, callbacks; between two epochs the batch size, too.
"""

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

from trainer_utils.format import ConfigError

if TYPE_CHECKING:
    from trainer_utils.order.options import OrderOptions

__all__ = ["InputState", "check_state", "order_digest"]

_VERSION = 3  # of the order of records: another is a token of other batches


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputState:
    """Where an input is.

    Args:
        epoch: counted from 0.
        step: the one that comes next, in that epoch.
        batch_size: of the global batch; of single examples the number of workers.
        seed: of all orders.
        digest: of the dataset, the slices that are read, and the settings that shape batches.
        version: of the order of records.

    Raises:
        ConfigError: it is of another version, or no such token.
    """

    epoch: int
    step: int
    batch_size: int
    seed: int
    digest: str
    version: int = _VERSION

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
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "InputState":
        """Reads what `to_json` made.

        Raises:
            ConfigError: it is no such text, or of another version.
        """
        try:
            fields = json.loads(text)
            if not {"epoch", "version"} & fields.keys():
                raise TypeError("expected a token")
            if (version := fields.get("version", 1)) != _VERSION:  # which may have other fields
                return cls(epoch=0, step=0, batch_size=1, seed=0, digest="", version=version)
            return cls(**fields)
        except (AttributeError, TypeError, json.JSONDecodeError) as error:
            raise ConfigError.of("state", text, allowed="a token of state(step)") from error


def check_state(token: Any) -> InputState | None:
    """The token that a setting brings, in whatever form; None: there is none.

    Raises:
        ConfigError: it is no token, or of another version.
    """
    if token is None or isinstance(token, InputState):
        return token
    return InputState.from_json(json.dumps(token) if isinstance(token, dict) else str(token))


def order_digest(digest: str, options: "OrderOptions") -> str:
    """A digest of the dataset's own and of the settings that shape batches.

    Each setting counts in one form, whatever it was given as: SHA-256 of their JSON, 32 hex digits.
    """
    weights = None if options.weights is None else [float(weight) for weight in options.weights]
    shuffle = options.shuffle if isinstance(options.shuffle, (bool, str)) else int(options.shuffle)
    settings: list[Any] = [digest, shuffle, options.remainder, weights, options.echoing]
    if not options.reshuffle_each_iteration:
        settings.append("same each epoch")
    if options.pack is not None:
        settings.append(dataclasses.asdict(options.pack))
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:32]
