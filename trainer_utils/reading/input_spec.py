"""Compute what batches contain from settings and descriptions, before any record is read.

spec = InputSpec.of(sources, options, worker=0, num_workers=4)
spec.structure                  # {'label': ArraySpec((64,), 'int64'), …}
spec.order.positions(epoch=0, step=17, worker=0)
"""

import dataclasses
import functools
import logging
import math
from collections.abc import Mapping, Sequence

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import NumberRule
from trainer_utils.dataset.selection import Source, mean_bytes, merged_features
from trainer_utils.format import Feature
from trainer_utils.format.tensors import item_bytes
from trainer_utils.options import Callback, InputOptions
from trainer_utils.order import InputOrder
from trainer_utils.reading.elements import ArraySpec, LabelEncoding
from trainer_utils.reading.features import FeatureArrays, is_audio, with_missing_values
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.opening import callbacks_of, check_has_records, order_of
from trainer_utils.reading.packing import pack_structure
from trainer_utils.runtime.machine import free_memory

_logger = logging.getLogger(__name__)
_ROW_BYTES = 200  # least memory for a record while it is read, in addition to its bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The contents of one worker's batches, and the order of its records.

    Attributes:
        sources: the splits to read; with `pack`, sources of packs.
        options: the settings of the input.
        order: maps steps to records.
        worker: the number of this worker, from 0.
        features: the features to read, by name.
        decoder: the decoder of records, or None for packs.
        encoding: the encoding of the label, or None.
        before: the callback for each example, or None.
        after: the callback for each batch, or None.
        counters: the counters of the input's work in this process.
    """

    sources: Sequence[Source]
    options: InputOptions
    order: InputOrder
    worker: int
    features: Mapping[str, Feature]
    decoder: FeatureArrays | None
    encoding: LabelEncoding | None
    before: Callback | None
    after: Callback | None
    counters: StageCounters

    @classmethod
    def of(
        cls,
        sources: Sequence[Source],
        options: InputOptions,
        *,
        worker: int = 0,
        num_workers: int = 1,
        num_replicas: int | None = None,
        counters: StageCounters | None = None,
    ) -> "InputSpec":
        """Compute the contents of one worker's batches; no record is read.

        Args:
            sources: the splits to read, packed if the options ask for it.
            options: the settings of the input.
            worker: the number of this worker, from 0.
            num_workers: the number of workers, as in `InputOrder`.
            num_replicas: the number of replicas, as in `InputOrder`.
            counters: the counters to add to; None for new ones.

        Raises:
            ConfigError: a setting does not fit the datasets, or a batch needs more than the free
                memory.
            DatasetError: an input without records is to be repeated without end.
        """
        order = order_of(sources, options, num_workers=num_workers, num_replicas=num_replicas)
        worker = NumberRule(0, num_workers - 1)("worker", worker)
        if worker == 0 or options.repeat is True:
            check_has_records(sources, options)
        features = _features_to_read(sources, options)
        decoder, counters = None, counters or StageCounters()
        if options.pack is None:
            allowed = _allowed(sources, options)
            decoder = FeatureArrays(features, options, allowed=allowed, counters=counters)
        before, after = callbacks_of(sources, options)
        spec = cls(
            sources=sources,
            options=options,
            order=order,
            worker=worker,
            features=features,
            decoder=decoder,
            encoding=LabelEncoding.of(options, features, sources),
            before=before,
            after=after,
            counters=counters,
        )
        _warn_without_images(spec)
        _check_callback(spec)
        _check_memory(spec)
        return spec

    def with_options(
        self, options: InputOptions, sources: Sequence[Source] | None = None
    ) -> "InputSpec":
        """Return the spec of the same worker for other settings; errors as in `of`.

        It adds to the same counters.

        Args:
            options: the settings.
            sources: the splits to read, packed if the options ask for it. None: the same ones.
        """
        layout = self.order.layout
        return InputSpec.of(
            self.sources if sources is None else sources,
            options,
            worker=self.worker,
            num_workers=layout.num_workers,
            num_replicas=layout.num_replicas,
            counters=self.counters,
        )

    @property
    def images(self) -> Sequence[str]:
        """The features that are images or label maps."""
        return () if self.decoder is None else self.decoder.images

    @property
    def mixes_rows(self) -> bool:
        """Whether the images of a batch are mixed with each other."""
        return bool(self.options.augmentation.mixing and self.images)

    @property
    def num_rows(self) -> int:
        """Number of rows of a full batch of this worker; 1 without a batch size."""
        return self.order.layout.rows_per_worker if self.options.batch_size is not None else 1

    @functools.cached_property
    def mean_bytes(self) -> float:
        """Mean size of a serialized record in bytes."""
        return mean_bytes(self.sources)

    @functools.cached_property
    def structure(self) -> Mapping[str, ArraySpec]:
        """Shape and dtype of each array of a batch; without a batch size, of an example."""
        structure = self._structure_of_example()
        if self.options.batch_size is None:
            return structure
        if (mask := self.options.mask_feature) is not None:
            structure[mask] = ArraySpec((), "float32")
        rows = self.num_rows if self.options.keeps_rows else None
        return {
            name: ArraySpec((rows, *shape), dtype, is_ragged)
            for name, (shape, dtype, is_ragged) in structure.items()
        }

    def _structure_of_example(self) -> dict[str, ArraySpec]:
        """Return shape and dtype of each array of one example, with the label encoded."""
        if self.decoder is not None:
            structure = dict(self.decoder.structure)
        else:
            assert self.options.pack is not None
            structure = pack_structure(self.options.pack)
        encoding = self.encoding
        if encoding is not None and encoding.label in structure:
            shape = structure[encoding.label].shape
            structure[encoding.label] = ArraySpec((*shape, encoding.num_classes), "float32")
        return structure


def _features_to_read(sources: Sequence[Source], options: InputOptions) -> Mapping[str, Feature]:
    """Return the features to read by name, or raise a ConfigError if one has the mask's name."""
    pack = options.pack
    merged = merged_features(
        sources,
        options.features if pack is None else pack.feature,
        (options.label, options.labels.sample_weight) if pack is None else (),
        has_callback=options.has_callback,
        default_values=options.default_values,
    )
    features = with_missing_values(merged, options.label)
    if options.mask_feature in features:
        raise ConfigError.of("mask", options.mask, allowed="a name that no feature has")
    return features


def _allowed(sources: Sequence[Source], options: InputOptions) -> Mapping[str, Feature] | None:
    """Return the features that records may have, if they must be checked; else None.

    Features that were inferred from a sample of the records may be incomplete. Features that the
    caller names are read from all records anyway.
    """
    if options.features is not None or all(source.dataset.sampled is None for source in sources):
        return None
    return {
        name: feature for source in sources for name, feature in source.dataset.features.items()
    }


def _warn_without_images(spec: InputSpec) -> None:
    """Warn of settings of images if no image is read."""
    names = [name for name in ("image_size", "augment") if getattr(spec.options, name)]
    if names and not spec.images:
        _logger.warning(
            "%s: changes nothing, since no feature that is read is an image that all records "
            "have. Leave it out, or read an image feature.",
            " and ".join(names),
        )


def _check_callback(spec: InputSpec) -> None:
    """Raise a ConfigError for a callback before batching if rows are mixed."""
    if spec.before is not None and spec.mixes_rows:
        mixing = spec.options.augmentation.mixing[0].name
        rule = f"None with augment={mixing!r}, which mixes rows as they were read"
        cure = "Change batches in a post_batching_callback"
        raise ConfigError.of("pre_batching_callback", spec.before, allowed=rule, advice=cure)


def _check_memory(spec: InputSpec) -> None:
    """Raise a ConfigError if a batch needs more than the free memory."""
    layout, options = spec.order.layout, spec.options
    is_full = layout.full_steps or layout.remainder == "pad" or options.batch_size is None
    rows = spec.num_rows if is_full else max(layout.rest, default=0)
    has_rows = options.batch_size is not None  # the shapes include the rows
    sizes = {
        name: rows * math.prod(n or 1 for n in array.shape[has_rows:]) * item_bytes(array.dtype)
        for name, array in spec.structure.items()
    }
    free = free_memory()
    if sum(sizes.values()) + rows * (spec.mean_bytes + _ROW_BYTES) <= free:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    feature = spec.features.get(largest, Feature(type="int"))
    causes = {
        "pack": options.pack is not None,
        "image_size": feature.has_pixels and options.image_size is not None,
        "labels": spec.encoding is not None and largest == spec.encoding.label,
        "audio_seconds": is_audio(feature) and options.audio_seconds is not None,
        "batch_size": True,
    }
    setting = next(name for name, is_to_blame in causes.items() if is_to_blame)
    rule = f"batches that the {free >> 20:,} MiB of free memory hold"
    advice = f"{rows:,} rows of {largest!r} would take {sizes[largest] >> 20:,} MiB"
    raise ConfigError.of(setting, getattr(options, setting), allowed=rule, advice=advice)
