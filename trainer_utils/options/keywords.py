"""Typed keywords of `input_fn` and its siblings, made by scripts/generate_settings.py.

from trainer_utils.options.keywords import InputSettings
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from trainer_utils.options.input_options import CacheOptions, ImageOptions, LabelOptions
from trainer_utils.order.mixing import WeightSchedule
from trainer_utils.order.packing import PackOptions


class PackOptionsDict(TypedDict, total=False):
    """The settings of `PackOptions`."""

    length: int
    strategy: Literal["concat", "best_fit", "one_document"]
    eos: int | None
    feature: str


class LabelOptionsDict(TypedDict, total=False):
    """The settings of `LabelOptions`."""

    one_hot: bool
    smoothing: float
    num_classes: int | None
    sample_weight: str | None


class ImageOptionsDict(TypedDict, total=False):
    """The settings of `ImageOptions`."""

    resize: Literal["stretch", "crop", "pad"]
    normalize: str | Sequence[Any] | None
    dtype: Literal["float32", "bfloat16", "float16"]
    channels: int | None
    dct_scaling: bool
    crop_area: tuple[float, float]
    crop_aspect: tuple[float, float]


class CacheOptionsDict(TypedDict, total=False):
    """The settings of `CacheOptions`."""

    folder: str | os.PathLike[str] | None
    max_bytes: int | None


class InputSettings(TypedDict, total=False):
    """The settings of `InputOptions`."""

    batch_size: int | None
    shuffle: bool | int | str
    reshuffle_each_iteration: bool
    seed: int
    repeat: bool | int
    remainder: Literal["drop", "pad", "balance"] | None
    where: str | None
    weights: Sequence[float] | WeightSchedule | None
    pack: PackOptions | PackOptionsDict | None
    echoing: int
    on_corrupt: Literal["raise", "skip"]
    state: Any
    features: str | Sequence[str] | None
    default_values: Mapping[str, Any] | None
    label: str | None
    labels: LabelOptions | LabelOptionsDict
    image_size: tuple[int, int] | None
    augment: str | Callable[[Any, Any], Any] | Sequence[Any] | None
    image: ImageOptions | ImageOptionsDict
    audio_seconds: float | None
    ragged: bool
    mask: str
    cache: CacheOptions | CacheOptionsDict | str | os.PathLike[str] | None
    pre_batching_callback: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None
    post_batching_callback: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None
    conversion: Mapping[str, Any] | None
    convert_to: str | os.PathLike[str] | None
    prefetch: int
    processes: int
