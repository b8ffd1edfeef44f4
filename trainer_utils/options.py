"""`InputOptions`: all settings of `input_fn` and `distribute`, checked where they are made.

options = InputOptions(batch_size=256, features="image", label="label", remainder="pad")
train = input_fn(uri, "train", options=options)
evaluation = input_fn(uri, "eval", options=options, shuffle=False)
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer_utils.decoding import DecodeOptions
from trainer_utils.format import ConfigError
from trainer_utils.format.spelling import check_names, checks_names
from trainer_utils.layout import REMAINDERS

__all__ = ["Callback", "InputOptions", "chosen_options"]

Callback = Callable[[dict[str, Any]], dict[str, Any]]


@checks_names
@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions(DecodeOptions):
    """How a dataset is read: what `DecodeOptions` says of features, and all of the following.

    Args:
        batch_size: of the GLOBAL batch: each replica gets its share. None: single examples, not
            batched.
        features: None: a dict of all features; a name: that feature's tensor; a list of names: a
            dict of these. Features that are not asked for are not parsed.
        label: the feature that is yielded as the second of a pair, as Keras wants it.
        sample_weight: the feature that is yielded third, as the weight of each example; with
            `label` only.
        shuffle: True: shards and records in another order each epoch, records within a window of
            `shuffle_bytes`. A number: within a window of so many records. `"global"`: a true
            permutation of all records, each epoch another, with no buffer at all (every record is
            read where it lies, so for local disks, and not gzip). False: in the order of the files.
        shuffle_bytes: of serialized records held to be shuffled, in bytes, by all workers
            together, so that the order does not depend on how many they are.
        seed: of all orders.
        repeat: True: without end; a number: so many epochs.
        remainder: what becomes of the records that fill no batch. `"drop"`: they are left out,
            others next epoch, and all shapes are static. `"pad"`: the last batch is filled up with
            rows of weight 0, told by `mask`. `"balance"`: the last two batches are made equally
            large. None: the last batch is smaller; of fewer records than there are replicas, some
            get an empty one. Single examples: fewer than there are workers are left out.
        mask: with `pad`, the name of the float32 feature that is 0 in rows to leave out, else 1.
            With `label` it is the third of a triple instead, as Keras takes sample weights; beside
            a single tensor it is the second of a pair.
        drop_remainder: leave out a last batch that is not full, so that shapes are static.
        weights: of several datasets, how often records of each come, in any unit; those that run
            out begin again, and an epoch is as many records as there are in all of them. None:
            every record comes once.
        cache: `"memory"`, `"disk"` or a folder that shards are copied to when they are first
            read, for storage that is slow or far.
        pre_batching_callback: takes and returns a dict of one example's features, before they are
            batched; run in parallel. Or such callables by split: `{"train": augment}`.
        post_batching_callback: takes and returns a dict of a batch's features; the same.
        echoing: how often each batch comes in a row, for inputs slower than the trainer.
        prefetch: batches made ahead of the trainer.
        device: an accelerator that batches are copied to ahead of the trainer, `"GPU:0"`, or
            `"auto"`: the only one there is, if there is one. A dataset on a device is for a
            trainer, not for further transformations.
        data_service: `grpc://host:port` of a tf.data service, whose workers then read and parse.
        on_corrupt: `"raise"`: a bad record ends the epoch, with its file and offset. `"skip"`: it
            is left out, counted, and told at the end of the epoch.
        start_step: the step, of all steps of all epochs, that the first batch is of. What comes
            before is not read.
        state: a token of `state(step)` to go on from, in place of `start_step`, with any number
            of workers: refused where the dataset or the order is another.

    Raises:
        ConfigError: a setting is not allowed; the message names it and its value.
    """

    batch_size: int | None = 64
    features: str | Sequence[str] | None = None
    label: str | None = None
    sample_weight: str | None = None
    shuffle: bool | int | str = True
    shuffle_bytes: int = 256 << 20  # 256 MiB: 2,500 photos of 100 KB
    seed: int = 0
    repeat: bool | int = False
    remainder: str | None = None
    mask: str = "mask"
    drop_remainder: bool = False
    weights: Sequence[float] | None = None
    cache: str | None = None
    pre_batching_callback: Callback | Mapping[str, Callback] | None = None
    post_batching_callback: Callback | Mapping[str, Callback] | None = None
    echoing: int = 1
    prefetch: int = 2
    device: str | None = None
    data_service: str | None = None
    on_corrupt: str = "raise"
    start_step: int = 0
    state: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_examples()
        self._check_order()
        self._check_device()

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
        _check(self, "features", features is None or are_names, "a name or names, or None")
        _check(
            self,
            "batch_size",
            self.batch_size is None or (_is_int(self.batch_size) and self.batch_size >= 1),
            "an int of at least 1, or None",
        )
        _check(
            self,
            "sample_weight",
            self.sample_weight is None or self.label is not None,
            "None where there is no label to weigh",
        )
        for name in ("pre_batching_callback", "post_batching_callback"):
            value = getattr(self, name)
            functions = value.values() if isinstance(value, Mapping) else [value]
            are_functions = value is None or all(callable(function) for function in functions)
            _check(self, name, are_functions, "a function, or functions by split")
        _check(self, "echoing", _is_int(self.echoing) and self.echoing >= 1, "an int of at least 1")

    def _check_order(self) -> None:
        shuffle, repeat, weights = self.shuffle, self.repeat, self.weights
        is_window = isinstance(shuffle, int) and (isinstance(shuffle, bool) or shuffle > 0)
        _check(
            self,
            "shuffle",
            is_window or shuffle == "global",
            "True, False, a number of records, or 'global'",
        )
        _check(
            self, "shuffle_bytes", _is_int(self.shuffle_bytes) and self.shuffle_bytes > 0, "bytes"
        )
        _check(self, "seed", _is_int(self.seed), "an int")
        _check(
            self,
            "repeat",
            isinstance(repeat, bool) or (_is_int(repeat) and repeat > 0),
            "a bool or a number of epochs of at least 1",
        )
        _check(self, "remainder", self.remainder in REMAINDERS, f"one of {_listed(REMAINDERS)}")
        _check(
            self,
            "remainder",
            self.remainder in (None, "drop") or not (self.drop_remainder or not self.batch_size),
            "None or 'drop' for single examples, and with drop_remainder",
        )
        _check(
            self,
            "weights",
            weights is None or (all(weight > 0 for weight in weights) and len(weights) > 0),
            "a number above 0 for each dataset",
        )
        _check(self, "on_corrupt", self.on_corrupt in ("raise", "skip"), "'raise' or 'skip'")
        starts = _is_int(self.start_step) and self.start_step >= 0
        _check(self, "start_step", starts, "an int of at least 0")
        _check(self, "state", self.state is None or not self.start_step, "None with a start_step")

    def _check_device(self) -> None:
        prefetches = _is_int(self.prefetch) and self.prefetch >= -1
        _check(self, "prefetch", prefetches, "an int of at least 0, or AUTOTUNE")
        if self.data_service is not None:
            for name, rest in (
                ("remainder", None),
                ("weights", None),
                ("state", None),
                ("start_step", 0),
                ("on_corrupt", "raise"),
            ):
                rule = f"{rest!r}, since a data service deals out shards in no fixed order"
                _check(self, name, getattr(self, name) == rest, rule)
            _check(self, "shuffle", self.shuffle != "global", "no 'global' with a data service")
            rule = (
                "'auto' or 'tensorflow' with a data service, whose workers do not share our Python"
            )
            _check(self, "decoder", self.decoder != "turbo", rule)


def chosen_options(
    options: InputOptions | None, settings: Mapping[str, Any], *, of: str, also: Sequence[str]
) -> InputOptions:
    """The options of a call, with the settings that go before them.

    Args:
        options: None: the defaults.
        settings: fields of `InputOptions`.
        of: the function that was called, for the message.
        also: its own arguments, which may be meant too.

    Raises:
        ConfigError: there is no such setting, or it has a value that is not allowed.
    """
    known = [field.name for field in dataclasses.fields(InputOptions)]
    check_names(of, settings, known, also=also)
    return (options or InputOptions()).replace(**settings)


def _check(options: InputOptions, name: str, is_allowed: bool, rule: str) -> None:
    if not is_allowed:
        raise ConfigError.of(name, getattr(options, name), allowed=rule)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(repr(value) for value in values)
