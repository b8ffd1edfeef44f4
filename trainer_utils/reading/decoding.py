"""`DecodeOptions`: what the features of an example are to become.

options = DecodeOptions(image_size=(224, 224), augment="random_resized_crop", audio_seconds=2)
options.images, options.audio       # checked, as ImageSettings and AudioReading
"""

import dataclasses
import functools
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.format.settings import documents_settings, flag, one_of, setting, settings_of
from trainer_utils.format.spelling import checks_names
from trainer_utils.reading.audio import AudioReading
from trainer_utils.reading.augmentation.chain import Augmentation, Chain
from trainer_utils.reading.image_settings import (
    ImageOptions,
    ImageSettings,
    is_turbo_installed,
)

__all__ = ["DECODERS", "DecodeOptions"]

DECODERS = ("auto", "tensorflow", "turbo")


def _check_chain(name: str, value: Chain) -> Chain:
    Augmentation.of(value)
    return value


def _check_seconds(name: str, value: Any) -> float | None:
    return AudioReading(seconds=value).seconds


@checks_names
@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeOptions(ImageOptions):
    """How features are decoded.

    Raises:
        ConfigError: a setting is not allowed.
    """

    augment: Chain = setting(
        None,
        _check_chain,
        "a different change of each image every epoch: `random_resized_crop`, or a list of "
        "operations, each a name or a tuple of it and its numbers: "
        '`["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)]`. There are '
        "`random_resized_crop`, `flip`, `colour`, `rotation`, `grey`, `blur`, `cutout`, "
        "`randaugment`, `mixup` and `cutmix`.",
    )
    audio_seconds: float | None = setting(
        None,
        _check_seconds,
        "length that sounds are cut or padded with silence to; None keeps theirs.",
    )
    decoder: str = setting(
        "auto",
        one_of(*DECODERS),
        "decoder of images: `turbo` (simplejpeg and OpenCV, whole batches in threads; needs the "
        "extra `tfx-shards[turbo]`), `tensorflow`, or `auto`: turbo where it is installed. Their "
        "pixels are the same within one level of 255.",
    )
    ragged: bool = setting(
        False, flag, "features of variable length come as `tf.RaggedTensor`; else they are padded."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.images  # which checks what goes together

    @functools.cached_property
    def images(self) -> ImageSettings:
        """What images are to become."""
        shared = {name: getattr(self, name) for name in settings_of(ImageOptions)}
        augmentation = self.augmentation
        return ImageSettings(
            **{**shared, "flip": augmentation.flips},
            augment="random_resized_crop" if augmentation.crops else None,
            decoder=self._decoder,
        )

    @functools.cached_property
    def augmentation(self) -> Augmentation:
        """The chain of `augment`, as it is carried out."""
        return Augmentation.of(self.augment, flip=self.flip)

    @property
    def _decoder(self) -> str:
        """The one that is taken."""
        if self.decoder == "turbo" and not is_turbo_installed():
            raise ConfigError(
                "decoder: expected 'auto' or 'tensorflow' where simplejpeg and OpenCV are not "
                "installed, got 'turbo'. Install them: pip install 'tfx-shards[turbo]'.",
                setting="decoder",
            )
        if self.decoder == "auto":
            return "turbo" if is_turbo_installed() and self.decodes_here else "tensorflow"
        return self.decoder

    @property
    def decodes_here(self) -> bool:
        """Whether images are decoded in this process, where Python is."""
        return True

    @functools.cached_property
    def audio(self) -> AudioReading:
        """What sounds are to become."""
        return AudioReading(seconds=self.audio_seconds)
