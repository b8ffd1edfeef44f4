"""Feeds datasets of TFRecord shards to TensorFlow trainers.

    import trainer_utils

    train = trainer_utils.input_fn(uri, split="train", batch_size=64, label="label")
    model.fit(train)

Importing this package alone imports no TensorFlow; the first use of a function does.
"""

import importlib
from typing import TYPE_CHECKING, Any

from trainer_utils.format.errors import ConfigError, CorruptShardError, DatasetError

if TYPE_CHECKING:
    from trainer_utils.distribution import distribute
    from trainer_utils.input_pipeline import input_fn
    from trainer_utils.options import InputOptions
    from trainer_utils.planning import InputPlan, WorkerPlan, plan
    from trainer_utils.resuming import InputBackup, InputProgress, load_state
    from trainer_utils.state import InputState

__all__ = [
    "ConfigError",
    "CorruptShardError",
    "DatasetError",
    "InputBackup",
    "InputOptions",
    "InputPlan",
    "InputProgress",
    "InputState",
    "WorkerPlan",
    "distribute",
    "input_fn",
    "load_state",
    "plan",
]

_MODULES = {
    "InputBackup": "trainer_utils.resuming",
    "InputProgress": "trainer_utils.resuming",
    "load_state": "trainer_utils.resuming",
    "InputOptions": "trainer_utils.options",
    "InputPlan": "trainer_utils.planning",
    "InputState": "trainer_utils.state",
    "WorkerPlan": "trainer_utils.planning",
    "distribute": "trainer_utils.distribution",
    "input_fn": "trainer_utils.input_pipeline",
    "plan": "trainer_utils.planning",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
