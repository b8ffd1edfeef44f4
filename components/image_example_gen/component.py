"""The ImageExampleGen component: its interface.

images = ImageExampleGen(input_base="photos/")
images.outputs["examples"]
"""

from tfx.dsl.components.base import executor_spec

from components.common.component import parameters_of, takes_settings
from components.example_gen.component import TFX_PARAMETERS, FilesExampleGen, FilesExampleGenSpec
from components.example_gen.driver import FileTreeDriver
from components.image_example_gen.conversion import ImageConversion
from components.image_example_gen.executor import Executor
from components.image_example_gen.settings import ImageSettings

__all__ = ["ImageExampleGen"]


class ImageExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(ImageSettings)}


class _Driver(FileTreeDriver):
    conversion_class = ImageConversion


class ImageExampleGen(FilesExampleGen):
    """Turns images, in whatever layout they lie, into sharded TFRecords of `tf.train.Example`.

    Every example has `image` (the file, byte for byte where TensorFlow reads it), `filename`
    (relative to `input_base`), `height`, `width` and `channels`, and the features that the layout
    gives: `label` of a class folder, the columns of a list, the boxes of an annotation. Labels
    that are texts become int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`. Bad
    files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver
    __init__ = takes_settings(ImageSettings)(FilesExampleGen.__init__)
