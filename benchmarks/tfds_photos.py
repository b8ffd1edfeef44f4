"""A TFDS builder over a folder of photos, in a separate module as TFDS requires."""

import functools
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

__all__ = ["make_builder"]


@functools.cache  # TFDS refuses a second class of the same name
def make_builder(photos: Path) -> type:
    """Return the class of a builder over `photos/<class>/*.jpg`."""

    class Photos(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            classes = sorted(path.name for path in photos.iterdir())
            features = {
                "image": tfds.features.Image(),
                "label": tfds.features.ClassLabel(names=classes),
                "filename": tfds.features.Text(),
            }
            return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            for path in photos.rglob("*.jpg"):
                name = str(path.relative_to(photos))
                yield name, {"image": str(path), "label": path.parent.name, "filename": name}

    return Photos
