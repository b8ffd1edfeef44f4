"""`InputOptions`: all settings of `input_fn` and `distribute`, checked where they are made.

options = InputOptions(batch_size=256, features="image", label="label", remainder="pad")
train = input_fn(uri, "train", options=options)
evaluation = input_fn(uri, "eval", options=options, shuffle=False)
"""

import dataclasses
import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from trainer_utils.format import ConfigError
from trainer_utils.format.naming import canonical_split
from trainer_utils.format.settings import (
    documents_settings,
    flag,
    is_int,
    number,
    setting,
    text,
    where,
)
from trainer_utils.format.spelling import check_names, checks_names
from trainer_utils.order.options import OrderOptions, check_setting
from trainer_utils.reading.decoding import DecodeOptions
from trainer_utils.replaced_settings import REPLACED_SETTINGS
from trainer_utils.storage import is_remote

__all__ = ["Callback", "InputOptions", "choose_options", "hook_of_split", "shows_settings"]

Callback = Callable[[dict[str, Any]], dict[str, Any]]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _cache(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise ConfigError.of(name, value, allowed="'memory', 'disk' or a folder")
    return os.fspath(value)


def _is_local_folder(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not is_remote(value)


def _are_functions(value: Any) -> bool:
    return all(map(callable, value.values() if isinstance(value, Mapping) else [value]))


_FUNCTIONS = where(_are_functions, "a function, or functions by split")


@functools.partial(checks_names, replaced=REPLACED_SETTINGS)
@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions(DecodeOptions, OrderOptions):
    """How a dataset is read: what `OrderOptions` says of batches, `DecodeOptions` of features.

    Raises:
        ConfigError: a setting is not allowed; the message names it and its value.
    """

    features: str | Sequence[str] | None = setting(
        None,
        where(lambda value: isinstance(value, (str, list, tuple)), "a name or names, or None"),
        "None: a dict of all features; a name: that feature's tensor; a list of names: a dict of "
        "these. Features that are not asked for are not parsed.",
    )
    label: str | None = setting(
        None, text, "the feature that is yielded as the second of a pair, as Keras wants it."
    )
    sample_weight: str | None = setting(
        None,
        text,
        "the feature that is yielded third, as the weight of each example; with `label` only.",
    )
    one_hot: bool = setting(
        False, flag, "the label comes as `(batch, classes) float32`, 1 for its class."
    )
    label_smoothing: float = setting(
        0.0, number(0, 1, kind=float), "a share of that 1 which is spread over all classes."
    )
    num_classes: int | None = setting(
        None,
        number(1),
        "of a label that is made one-hot, as `mixup` and `cutmix` do too; None: as the dataset's "
        "features or vocabulary say.",
    )
    mask: str = setting(
        "mask",
        text,
        'with `remainder="pad"`, the name of the float32 feature that is 0 in rows to ignore, '
        "else 1. With `label` it is the third of a triple instead, as Keras takes sample weights; "
        "beside a single tensor it is the second of a pair.",
    )
    cache: str | None = setting(
        None,
        _cache,
        '`"memory"`, `"disk"` or a folder that keeps what was read, for slow storage. What is in '
        "an object store is cached on the disk in any case.",
    )
    cache_bytes: int | None = setting(
        None,
        number(0),
        "what the cache on the disk takes at the most, of all processes of this machine together. "
        "None: half of what is free there.",
    )
    cache_dir: str | None = setting(
        None,
        where(_is_local_folder, "a local folder"),
        "the folder of that cache, which must be this user's own. None: one of mode 700 beside "
        "other temporary files.",
    )
    pre_batching_callback: Callback | Mapping[str, Callback] | None = setting(
        None,
        _FUNCTIONS,
        "takes and returns a dict of one example's features, before they are batched; run in "
        'parallel. Or such callables by split: `{"train": augment}`.',
    )
    post_batching_callback: Callback | Mapping[str, Callback] | None = setting(
        None, _FUNCTIONS, "the same for a dict of a batch's features, after batching."
    )
    prefetch: int = setting(
        2,
        where(lambda value: is_int(value) and value >= -1, "an int of at least 0, or AUTOTUNE"),
        "batches prepared ahead of the trainer.",
    )
    device: str | None = setting(
        None,
        text,
        'an accelerator that batches are copied to ahead of the trainer, `"GPU:0"`, or `"auto"`: '
        "the only one there is, if there is one. A dataset on a device is for a trainer, not for "
        "further transformations.",
    )
    data_service: str | None = setting(
        None,
        text,
        "`grpc://host:port` of a tf.data service, whose workers then read and parse.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_examples()
        self._check_labels()
        self._check_data_service()

    @property
    def decodes_here(self) -> bool:
        """Whether images are decoded in this process; a data service's workers share no Python."""
        return self.data_service is None

    @property
    def keeps_pairs(self) -> bool:
        """Whether rows are mixed in pairs, which must be the same for all numbers of workers."""
        return bool(self.augmentation.mixing) and self.data_service is None

    def replace(self, **changes: Any) -> "InputOptions":
        """The same options but for some."""
        return dataclasses.replace(self, **changes)

    def _check_examples(self) -> None:
        has_names = self.features is None or bool(self.features or self.label)
        check_setting(self, "features", has_names, "a name or names, or None")
        has_label = self.sample_weight is None or self.label is not None
        check_setting(self, "sample_weight", has_label, "None where there is no label to weigh")
        is_on_disk = self.cache_bytes is None or self.cache != "memory"
        check_setting(self, "cache_bytes", is_on_disk, "None with a cache in memory")
        is_one_folder = self.cache_dir is None or self.cache in (None, "disk")
        check_setting(self, "cache_dir", is_one_folder, "None with another folder in cache=")

    def _check_labels(self) -> None:
        asks = "one_hot" if self.one_hot else "label_smoothing" if self.label_smoothing else ""
        for operation in self.augmentation.mixing:
            rule = f"no None with augment={operation.name!r}, which mixes rows of a batch"
            check_setting(self, "batch_size", self.batch_size is not None, rule)
            rule = f"'raise' with augment={operation.name!r}, whose pairs must be the same always"
            check_setting(self, "on_corrupt", self.on_corrupt == "raise", rule)
            asks = asks or operation.name
        rule = f"the feature of the classes, since {asks} changes them"
        check_setting(self, "label", not asks or self.label is not None, rule)

    def _check_data_service(self) -> None:
        if self.data_service is None:
            return
        names_protocol = bool(re.fullmatch(r"[^:/]+://.+", self.data_service))
        check_setting(self, "data_service", names_protocol, "an address such as grpc://host:5050")
        for name, rest in (
            ("remainder", None),
            ("weights", None),
            ("state", None),
            ("start_step", 0),
            ("on_corrupt", "raise"),
        ):
            rule = f"{rest!r}, since a data service hands out shards in no fixed order"
            check_setting(self, name, getattr(self, name) == rest, rule)
        no_global = self.shuffle != "global"
        check_setting(self, "shuffle", no_global, "no 'global' with a data service")
        rule = "'auto' or 'tensorflow' with a data service, whose workers do not share our Python"
        check_setting(self, "decoder", self.decoder != "turbo", rule)


def hook_of_split(callbacks: Mapping[str, Callback], split: str) -> Callback | None:
    """The one of callbacks by split that is for a split, by whichever of its usual spellings."""
    if split in callbacks or canonical_split(split) is None:
        return callbacks.get(split)
    same = [f for name, f in callbacks.items() if canonical_split(name) == canonical_split(split)]
    return same[0] if same else None


def choose_options(
    options: InputOptions | None, settings: Mapping[str, Any], *, of: str, arguments: Sequence[str]
) -> InputOptions:
    """The options of a call, with the settings that go before them.

    Args:
        options: None: the defaults.
        settings: fields of `InputOptions`.
        of: the function that was called, for the message.
        arguments: its own, which may be meant too.

    Raises:
        ConfigError: there is no such setting, or it has a value that is not allowed.
    """
    known = [field.name for field in dataclasses.fields(InputOptions)]
    check_names(of, settings, known, alternatives=arguments, replaced=REPLACED_SETTINGS)
    return (options or InputOptions()).replace(**settings)


def shows_settings(function: _Function) -> _Function:
    """Lets help() and editors show all settings by name where a function takes `**settings`."""
    own = inspect.signature(function)
    settings = inspect.signature(InputOptions).parameters.values()
    parameters = [*list(own.parameters.values())[:-1], *settings]
    vars(function)["__signature__"] = own.replace(parameters=parameters)
    return function
