"""The settings of ExampleGens whose examples hold files: images, audio.

MediaSettings(images=ImageOptions(resize_shorter_side=256), audio=AudioOptions(sample_rate=16_000))
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from components.common.checks import check_choice
from components.example_gen.lists import COLUMN_KINDS
from components.example_gen.settings import ExampleGenSettings, check_table_names, check_texts
from components.media.audio import AudioOptions
from components.media.images import ImageOptions

__all__ = ["MediaSettings"]

_Settings = TypeVar("_Settings", bound="MediaSettings")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MediaSettings(ExampleGenSettings):
    """What shapes the output, beside TFX's own input_config and output_config.

    Args:
        image_roots: folders beside the input base that a list may point into.
        column_names: of a CSV or TSV without a header, or in place of its names.
        header: whether the first row of CSV and TSV has the names; None where that is to be told.
        images, audio: what becomes of them.
    """

    JSON_PROPERTIES = ("column_names", "columns", "image_roots", "vocabulary")
    OPTION_NAMES: ClassVar[Sequence[str]]  # of `images` and `audio`, those that can be set

    image_roots: Sequence[str] = ()
    column_names: Sequence[str] = ()
    header: bool | None = None
    images: ImageOptions = ImageOptions()  # noqa: RUF009  frozen
    audio: AudioOptions = AudioOptions()  # noqa: RUF009  frozen

    def __post_init__(self) -> None:
        check_texts("image_roots", self.image_roots)
        check_table_names(self.column_names, self.header)
        super().__post_init__()
        for name, kind in self.columns.items():
            check_choice(f"columns[{name!r}]", kind, COLUMN_KINDS)

    @classmethod
    def from_arguments(cls: type[_Settings], values: Mapping[str, Any]) -> _Settings:
        """From the component's arguments, those of the media's options among them."""
        options = {
            "images": _options(ImageOptions, values),
            "audio": _options(AudioOptions, values),
        }
        return super().from_arguments({**values, **options})

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """What the component's constructor takes of these settings."""
        own = (name for name in super().argument_names() if name not in ("images", "audio"))
        return (*own, *cls.OPTION_NAMES)

    def for_manifest(self) -> dict[str, Any]:
        """The settings as a manifest keeps them: no paths, and of a vocabulary its size."""
        config = super().for_manifest()
        del config["image_roots"]
        return config | config.pop("images") | config.pop("audio")


def _options(kind: type, values: Mapping[str, Any]) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: values[name] for name in names & values.keys()})
