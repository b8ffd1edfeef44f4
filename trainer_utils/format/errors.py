"""The exceptions of tfx-shards: a small family under `ValueError`.

try:
    dataset = trainer_utils.input_fn(uri, split="train")
except trainer_utils.DatasetError as error:
    print(error)  # what happened, where, and how to mend it
"""

from trainer_utils.format.printable import printable

__all__ = ["ConfigError", "CorruptShardError", "DatasetError", "InputError"]


class DatasetError(ValueError):
    """What is at the uri is no dataset, is not whole, or lacks what was asked of it.

    Its text is one line that a terminal or a log can take, whatever names of the data are in it.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class CorruptShardError(DatasetError):
    """A shard's bytes are not what they should be; the message names file and byte offset."""


class ConfigError(DatasetError):
    """A setting has a value that is not allowed. The message names setting, value and rule."""


class InputError(DatasetError):
    """The raw input cannot be turned into a dataset: missing, empty, or too much of it is bad."""
