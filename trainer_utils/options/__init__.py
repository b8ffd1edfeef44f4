"""The settings of inputs, validated on creation."""

from trainer_utils.options.input_options import (
    CacheOptions,
    Callback,
    ImageOptions,
    InputOptions,
    LabelOptions,
    choose_options,
    shows_settings,
)

__all__ = [
    "CacheOptions",
    "Callback",
    "ImageOptions",
    "InputOptions",
    "LabelOptions",
    "choose_options",
    "shows_settings",
]
