"""Feed datasets of TFRecord shards to TensorFlow, PyTorch, JAX and Keras.

    import trainer_utils

    train = trainer_utils.input_fn(uri, split="train", batch_size=64, label="label")
    model.fit(train)

Importing this package imports no framework; the first use of a function imports its own.
"""

import importlib
from typing import TYPE_CHECKING, Any

from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError

if TYPE_CHECKING:
    from trainer_utils.frameworks.image_decoder import image_decoder
    from trainer_utils.frameworks.jax import jax_batches
    from trainer_utils.frameworks.keras import keras_dataset
    from trainer_utils.frameworks.numpy import iterate
    from trainer_utils.frameworks.tensorflow import distribute, input_fn, load
    from trainer_utils.frameworks.torch import cu_seqlens, torch_dataset
    from trainer_utils.frameworks.torch_loader import torch_loader
    from trainer_utils.options import CacheOptions, ImageOptions, InputOptions, LabelOptions
    from trainer_utils.order import InputState
    from trainer_utils.order.packing import PackOptions
    from trainer_utils.order.recipe import Part, Recipe
    from trainer_utils.reading.opening import plan
    from trainer_utils.training.input_backup import InputBackup
    from trainer_utils.training.input_progress import InputProgress
    from trainer_utils.training.loop import evaluate, fit
    from trainer_utils.training.saved_input import load_state
    from trainer_utils.writing.dataset_writer import DatasetWriter

__version__ = "0.3.0.dev0"

_NAMES = {
    "frameworks.image_decoder": ["image_decoder"],
    "frameworks.jax": ["jax_batches"],
    "frameworks.keras": ["keras_dataset"],
    "frameworks.numpy": ["iterate"],
    "frameworks.tensorflow": ["distribute", "input_fn", "load"],
    "frameworks.torch": ["cu_seqlens", "torch_dataset"],
    "frameworks.torch_loader": ["torch_loader"],
    "training.input_backup": ["InputBackup"],
    "training.input_progress": ["InputProgress"],
    "training.saved_input": ["load_state"],
    "options": ["CacheOptions", "ImageOptions", "InputOptions", "LabelOptions"],
    "order": ["InputState"],
    "order.packing": ["PackOptions"],
    "order.recipe": ["Part", "Recipe"],
    "reading.opening": ["plan"],
    "training.loop": ["evaluate", "fit"],
    "writing.dataset_writer": ["DatasetWriter"],
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_SUBMODULES = ("cluster", "monitoring", "training")

__all__ = [
    "CacheOptions",
    "ConfigError",
    "CorruptShardError",
    "DatasetError",
    "DatasetWriter",
    "ImageOptions",
    "InputBackup",
    "InputOptions",
    "InputProgress",
    "InputState",
    "LabelOptions",
    "PackOptions",
    "Part",
    "Recipe",
    "cu_seqlens",
    "distribute",
    "evaluate",
    "fit",
    "image_decoder",
    "input_fn",
    "iterate",
    "jax_batches",
    "keras_dataset",
    "load",
    "load_state",
    "plan",
    "torch_dataset",
    "torch_loader",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"trainer_utils.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"trainer_utils.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, *_SUBMODULES]
