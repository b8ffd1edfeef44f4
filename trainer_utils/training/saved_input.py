"""The position of an input as a checkpoint of its model keeps it: a token and a ledger, as JSON.

load_state("backup")     # InputState(epoch=1, step=20, …), which `InputBackup` saved there
"""

import dataclasses
import json
import os
from typing import Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.ledger.input_ledger import InputLedger
from trainer_utils.order import InputState
from trainer_utils.storage import exists, join, read_text

STATE_FILE = "input_state.json"


def load_state(folder: str | os.PathLike[str]) -> InputState | None:
    """Return the token that `InputBackup` saved in a folder, or None before the first save."""
    return read_saved_input(os.fspath(folder)).state


@dataclasses.dataclass(frozen=True)
class SavedInput:
    """The saved position of an input: its token, its ledger, and the model's number of updates."""

    state: InputState | None = None
    ledger: InputLedger | None = None
    updates: int | None = None  # counted by the model's optimizer
    package: str | None = None  # the package of the model

    def to_json(self) -> str:
        """Return this as JSON; the state and the ledger must be set."""
        assert self.state is not None
        assert self.ledger is not None
        facts = {"state": self.state.to_json(), "ledger": self.ledger.to_json()}
        model = {"updates": self.updates, "package": self.package}
        return json.dumps({**facts, "model": model})

    @classmethod
    def from_json(cls, content: str) -> "SavedInput":
        """Parse the output of `to_json`; an empty string is an input that was never saved."""
        if not content:
            return cls()
        try:
            facts = json.loads(content)
            state, ledger, model = facts["state"], facts["ledger"], facts.get("model", {})
            updates, package = model.get("updates"), model.get("package")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError.of("state", content, allowed="a token and its ledger") from error
        return cls(InputState.from_json(state), InputLedger.from_json(ledger), updates, package)


def read_saved_input(folder: str) -> SavedInput:
    """Return what `InputBackup` saved in a folder; an empty one before the first save."""
    path = join(folder, STATE_FILE)
    return SavedInput.from_json(read_text(path) if exists(path) else "")


def check_counted(dataset: Any, name: str = "dataset") -> None:
    """Raise a ConfigError if a dataset does not count its steps: it has no position to save."""
    if not hasattr(dataset, "input_start"):
        rule = "that of input_fn or distribute itself, before map and the like"
        cure = "Change its examples in a post_batching_callback"
        raise ConfigError.of(name, dataset, allowed=rule, advice=cure)
