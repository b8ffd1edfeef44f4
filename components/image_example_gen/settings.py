"""The settings of ImageExampleGen, checked where they are made.

ImageSettings(target_shard_bytes=64 << 20, seed=7)
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from components.common.checks import COMPRESSIONS, check_choice, check_number
from components.image_example_gen.layouts import LAYOUTS

__all__ = ["ImageSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """What shapes the output, beside TFX's own input_config and output_config.

    Args:
        layout: `auto`, `folder` or `csv`.
        seed: of the hash that decides splits, order and shards; 64 bits, signed.
        target_shard_bytes: wished size of a shard, at least 1 byte.
        compression: `none` or `gzip`.
        max_reject_fraction: of the inputs that may be rejected, in [0, 1].
    """

    layout: str = "auto"
    seed: int = 0
    target_shard_bytes: int = 128 << 20  # 128 MiB: the field's advice is 100 to 200 MB
    compression: str = "none"
    max_reject_fraction: float = 0.01

    def __post_init__(self) -> None:
        check_choice("layout", self.layout, LAYOUTS)
        check_number("seed", self.seed, -(2**63), 2**63 - 1)
        check_number("target_shard_bytes", self.target_shard_bytes, 1)
        check_choice("compression", self.compression, COMPRESSIONS)
        check_number("max_reject_fraction", self.max_reject_fraction, 0, 1, kind=float)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "ImageSettings":
        """From execution properties; other keys are passed over, missing ones have defaults."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: values[name] for name in names if values.get(name) is not None})
