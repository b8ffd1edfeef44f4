"""Settings for storing images and audio."""

import dataclasses
import importlib.util

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import NumberRule, Settings, one_of, setting

MAX_PIXELS = 89_478_485  # Pillow's own limit against decompression bombs: a quarter of a GiB as RGB
_MAX_PIXELS = 1 << 31
DESCRIPTIONS = {"image": ("height", "width", "channels"), "audio": ("sample_rate", "num_frames")}
"""Features that describe the first file of each kind."""
LARGEST_RATE = 768_000  # Hz; above it, the filter alone could take gigabytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(Settings):
    """How to store images.

    Args:
        orientation: `apply` rotates photos according to EXIF or XMP, which TensorFlow ignores;
            `keep` does not rotate them.
        frames: `first` keeps the first frame of an animation, `reject` rejects animations.
        resize_shorter_side: shorter side in pixels; larger images are scaled down and encoded
            again. Default: sizes are kept.
        quality: quality of JPEGs that are encoded again.
        encoding: `file` keeps encoded images; `raw` stores pixels that need no decoding: the
            central square, `(side, side, 3) uint8`, where `resize_shorter_side` is the side.
            Smaller images are enlarged.
        verify: the check of each image: `structure` (markers, checksums, tables and sizes), or
            `decode` (every pixel, with Pillow).
        max_pixels: maximum pixels of an image, in all frames together.
        sixteen_bit: how to store images with 16 bits per channel. `scale` stores the upper 8 bits;
            `keep` stores a PNG unchanged, and a grey TIFF as a 16-bit PNG. `trainer_utils` reads
            both as uint16.
    """

    orientation: str = setting("apply", one_of("apply", "keep"))
    frames: str = setting("first", one_of("first", "reject"))
    resize_shorter_side: int | None = setting(None, NumberRule(1))
    quality: int = setting(95, NumberRule(1, 100))
    encoding: str = setting("file", one_of("file", "raw"))
    verify: str = setting("structure", one_of("structure", "decode"))
    max_pixels: int = setting(MAX_PIXELS, NumberRule(1, _MAX_PIXELS))
    sixteen_bit: str = setting("scale", one_of("scale", "keep"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize_shorter_side is None and self.encoding == "raw":
            allowed = "pixels for encoding='raw', whose images have all one size"
            raise ConfigError.of("resize_shorter_side", None, allowed=allowed)

    def check_compatible(self) -> None:
        """Raise ConfigError if two settings contradict each other, before an image is read."""
        if self.encoding == "raw" and self.sixteen_bit == "keep":
            allowed = "'scale' for encoding='raw', whose pixels have 8 bits"
            raise ConfigError.of("sixteen_bit", "keep", allowed=allowed)

    @property
    def decodes_all(self) -> bool:
        """Whether every image is decoded, not only images that must be converted."""
        return self.resize_shorter_side is not None or self.verify == "decode"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioOptions(Settings):
    """How to store audio.

    Args:
        sample_rate: rate in Hz to resample audio to. Default: each file keeps its own.
        channels: 1 mixes all channels into one, 2 duplicates a single one. Default: unchanged.
    """

    sample_rate: int | None = setting(None, NumberRule(1, LARGEST_RATE))
    channels: int | None = setting(None, one_of(None, 1, 2))

    def check_installed(self) -> None:
        """Raise ConfigError if resampling needs a missing library, before any clip is read."""
        if self.sample_rate is not None and importlib.util.find_spec("scipy") is None:
            rule, advice = "None without scipy", "Run pip install 'tfx-shards[audio]'"
            raise ConfigError.of("sample_rate", self.sample_rate, allowed=rule, advice=advice)
