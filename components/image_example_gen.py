"""ImageExampleGen: convert images, in many layouts, to a dataset.

images = ImageExampleGen(input_base="photos/")
images.outputs["examples"]
"""

import os
from typing import TYPE_CHECKING

from tfx.dsl.components.base import executor_spec

from components.example_gen.settings import ImageSettings
from components.tfx.component import Runtime, document_constructor, parameters_of
from components.tfx.example_gen import (
    TFX_ARGUMENTS,
    TFX_PARAMETERS,
    ExampleGenExecutor,
    FilesExampleGen,
    FilesExampleGenSpec,
    FileTreeDriver,
)
from components.tfx.keywords import ImageExampleGenKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Executor(ExampleGenExecutor):
    """Executor of ImageExampleGen."""

    settings_class = ImageSettings


class _Driver(FileTreeDriver):
    settings_class = ImageSettings


class ImageExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(ImageSettings)}


class ImageExampleGen(FilesExampleGen):
    """A component that converts images, in many layouts, to TFRecords of `tf.train.Example`.

    Every example has `image`, `filename` (relative to `input_base`), `height`, `width` and
    `channels`. `image` is the file, byte for byte if TensorFlow reads it. The layout adds its own
    features: the `label` of a class folder, the columns of a list, the boxes of an annotation.
    String labels become int64 ids, which are indices in the sorted vocabulary
    `vocab/<feature>.txt`. Bad files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        **arguments: "Unpack[ImageExampleGenKeywords]",
    ) -> None:
        """Create the component. `help(ImageExampleGen)` describes every argument."""
        super().__init__(ImageSettings, {"input_base": input_base, **arguments})


document_constructor(ImageExampleGen, ImageSettings, ImageExampleGenKeywords, **TFX_ARGUMENTS)
