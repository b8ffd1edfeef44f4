"""Define `InputOptions`, the validated settings of `input_fn`, `iterate` and similar functions.

options = InputOptions(batch_size=256, features="image", label="label", image_size=(224, 224))
train = input_fn(uri, "train", options=options)
"""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import (
    NumberRule,
    Predicate,
    Settings,
    check_names,
    documents_settings,
    flag,
    is_int,
    one_of,
    setting,
    settings_of,
    settings_or_dict,
    text,
)
from trainer_utils.options.augmentation import Augmentation, Chain
from trainer_utils.options.pixels import MAX_VALUES, NORMALIZATIONS
from trainer_utils.order.order_options import OrderOptions, check_setting
from trainer_utils.order.packing import PACK_FEATURES
from trainer_utils.storage import is_remote

Callback = Callable[..., Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _is_normalization(value: Any) -> bool:
    if isinstance(value, str):
        return value in NORMALIZATIONS
    if not isinstance(value, (list, tuple)):
        return False
    try:
        mean, deviation = (np.asarray(part, np.float64) for part in value)
    except (OverflowError, TypeError, ValueError):
        return False
    are_shaped = all(part.shape in ((), (1,), (3,)) for part in (mean, deviation))
    return are_shaped and bool(np.isfinite(mean).all() and (deviation > 0).all())


def _are_positive(values: Any, kind: Any = (int, float)) -> bool:
    return isinstance(values, (list, tuple)) and all(
        isinstance(n, kind) and not isinstance(n, bool) and n > 0 for n in values
    )


def _is_range(value: Any) -> bool:
    return _are_positive(value) and len(value) == 2 and bool(value[0] <= value[1])


def _image_size(name: str, value: Any) -> tuple[int, int]:
    is_pair = _are_positive(value, int) and len(value) == 2
    if not is_pair or 3 * value[0] * value[1] >= MAX_VALUES:
        rule = f"(height, width) in pixels, with three channels fewer than {MAX_VALUES:,} values"
        raise ConfigError.of(name, value, allowed=rule)
    return tuple(value)


def _chain(name: str, value: Chain) -> Chain:
    Augmentation.of(value)
    return value


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(Settings):
    """Settings for decoding images, next to `image_size` and `augment`."""

    resize: str = setting(
        "stretch",
        one_of("stretch", "crop", "pad"),
        "how to resize an image whose aspect ratio differs: `stretch`, `crop` (the largest centre "
        "part) or `pad` (the whole image, with black borders). All bilinear.",
    )
    normalize: str | Sequence[Any] | None = setting(
        None,
        Predicate(
            _is_normalization,
            f"{', '.join(NORMALIZATIONS)}, a pair of mean and standard deviation (each a number, "
            "or one for each channel), or None",
        ),
        "range of the pixel values. None: uint8. Otherwise floats: `unit` 0 to 1, `symmetric` "
        "-1 to 1, `imagenet`, or `(mean, standard deviation)` of values of 0 to 255, each one "
        "number or one per channel.",
    )
    dtype: str = setting(
        "float32",
        one_of("float32", "bfloat16", "float16"),
        "type of these floats: `float32`, `bfloat16` or `float16`.",
    )
    channels: int | None = setting(
        None,
        Predicate(lambda value: is_int(value) and value in (1, 3), "1, 3 or None"),
        "number of image channels: 1 for grey, 3 for RGB. None: as in the dataset.",
    )
    dct_scaling: bool = setting(
        True,
        flag,
        "decode JPEGs at 1/2, 1/4 or 1/8 of their size where `image_size` is smaller than that in "
        "both dimensions. This is faster, and avoids the aliasing of a bilinear resize to less "
        "than half. False: the same pixels as `tf.image.resize` of the whole image, within one "
        "level.",
    )
    crop_area: tuple[float, float] = setting(
        (0.08, 1.0),
        Predicate(lambda value: _is_range(value) and value[1] <= 1, "two rising shares in (0, 1]"),
        "smallest and largest share of the image that a random crop covers, in (0, 1].",
    )
    crop_aspect: tuple[float, float] = setting(
        (3 / 4, 4 / 3),
        Predicate(_is_range, "two rising ratios of width to height"),
        "smallest and largest width / height of the crop.",
    )


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelOptions(Settings):
    """Settings of the label and the sample weights."""

    one_hot: bool = setting(
        False, flag, "return the label as `(batch, classes) float32`, with 1 for its class."
    )
    smoothing: float = setting(
        0.0, NumberRule(0, 1, kind=float), "share of that 1 to spread evenly over all classes."
    )
    num_classes: int | None = setting(
        None,
        NumberRule(1),
        "number of classes of a one-hot label, which `mixup` and `cutmix` also return. None: taken "
        "from the dataset's features or vocabulary.",
    )
    sample_weight: str | None = setting(
        None,
        text,
        "feature to return third, as the weight of each example. Requires `label`.",
    )


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class CacheOptions(Settings):
    """Settings of the local copies of files."""

    folder: str | None = setting(
        None,
        Predicate(
            lambda value: isinstance(value, str) and bool(value) and not is_remote(value),
            "a local folder",
        ),
        "local folder for the copies, owned by this user. None: a folder with mode 700 in the "
        "system's temporary folder.",
        is_path=True,
    )
    max_bytes: int | None = setting(
        None,
        NumberRule(0),
        "maximum size in bytes, for all processes of this machine together. None: half of the "
        "free space there.",
    )


def _cache(name: str, value: Any) -> CacheOptions:
    if isinstance(value, str) and value in ("memory", "disk"):  # values of earlier versions
        raise ConfigError.of(name, value, allowed="a folder, or CacheOptions() for a default one")
    if isinstance(value, (str, os.PathLike)):
        return CacheOptions(folder=os.fspath(value))
    return settings_or_dict(CacheOptions)(name, value)  # type: ignore[no-any-return]


def _are_names(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)


_NOT_OF_PACKS = (  # no other document can replace an unreadable one
    *("default_values", "image_size", "augment", "image", "audio_seconds", "ragged"),
    *("pre_batching_callback", "on_corrupt"),
)

_DAY = 86_400  # seconds
_FUNCTIONS = Predicate(
    lambda value: all(map(callable, value.values() if isinstance(value, Mapping) else [value])),
    "a function, or functions by split",
)

_MOVED: Mapping[str, str] = {
    **{name: f"image=ImageOptions({name}=…)" for name in settings_of(ImageOptions)},
    **{name: f"labels=LabelOptions({name}=…)" for name in settings_of(LabelOptions)},
    "image_dtype": "image=ImageOptions(dtype=…)",
    "label_smoothing": "labels=LabelOptions(smoothing=…)",
    "flip": "augment=['flip']",
    "cache_dir": "cache=, a folder or CacheOptions(folder=…)",
    "cache_bytes": "cache=CacheOptions(max_bytes=…)",
    "drop_remainder": "remainder='drop'",
    "start_step": "state=, a token or the number of a step",
    "shuffle_bytes": "shuffle=, True or a number of records",
    "decoder": "none of that name: there is one decoder",
    "device": "none of that name: tf.data.experimental.prefetch_to_device",
    "data_service": "none of that name: any process can make any batch",
}  # fmt: skip
"""Replacements of settings of earlier versions."""


@dataclasses.dataclass(frozen=True)
class _Rule:
    """A rule for a setting that depends on other settings.

    Args:
        setting: the name of the setting.
        holds: returns whether options follow the rule.
        text: the allowed values. `{changing}` is the setting that changes labels, and `{mixing}`
            the operation that mixes rows.
    """

    setting: str
    holds: Callable[["InputOptions"], bool]
    text: str

    def text_for(self, options: "InputOptions") -> str:
        """Return the allowed values next to the other settings."""
        return self.text.format(changing=_label_change(options), mixing=_mixing(options))


def _mixing(options: "InputOptions") -> str:
    """Return the name of the first operation that mixes rows, or an empty string."""
    return next((operation.name for operation in options.augmentation.mixing), "")


def _label_change(options: "InputOptions") -> str:
    """Return the name of a setting that changes labels, or an empty string."""
    if options.labels.one_hot:
        return "one_hot"
    return "smoothing" if options.labels.smoothing else _mixing(options)


def _crops_or_pads(options: "InputOptions") -> bool:
    return options.augmentation.crops or options.image.resize != "stretch"


_RULES: Sequence[_Rule] = (
    _Rule(
        "image_size",
        lambda options: options.image_size is not None or not _crops_or_pads(options),
        "(height, width) in pixels, since augment or resize crops or pads images",
    ),
    _Rule(
        "features",
        lambda options: options.features is None or bool(options.features or options.label),
        "a name or names, or None",
    ),
    _Rule(
        "labels",
        lambda options: options.labels.sample_weight is None or options.label is not None,
        "no sample_weight without label=",
    ),
    _Rule(
        "batch_size",
        lambda options: options.batch_size is not None or not _mixing(options),
        "a number with augment={mixing!r}, which mixes rows of a batch",
    ),
    _Rule(
        "processes",
        lambda options: options.batch_size is not None or not options.processes,
        "0 without a batch_size, since processes make whole batches",
    ),
    _Rule(
        "label",
        lambda options: options.label is not None or not _label_change(options),
        "the feature with the classes, since {changing} changes them",
    ),
)
"""Rules for settings next to each other, in the order of checking."""


@functools.partial(documents_settings, moved=_MOVED)
@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions(OrderOptions):
    """Settings for reading a dataset.

    Raises:
        ConfigError: a setting is invalid; the message names it and its value.
    """

    features: str | Sequence[str] | None = setting(
        None,
        Predicate(_are_names, "a name or names, or None"),
        "None: a dict of all features; a name: that feature's tensor; a list of names: a dict of "
        "these. Other features are not parsed.",
    )
    default_values: Mapping[str, Any] | None = setting(
        None,
        Predicate(lambda value: isinstance(value, Mapping), "values by feature"),
        "by feature, the value for records that lack it. Such a feature must have the same shape "
        "in all records, a single value or lists of one length, and is not padded.",
    )
    label: str | None = setting(
        None, text, "feature to return as the second element of a pair, as Keras expects."
    )
    labels: LabelOptions = setting(
        LabelOptions(),
        settings_or_dict(LabelOptions),
        "`LabelOptions(one_hot=, smoothing=, num_classes=, sample_weight=)`, or a dict of these.",
    )
    image_size: tuple[int, int] | None = setting(
        None,
        _image_size,
        "`(height, width)` in pixels to resize images to. Required to batch images of different "
        "sizes.",
    )
    augment: Chain = setting(
        None,
        _chain,
        "random changes of each image, new in every epoch: `random_resized_crop`, which also "
        "mirrors half of the images, or a list of operations. Each is a name, a tuple of a name "
        "and its numbers, or a function `f(image, rng) -> image` of numpy arrays: "
        '`["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)]`. The operations are '
        "`random_resized_crop`, `flip`, `colour`, `rotation`, `grey`, `blur`, `cutout`, "
        "`randaugment`, `mixup` and `cutmix`.",
    )
    image: ImageOptions = setting(
        ImageOptions(),
        settings_or_dict(ImageOptions),
        "`ImageOptions(resize=, normalize=, dtype=, channels=, dct_scaling=, crop_area=, "
        "crop_aspect=)`, or a dict of these.",
    )
    audio_seconds: float | None = setting(
        None,
        Predicate(
            lambda value: _are_positive([value]) and value <= _DAY, "seconds above 0, up to a day"
        ),
        "length in seconds. Longer clips are cut, shorter ones padded with silence. None: keep "
        "each clip's length.",
    )
    ragged: bool = setting(
        False, flag, "return features of variable length as `tf.RaggedTensor`, not padded."
    )
    mask: str = setting(
        "mask",
        text,
        'with `remainder="pad"`, the name of the float32 feature that is 0 in rows to ignore and '
        "1 in others. With `label` it is the third element of a triple instead, as Keras expects "
        "sample weights. With a single tensor it is the second element of a pair.",
    )
    cache: CacheOptions | str | None = setting(
        None,
        _cache,
        "a folder for local copies of the shards, for slow storage, or "
        "`CacheOptions(folder=, max_bytes=)`. Shards in an object store are always copied to the "
        "disk.",
        is_path=True,
    )
    pre_batching_callback: Callback | Mapping[str, Callback] | None = setting(
        None,
        _FUNCTIONS,
        "function that takes and returns a dict of one example's features, before batching. It "
        "runs in parallel. It may change its argument, and add features that the dataset lacks, "
        "such as `label`; all of the dataset's features are then parsed. A returned tuple, "
        "such as `(x, y)`, is passed to the trainer unchanged. "
        'Or such functions by split: `{"train": augment}`.',
    )
    post_batching_callback: Callback | Mapping[str, Callback] | None = setting(
        None,
        _FUNCTIONS,
        "the same for a dict of a batch's features, after batching. If the callback before "
        "returns a tuple, its elements are the arguments.",
    )
    conversion: Mapping[str, Any] | None = setting(
        None,
        Predicate(lambda value: isinstance(value, Mapping), "settings of convert by name, or None"),
        "for raw inputs, settings of the conversion whose dataset is read, as `tfx-shards convert` "
        'takes them: `{"splits": {"train": 9, "eval": 1}, "resize_shorter_side": 256}`. See '
        "docs/raw.md.",
    )
    convert_to: str | None = setting(
        None,
        text,
        "for raw inputs, a folder to convert them to while they are read, by one process of the "
        "first worker at a low priority. Once it is finished, the next epoch reads the shards. "
        "Batches are the same. See docs/raw.md.",
        is_path=True,
    )
    prefetch: int = setting(2, NumberRule(0, 1 << 16), "batches prepared ahead of the trainer.")
    processes: int = setting(
        0,
        NumberRule(0, 1 << 16),
        "number of processes that make batches, in memory shared with the trainer. 0: threads of "
        "the trainer make them, which is too slow for a few thousand photos a second. With "
        "processes, functions in `augment` and callbacks must be importable by another process.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for rule in _RULES:
            check_setting(self, rule.setting, rule.holds(self), rule.text_for(self))
        if self.pack is not None:
            self._check_pack()

    def _check_pack(self) -> None:
        """Raise a ConfigError for settings or features that packs do not have."""
        names = [self.features] if isinstance(self.features, str) else [*(self.features or ())]
        there = ", ".join(PACK_FEATURES)
        for name, asked in (("features", names), ("label", filter(None, [self.label]))):
            rule = f"names of {there}, which packs have"
            check_setting(self, name, {*asked} <= {*PACK_FEATURES}, rule)
        defaults = InputOptions()
        for name in _NOT_OF_PACKS:
            value = getattr(defaults, name)
            check_setting(self, name, getattr(self, name) == value, f"{value!r} with pack")
        labels = dataclasses.replace(self.labels, sample_weight=None)
        is_plain = labels == LabelOptions() and self.labels.sample_weight in (None, "loss_mask")
        check_setting(self, "labels", is_plain, "only sample_weight='loss_mask' with pack")

    @functools.cached_property
    def augmentation(self) -> Augmentation:
        """Validated chain of `augment`."""
        return Augmentation.of(self.augment)

    @property
    def pads(self) -> bool:
        """Whether images of another aspect are padded with black."""
        return self.image.resize == "pad" and not self.augmentation.crops

    @property
    def cache_folder(self) -> str | None:
        """Folder for copies and offsets on this machine, or None for the default."""
        return self.cache.folder if isinstance(self.cache, CacheOptions) else None

    @property
    def mask_feature(self) -> str | None:
        """Feature that is 0 in rows to ignore, or None if batches are not padded."""
        return self.mask if self.remainder == "pad" else None

    @property
    def has_callback(self) -> bool:
        """Whether a callback may add features that the dataset lacks."""
        return (self.pre_batching_callback or self.post_batching_callback) is not None

    @property
    def keeps_pairs(self) -> bool:
        """Whether rows are mixed in pairs, which must not depend on the number of workers."""
        return bool(self.augmentation.mixing)

    def replace(self, **changes: Any) -> "InputOptions":
        """Return a copy with some settings changed."""
        return dataclasses.replace(self, **changes)


def choose_options(
    options: InputOptions | None, settings: Mapping[str, Any], *, of: Callable[..., Any]
) -> InputOptions:
    """Return the options of a call, with `settings` overriding `options`."""
    known = [field.name for field in dataclasses.fields(InputOptions)]
    other_parameters = inspect.signature(of).parameters.keys() - known
    check_names(of.__name__, settings, known, alternatives=other_parameters, moved=_MOVED)
    rule = settings_or_dict(InputOptions)
    given: InputOptions = rule("options", {} if options is None else options)
    return given.replace(**settings)


def shows_settings(function: _Function) -> _Function:
    """Show all settings by name in help() and editors, for a function that takes `**settings`."""
    signature = inspect.signature(function)
    settings = inspect.signature(InputOptions).parameters.values()
    parameters = [*list(signature.parameters.values())[:-1], *settings]
    vars(function)["__signature__"] = signature.replace(parameters=parameters)
    return function
