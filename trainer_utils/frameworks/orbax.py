"""Save the position of a `jax_batches` input in a checkpoint of Orbax.

    from trainer_utils.frameworks.orbax import InputRestore, InputSave

    batches = trainer_utils.jax_batches(uri, "train", batch_size=256, repeat=True)
    manager.save(step, args=ocp.args.Composite(
        model=ocp.args.StandardSave(model), input=InputSave(batches)))
    manager.restore(step, args=ocp.args.Composite(
        model=ocp.args.StandardRestore(model), input=InputRestore(batches)))

All processes are at the same step, so the first one writes one token for all. It can be restored
with another number of processes and devices.
"""

import dataclasses
import json
from typing import Any

from trainer_utils.core.errors import ConfigError

try:
    import orbax.checkpoint as ocp  # type: ignore[import-not-found]
except ImportError as error:
    raise ConfigError(
        "trainer_utils.frameworks.orbax: expected Orbax, found none. Install it: pip install "
        "orbax-checkpoint. Without it, keep batches.state_dict() with the model."
    ) from error

_FILE = "input_state.json"


class InputCheckpointHandler(ocp.CheckpointHandler):  # type: ignore[misc]
    """A handler that saves and restores the position of an input, with its `state_dict`."""

    def save(self, directory: Any, item: Any = None, args: Any = None) -> None:
        """Write the position after the batch that `item` or `args.item` yielded last."""
        import jax  # type: ignore[import-not-found]

        batches = args.item if item is None else item
        if jax.process_index() == 0:
            (directory / _FILE).write_text(json.dumps(batches.state_dict()))

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """Set an input to the saved position, and return it; its next iterator begins there.

        Raises:
            ConfigError: the position belongs to another dataset, split, batch size or seed.
        """
        batches = args.item if item is None else item
        batches.load_state_dict(json.loads((directory / _FILE).read_text()))
        return batches


@ocp.args.register_with_handler(InputCheckpointHandler, for_save=True)
@dataclasses.dataclass
class InputSave(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """The input to save.

    Args:
        item: the result of `jax_batches` or `iterate`.
    """

    item: Any


@ocp.args.register_with_handler(InputCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class InputRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]
    """The input to set to the saved position.

    Args:
        item: a result of `jax_batches` or `iterate` with the same dataset, split and settings.
    """

    item: Any
