"""The engine of all ExampleGens of files, for images."""

from components.example_gen.executor import ExampleGenExecutor
from components.image_example_gen.conversion import ImageConversion

__all__ = ["Executor"]


class Executor(ExampleGenExecutor):
    """Executor of ImageExampleGen."""

    producer = "ImageExampleGen"
    conversion_class = ImageConversion
