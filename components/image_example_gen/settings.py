"""The settings of ImageExampleGen, checked where they are made.

ImageSettings(target_shard_bytes=64 << 20, seed=7, vocabulary=["cat", "dog"])
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from components.example_gen.settings import ExampleGenSettings, check_texts
from components.image_example_gen.images import ImageOptions
from components.image_example_gen.layouts import LAYOUTS

__all__ = ["ImageSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings(ExampleGenSettings):
    """What shapes the output, beside TFX's own input_config and output_config.

    Args:
        image_roots: folders beside the input base that a list may point into.
        images: what becomes of them.
    """

    LAYOUTS = LAYOUTS
    JSON_PROPERTIES = ("columns", "image_roots", "vocabulary")

    image_roots: Sequence[str] = ()
    images: ImageOptions = ImageOptions()  # noqa: RUF009  frozen

    def __post_init__(self) -> None:
        check_texts("image_roots", self.image_roots)
        super().__post_init__()

    @classmethod
    def from_arguments(cls, values: Mapping[str, Any]) -> "ImageSettings":
        """From the component's arguments, those of `ImageOptions` among them."""
        names = {field.name for field in dataclasses.fields(ImageOptions)}
        options = ImageOptions(**{name: values[name] for name in names & values.keys()})
        return super().from_arguments({**values, "images": options})

    def for_manifest(self) -> dict[str, Any]:
        """The settings as a manifest keeps them: no paths, and of a vocabulary its size."""
        config = super().for_manifest()
        del config["image_roots"]
        return config | config.pop("images")
