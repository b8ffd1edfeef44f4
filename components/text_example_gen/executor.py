"""The engine of all ExampleGens, for texts and tables, and for tables whose rows name files."""

from components.example_gen.executor import ExampleGenExecutor
from components.text_example_gen.conversion import TextConversion

__all__ = ["Executor"]


class Executor(ExampleGenExecutor):
    """Executor of TextExampleGen."""

    producer = "TextExampleGen"
    conversion_class = TextConversion
