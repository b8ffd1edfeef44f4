"""The TextExampleGen component: its interface.

texts = TextExampleGen(input_base="reviews.csv")
texts.outputs["examples"]
"""

from tfx.dsl.components.base import executor_spec

from components.common.component import parameters_of, takes_settings
from components.example_gen.component import TFX_PARAMETERS, FilesExampleGen, FilesExampleGenSpec
from components.example_gen.driver import FileTreeDriver
from components.text_example_gen.conversion import TextConversion
from components.text_example_gen.executor import Executor
from components.text_example_gen.settings import TextSettings

__all__ = ["TextExampleGen"]


class TextExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(TextSettings)}


class _Driver(FileTreeDriver):
    conversion_class = TextConversion


class TextExampleGen(FilesExampleGen):
    """Turns texts and tables into sharded TFRecords of `tf.train.Example`.

    Every example has the columns of its row, typed by all rows, or `text` and `label` of a file
    in a class folder; and `id`, its source and its number there. Labels that are texts become
    int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`. Bad rows are listed in
    `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = TextExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver
    __init__ = takes_settings(TextSettings)(FilesExampleGen.__init__)
