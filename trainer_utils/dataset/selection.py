"""Select the records and features that an input reads, from one dataset or several.

open_sources(fn_args.train_files, "train[:80%]")[0].ranges
"""

import dataclasses
import functools
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.dataset.compression import content_bytes
from trainer_utils.dataset.location import Artifacts, Place, group_artifacts, newest_dataset
from trainer_utils.dataset.opening import Dataset, open_dataset
from trainer_utils.dataset.raw_inputs import is_raw, open_raw
from trainer_utils.dataset.transform_graph import graph_of, graph_vocabularies, is_transformed
from trainer_utils.format import Feature, resolve_slices
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS
from trainer_utils.format.input_listing import InputListing, merge_listings
from trainer_utils.format.slices import FileRange
from trainer_utils.format.tensors import TensorSpec
from trainer_utils.storage import is_remote

_logger = logging.getLogger(__name__)
_DEFAULT_SPLIT = "train"
_DEFAULTS: Mapping[str, Any] = {"int": int, "float": (int, float), "string": (str, bytes)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """A part of a dataset.

    Args:
        dataset: the dataset.
        split: the slices of the part.
        split_names: the splits of the slices.
        ranges: the ranges of files that hold its records, in order.
        where: the condition that its records meet, or None for all records of its slices.
        kept_bytes: the mean size of the records that meet it, if that is known.
        unfiltered: the source of all records of its slices, or None if this is it.
    """

    dataset: Dataset
    split: str
    split_names: tuple[str, ...]
    ranges: Sequence[FileRange]
    where: str | None = None
    kept_bytes: float | None = None
    unfiltered: "Source | None" = None

    @property
    def place(self) -> Place:
        """Uri of the dataset, or the paths of its files, to open it again."""
        files = tuple(shard.path for shard in self.dataset.shard_files)
        return files if self.dataset.named_files else self.dataset.uri

    @functools.cached_property
    def num_records(self) -> int:
        """Number of its records."""
        return sum(part.take for part in self.ranges)

    @functools.cached_property
    def mean_bytes(self) -> float:
        """Mean size of a serialized record, in bytes."""
        if self.kept_bytes is not None:
            return self.kept_bytes
        shards = self.dataset.shard_files
        if gzipped := [shard for shard in shards if shard.is_gzip and shard.records]:
            return content_bytes(gzipped[0].path) / gzipped[0].num_records
        return sum(s.bytes for s in shards) / max(sum(s.num_records for s in shards), 1)


def open_sources(
    artifact_uri: Artifacts,
    split: str | None,
    *,
    apart: bool = False,
    conversion: Mapping[str, Any] | None = None,
    cache_folder: str | None = None,
) -> list[Source]:
    """Open the sources of an input.

    Args:
        artifact_uri: the datasets, as for `input_fn`. TFX puts a pattern per split of one artifact
            into `fn_args.train_files`; with a `split` they count once. Adjacent files in a list are
            one dataset.
        split: the slices. None: the split of a pattern, or the split that all file names share, or
            else `train`.
        apart: whether each item of a list is a separate dataset, as with `weights`.
        conversion: settings of the conversion of raw inputs.
        cache_folder: the folder for the offsets of datasets without an index; None for the default.
    """
    wanted: list[tuple[Place, str | None]] = []
    for place, by_pattern in group_artifacts(artifact_uri, apart=apart):
        entry = place, by_pattern if split is None else split
        if by_pattern is None or entry not in wanted:
            wanted.append(entry)
    if not wanted:
        raise ConfigError.of("artifact_uri", artifact_uri, allowed="a uri or a list of them")
    datasets = {
        place: open_place(place, conversion, cache_folder=cache_folder) for place in dict(wanted)
    }
    return [source_of(datasets[place], spec) for place, spec in wanted]


def open_place(
    place: Place,
    conversion: Mapping[str, Any] | None = None,
    *,
    cache_folder: str | None = None,
) -> Dataset:
    """Open a dataset, or raw inputs as a dataset.

    Args:
        place: the uri or the files of a dataset, or raw inputs.
        conversion: settings of the conversion of raw inputs, which a dataset has no use for.
        cache_folder: the folder for the offsets of datasets without an index; None for the default.
    """
    place = place if isinstance(place, tuple) else newest_dataset(place)
    # A listing of a bucket is a request, which datasets can do without.
    looks_first = conversion is not None or not is_remote(str(place))
    if looks_first and is_raw(place):
        return open_raw(str(place), conversion or {})
    try:
        dataset = open_dataset(place, cache_folder=cache_folder)
    except DatasetError:
        if isinstance(place, str) and (conversion is not None or is_raw(place)):
            return open_raw(place, conversion or {})
        raise
    if conversion:
        rule = f"none for {str(place)!r}, which is converted already"
        raise ConfigError.of("conversion", dict(conversion), allowed=rule)
    return dataset


def source_of(dataset: Dataset, split: str | None) -> Source:
    """Return the source for slices of a dataset's splits; see `open_sources`."""
    if split is None:
        are_files = dataset.named_files and len(dataset.shards) == 1
        split = next(iter(dataset.shards)) if are_files else _DEFAULT_SPLIT
    slices = resolve_slices(split, dataset.records)
    return Source(
        dataset=dataset,
        split=split,
        split_names=tuple(dict.fromkeys(part.split for part in slices)),
        ranges=[file_range for part in slices for file_range in dataset.file_ranges(part)],
    )


def mean_bytes(sources: Sequence[Source]) -> float:
    """Return the mean size of a serialized record of all sources, in bytes."""
    records = sum(source.num_records for source in sources)
    return sum(s.mean_bytes * s.num_records for s in sources) / max(records, 1)


def digest_of(sources: Sequence[Source]) -> str:
    """Return a digest of the selected records, independent of the datasets' locations."""
    read = [(source.dataset.digest, _selection(source)) for source in sources]
    return hashlib.blake2b(repr(read).encode(), digest_size=8).hexdigest()


def listing_of(sources: Sequence[Source]) -> InputListing | None:
    """Return the identity of the selected records by their inputs, or None if it is not known."""
    known = [source.dataset.listing for source in sources]
    listings = [listing for listing in known if listing is not None]
    if len(listings) < len(sources):
        return None
    return merge_listings(listings, [_selection(source) for source in sources])


def _selection(source: Source) -> str:
    """Return the slices and the condition of a source, for digests."""
    return source.split if source.where is None else f"{source.split} where {source.where}"


def merged_features(
    sources: Sequence[Source],
    features: str | Sequence[str] | None,
    required_features: Sequence[str | None],
    *,
    has_callback: bool = False,
    default_values: Mapping[str, Any] | None = None,
) -> dict[str, Feature]:
    """Return the features to parse, which must agree in all datasets.

    Args:
        sources: the sources to read.
        features: the names of features, as for `input_fn`.
        required_features: names that are always parsed, such as the label; None is ignored.
        has_callback: whether a function may create features that the dataset lacks. If such a
            feature is requested, all features of the dataset are parsed.
        default_values: the values for records that lack a feature, by name.
    """
    datasets = [source.dataset for source in sources]
    first = datasets[0]
    wanted = first.features if features is None else features
    wanted = [wanted] if isinstance(wanted, str) else wanted
    names = list(dict.fromkeys([*wanted, *filter(None, required_features)]))
    if has_callback and not first.features.keys() >= {*names}:
        names = list(first.features)
    if not names:
        raise DatasetError(f"features: expected at least one, got a dataset of none ({first.uri})")
    for dataset in datasets:
        for name in names:
            if name not in dataset.features:
                said = f"expected one of {', '.join(dataset.features)} ({dataset.uri})."
                meant = did_you_mean(name, dataset.features)
                raise DatasetError(f"feature {name!r}: {said}{meant}".removesuffix("."))
            mine, others = first.features[name], dataset.features[name]
            if _likeness(mine) != _likeness(others):
                got = f"{mine} ({first.uri}) and {others} ({dataset.uri})"
                said = f"feature {name!r}: expected the same in all datasets"
                raise DatasetError(f"{said}, got {got}")
    merged = {
        name: merge_descriptions([dataset.features[name] for dataset in datasets]) for name in names
    }
    for name, value in (default_values or {}).items():
        if name not in first.features:
            rule = f"names of {', '.join(first.features)}"
            raise ConfigError.of("default_values", name, allowed=rule)
        if name in merged:
            merged[name] = _with_default(name, merged[name], value)
    return merged


def _with_default(name: str, feature: Feature, value: Any) -> Feature:
    """Return a feature with `extra["default"]` for records that lack it, as a dense feature."""
    is_plain = len(feature.shape) < 2 and not feature.has_pixels and feature.tensor is None
    if not is_plain or feature.is_sequence or "encoding" in feature.extra:
        raise ConfigError.of("default_values", name, allowed="features that are numbers or strings")
    if isinstance(value, bool) or not isinstance(value, _DEFAULTS[feature.type]):
        rule = f"for {name!r}, which is {feature.type}, such a value"
        raise ConfigError.of("default_values", value, allowed=rule)
    shape = () if feature.shape in ((), (0,), (1,)) and not feature.dense else feature.shape
    extra = {**feature.extra, "default": value}
    return dataclasses.replace(feature, shape=shape, dense=True, extra=extra)


def class_names_of(sources: Sequence[Source], label: str) -> list[str] | None:
    """Return the names of a label's classes in the order of their ids; None if not known."""
    names = [_class_names(source.dataset, label) for source in sources]
    return names[0] if names == names[:1] * len(names) else None


def numbers_of_classes(sources: Sequence[Source], label: str) -> set[int]:
    """Return the numbers of classes of a label in each dataset; 0 if not known."""
    numbers = set()
    for dataset in {id(source.dataset): source.dataset for source in sources}.values():
        feature = dataset.features.get(label)
        said = feature.extra.get("num_classes") if feature is not None else None
        if said is None:
            said = len(_class_names(dataset, label) or ())
        numbers.add(int(str(said or 0)))
    return numbers


def _class_names(dataset: Dataset, label: str) -> list[str] | None:
    """Return the vocabulary of a label, of the dataset or of the Transform that wrote it."""
    if label in dataset.vocabulary_files:
        return [*dataset.vocabularies[label]]
    feature = dataset.features.get(label)
    if feature is None or feature.type != "int" or not is_transformed(dataset.uri):
        return None
    names = graph_vocabularies(graph_of(dataset.uri)).get(label)
    if names is None:
        _warn_without_classes(dataset.uri, label)
    return None if names is None else [*names]


@functools.lru_cache(maxsize=64)  # once for each dataset
def _warn_without_classes(uri: str, label: str) -> None:
    _logger.warning(
        "%r: num_classes and class_names are None, since Transform wrote the examples without the "
        "names of its input's classes, and its graph has no vocabulary file %r (%s). To have them, "
        "read what ShardBalancer(examples=transform.outputs['transformed_examples']) writes, or "
        "set labels=LabelOptions(num_classes=…).",
        *(label, label, uri),
    )


def _kind(feature: Feature) -> tuple[object, ...]:
    """Return the properties that must agree to store examples of two datasets together."""
    tensor = feature.tensor and (feature.tensor.dtype, len(feature.tensor.shape))
    stored = feature.extra.get("encoding"), feature.extra.get("tokens")
    return feature.type, feature.is_image, tensor, *stored


def _likeness(feature: Feature) -> tuple[object, ...]:
    """Return the properties that must agree to batch examples of two datasets together."""
    shape = feature.shape if feature.dense and not feature.is_image else len(feature.shape)
    keys = ["label_map", "sequence", *["image_shape"] * feature.is_raw_image]
    return *_kind(feature), feature.dense, shape, *map(feature.extra.get, keys)


def merge_descriptions(features: Sequence[Feature]) -> Feature:
    """Return the first feature with the extra keys that hold for all.

    Image sizes are mixed if any two differ, and its formats are the union. For tensors, sizes that
    differ become unknown.
    """
    first = features[0]
    extra = {
        key: value
        for key, value in first.extra.items()
        if all(feature.extra.get(key) == value for feature in features)
    }
    tensors = [feature.tensor for feature in features if feature.tensor is not None]
    if first.tensor is not None:
        extra["tensor"] = functools.reduce(TensorSpec.merge, tensors).to_json()
    sizes = {feature.extra.get("sizes") for feature in features}
    shapes = {(*f.shape, repr(f.extra.get("image_shape"))) for f in features}
    if first.is_image and ("mixed" in sizes or len(shapes) > 1):
        extra["sizes"] = "mixed"
    if (bits := max(feature.extra.get("bits", 8) for feature in features)) > 8:
        extra["bits"] = bits
    formats = [feature.extra.get("formats", DATUM_IMAGE_FORMATS) for feature in features]
    if any("formats" in feature.extra for feature in features):
        extra["formats"] = sorted(set().union(*formats))
    return dataclasses.replace(first, extra=extra)


_SINGLE = {(), (1,)}  # shapes of features with one value, which some records may lack


def merge_features(by_input: Mapping[str, Mapping[str, Feature]]) -> dict[str, Feature]:
    """Return features that hold for the examples of all inputs; keys name inputs in messages."""
    merged: dict[str, tuple[str, Feature]] = {}
    for where, features in by_input.items():
        for name, feature in features.items():
            first_where, first = merged.setdefault(name, (where, feature))
            merged[name] = first_where, _merge_feature(name, first, feature, (first_where, where))
    everywhere = set.intersection(*(set(features) for features in by_input.values()))
    return {
        name: feature if name in everywhere else _sparse(feature)
        for name, (_, feature) in sorted(merged.items())
    }


def _merge_feature(name: str, first: Feature, other: Feature, where: tuple[str, str]) -> Feature:
    """Return a feature that fits the records of both inputs; raise DatasetError if they differ."""
    if first == other:
        return first
    alike = _kind(first) == _kind(other)
    if first.is_image or not (first.dense and other.dense):
        alike &= len(first.shape or (1,)) == len(other.shape or (1,))
    elif first.shape != other.shape:  # two fixed sizes become a list of variable length
        alike &= len(first.shape) < 2 and len(other.shape) < 2
    if not alike:
        said = f"feature {name!r}: expected the same in all inputs"
        got = f"{first} ({where[0]}) and {other} ({where[1]})"
        raise DatasetError(f"{said}, got {got}. Balance them apart, or convert one of them.")
    both = merge_descriptions([first, other])
    if first.is_image:
        return dataclasses.replace(both, dense=first.dense and other.dense)
    if first.dense and other.dense and first.shape == other.shape:
        return both
    sizes = zip(first.shape or (1,), other.shape or (1,), strict=True)
    extra = both.extra
    if (
        any(f.extra.get("optional") for f in (first, other))
        and {first.shape, other.shape} <= _SINGLE
    ):
        extra = {**extra, "optional": True}
    return Feature(type=first.type, shape=tuple(map(max, sizes)), dense=False, extra=extra)


def _sparse(feature: Feature) -> Feature:
    shape = feature.shape if feature.is_image else feature.shape or (1,)
    extra = feature.extra
    if feature.dense and not feature.shape:
        extra = {**extra, "optional": True}
    return dataclasses.replace(feature, dense=False, shape=shape, extra=extra)
