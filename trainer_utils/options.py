"""`InputOptions`: all settings of `input_fn` and `distribute`, checked where they are made.

options = InputOptions(batch_size=256, features="image", label="label", remainder="pad")
train = input_fn(uri, "train", options=options)
evaluation = input_fn(uri, "eval", options=options, shuffle=False)
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer_utils.format.spelling import check_names, checks_names
from trainer_utils.order.options import OrderOptions, check_setting, is_int
from trainer_utils.reading.decoding import DecodeOptions

__all__ = ["Callback", "InputOptions", "choose_options"]

Callback = Callable[[dict[str, Any]], dict[str, Any]]


@checks_names
@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions(DecodeOptions, OrderOptions):
    """How a dataset is read: what `OrderOptions` says of batches, `DecodeOptions` of features.

    Args:
        features: None: a dict of all features; a name: that feature's tensor; a list of names: a
            dict of these. Features that are not asked for are not parsed.
        label: the feature that is yielded as the second of a pair, as Keras wants it.
        sample_weight: the feature that is yielded third, as the weight of each example; with
            `label` only.
        mask: with `remainder="pad"`, the name of the float32 feature that is 0 in rows to
            ignore, else 1. With `label` it is the third of a triple instead, as Keras takes sample
            weights; beside a single tensor it is the second of a pair.
        cache: `"memory"`, `"disk"` or a folder that shards are copied to when they are first
            read, for slow or remote storage.
        pre_batching_callback: takes and returns a dict of one example's features, before they are
            batched; run in parallel. Or such callables by split: `{"train": augment}`.
        post_batching_callback: the same for a dict of a batch's features, after batching.
        prefetch: batches prepared ahead of the trainer.
        device: an accelerator that batches are copied to ahead of the trainer, `"GPU:0"`, or
            `"auto"`: the only one there is, if there is one. A dataset on a device is for a
            trainer, not for further transformations.
        data_service: `grpc://host:port` of a tf.data service, whose workers then read and parse.

    Raises:
        ConfigError: a setting is not allowed; the message names it and its value.
    """

    features: str | Sequence[str] | None = None
    label: str | None = None
    sample_weight: str | None = None
    mask: str = "mask"
    cache: str | None = None
    pre_batching_callback: Callback | Mapping[str, Callback] | None = None
    post_batching_callback: Callback | Mapping[str, Callback] | None = None
    prefetch: int = 2
    device: str | None = None
    data_service: str | None = None

    def __post_init__(self) -> None:
        DecodeOptions.__post_init__(self)
        OrderOptions.__post_init__(self)
        self._check_examples()
        self._check_data_service()

    @property
    def decodes_here(self) -> bool:
        """Whether images are decoded in this process; a data service's workers share no Python."""
        return self.data_service is None

    def replace(self, **changes: Any) -> "InputOptions":
        """The same options but for some."""
        return dataclasses.replace(self, **changes)

    def _check_examples(self) -> None:
        features = self.features
        are_names = isinstance(features, (str, list, tuple)) and bool(features or self.label)
        check_setting(self, "features", features is None or are_names, "a name or names, or None")
        check_setting(
            self,
            "sample_weight",
            self.sample_weight is None or self.label is not None,
            "None where there is no label to weigh",
        )
        for name in ("pre_batching_callback", "post_batching_callback"):
            value = getattr(self, name)
            functions = value.values() if isinstance(value, Mapping) else [value]
            are_functions = value is None or all(callable(function) for function in functions)
            check_setting(self, name, are_functions, "a function, or functions by split")
        prefetches = is_int(self.prefetch) and self.prefetch >= -1
        check_setting(self, "prefetch", prefetches, "an int of at least 0, or AUTOTUNE")

    def _check_data_service(self) -> None:
        if self.data_service is None:
            return
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
    check_names(of, settings, known, alternatives=arguments)
    return (options or InputOptions()).replace(**settings)
