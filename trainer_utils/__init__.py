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
    from trainer_utils import cluster
    from trainer_utils.arrays.batches import iterate
    from trainer_utils.arrays.torch_data import torch_dataset
    from trainer_utils.distribution import distribute
    from trainer_utils.input_pipeline import input_fn
    from trainer_utils.loading import load
    from trainer_utils.monitoring.bench import measure_input
    from trainer_utils.monitoring.preview import preview
    from trainer_utils.monitoring.step_timer import StepTimer
    from trainer_utils.options import InputOptions
    from trainer_utils.order import InputPlan, InputState, WorkerPlan
    from trainer_utils.planning import plan
    from trainer_utils.reading.decoding import DecodeOptions
    from trainer_utils.reading.sequences import bucket_by_length, pack
    from trainer_utils.resuming import InputBackup, InputProgress, load_state
    from trainer_utils.training.loop import evaluate, fit
    from trainer_utils.writing.dataset_writer import DatasetWriter

__version__ = "0.2.0"

__all__ = [
    "ConfigError",
    "CorruptShardError",
    "DatasetError",
    "DatasetWriter",
    "DecodeOptions",
    "InputBackup",
    "InputOptions",
    "InputPlan",
    "InputProgress",
    "InputState",
    "StepTimer",
    "WorkerPlan",
    "bucket_by_length",
    "cluster",
    "distribute",
    "evaluate",
    "fit",
    "input_fn",
    "iterate",
    "load",
    "load_state",
    "measure_input",
    "pack",
    "plan",
    "preview",
    "torch_dataset",
]

_MODULES = {
    "DatasetWriter": "trainer_utils.writing.dataset_writer",
    "DecodeOptions": "trainer_utils.reading.decoding",
    "InputBackup": "trainer_utils.resuming",
    "InputOptions": "trainer_utils.options",
    "InputPlan": "trainer_utils.order",
    "InputProgress": "trainer_utils.resuming",
    "InputState": "trainer_utils.order",
    "StepTimer": "trainer_utils.monitoring.step_timer",
    "WorkerPlan": "trainer_utils.order",
    "bucket_by_length": "trainer_utils.reading.sequences",
    "distribute": "trainer_utils.distribution",
    "evaluate": "trainer_utils.training.loop",
    "fit": "trainer_utils.training.loop",
    "input_fn": "trainer_utils.input_pipeline",
    "iterate": "trainer_utils.arrays.batches",
    "load": "trainer_utils.loading",
    "load_state": "trainer_utils.resuming",
    "measure_input": "trainer_utils.monitoring.bench",
    "pack": "trainer_utils.reading.sequences",
    "plan": "trainer_utils.planning",
    "preview": "trainer_utils.monitoring.preview",
    "torch_dataset": "trainer_utils.arrays.torch_data",
}


def __getattr__(name: str) -> Any:
    if name == "cluster":
        return importlib.import_module("trainer_utils.cluster")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
