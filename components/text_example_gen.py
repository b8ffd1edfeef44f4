"""TextExampleGen: convert text and tables to a dataset.

texts = TextExampleGen(input_base="reviews.csv")
texts.outputs["examples"]
"""

import os
from typing import TYPE_CHECKING

from tfx.dsl.components.base import executor_spec

from components.example_gen.settings import TextSettings
from components.tfx.component import Runtime, document_constructor, parameters_of
from components.tfx.example_gen import (
    TFX_ARGUMENTS,
    TFX_PARAMETERS,
    ExampleGenExecutor,
    FilesExampleGen,
    FilesExampleGenSpec,
    FileTreeDriver,
)
from components.tfx.keywords import TextExampleGenKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Executor(ExampleGenExecutor):
    """Executor of TextExampleGen."""

    settings_class = TextSettings


class _Driver(FileTreeDriver):
    settings_class = TextSettings


class TextExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(TextSettings)}


class TextExampleGen(FilesExampleGen):
    """A component that converts text and tables to sharded TFRecords of `tf.train.Example`.

    Every example has the columns of its row, typed by all rows, or the `text` and `label` of a file
    in a class folder; and `id`, its source and its number there. String labels become int64 ids,
    which are indices in the sorted vocabulary `vocab/<feature>.txt`. Bad rows are listed in
    `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = TextExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        **arguments: "Unpack[TextExampleGenKeywords]",
    ) -> None:
        """Create the component. `help(TextExampleGen)` describes every argument."""
        super().__init__(TextSettings, {"input_base": input_base, **arguments})


document_constructor(TextExampleGen, TextSettings, TextExampleGenKeywords, **TFX_ARGUMENTS)
