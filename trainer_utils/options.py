"""`InputOptions`: all settings of `input_fn` and `distribute`, checked where they are made.

options = InputOptions(batch_size=256, features="image", label="label", remainder="pad")
train = input_fn(uri, "train", options=options)
evaluation = input_fn(uri, "eval", options=options, shuffle=False)
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer_utils.format.naming import canonical_split
from trainer_utils.format.spelling import check_names, checks_names
from trainer_utils.order.options import OrderOptions, check_setting, is_int
from trainer_utils.reading.decoding import DecodeOptions
from trainer_utils.replaced_settings import REPLACED_SETTINGS
from trainer_utils.storage import is_remote

__all__ = ["Callback", "InputOptions", "choose_options", "hook_of_split"]

Callback = Callable[[dict[str, Any]], dict[str, Any]]


@functools.partial(checks_names, replaced=REPLACED_SETTINGS)
@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions(DecodeOptions, OrderOptions):
    """How a dataset is read: what `OrderOptions` says of batches, `DecodeOptions` of features.

    Args:
        features: None: a dict of all features; a name: that feature's tensor; a list of names: a
            dict of these. Features that are not asked for are not parsed.
        label: the feature that is yielded as the second of a pair, as Keras wants it.
        sample_weight: the feature that is yielded third, as the weight of each example; with
            `label` only.
        one_hot: the label comes as `(batch, classes) float32`, 1 for its class.
        label_smoothing: a share of that 1, from 0 to 1, which is spread over all classes.
        num_classes: of a label that is made one-hot, as `mixup` and `cutmix` do too; None: as the
            dataset's features or vocabulary say.
        mask: with `remainder="pad"`, the name of the float32 feature that is 0 in rows to
            ignore, else 1. With `label` it is the third of a triple instead, as Keras takes sample
            weights; beside a single tensor it is the second of a pair.
        cache: `"memory"`, `"disk"` or a folder that keeps what was read, for slow storage. What
            is in an object store is cached on the disk in any case.
        cache_bytes: what the cache on the disk takes at the most, of all processes of this machine
            together. None: half of what is free there.
        cache_dir: the folder of that cache, which must be this user's own. None: one of mode 700
            beside other temporary files.
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
    one_hot: bool = False
    label_smoothing: float = 0.0
    num_classes: int | None = None
    mask: str = "mask"
    cache: str | None = None
    cache_bytes: int | None = None
    cache_dir: str | None = None
    pre_batching_callback: Callback | Mapping[str, Callback] | None = None
    post_batching_callback: Callback | Mapping[str, Callback] | None = None
    prefetch: int = 2
    device: str | None = None
    data_service: str | None = None

    def __post_init__(self) -> None:
        DecodeOptions.__post_init__(self)
        OrderOptions.__post_init__(self)
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
        rule = "an int of at least 0, or None, and no cache in memory"
        size = self.cache_bytes
        is_bound = size is None or (is_int(size) and size >= 0 and self.cache != "memory")
        check_setting(self, "cache_bytes", is_bound, rule)
        folder = self.cache_dir
        is_folder = folder is None or (
            isinstance(folder, str) and bool(folder) and not is_remote(folder)
        )
        is_folder = is_folder and (folder is None or self.cache in (None, "disk"))
        rule = "a local folder, or None, and no other one in cache="
        check_setting(self, "cache_dir", is_folder, rule)
        prefetches = is_int(self.prefetch) and self.prefetch >= -1
        check_setting(self, "prefetch", prefetches, "an int of at least 0, or AUTOTUNE")

    def _check_labels(self) -> None:
        smoothing, classes = self.label_smoothing, self.num_classes
        check_setting(self, "one_hot", isinstance(self.one_hot, bool), "a bool")
        is_share = isinstance(smoothing, (int, float)) and not isinstance(smoothing, bool)
        is_share = is_share and 0 <= smoothing <= 1
        check_setting(self, "label_smoothing", is_share, "a number from 0 to 1")
        is_count = classes is None or (is_int(classes) and classes >= 1)
        check_setting(self, "num_classes", is_count, "an int of at least 1, or None")
        asks = "one_hot" if self.one_hot else "label_smoothing" if smoothing else ""
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
