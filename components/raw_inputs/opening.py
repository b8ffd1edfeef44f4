"""Open raw inputs as the dataset that a conversion makes of them, without writing it.

open_raw("photos/", {"splits": {"train": 9, "eval": 1}})       # a `RawDataset` of `trainer_utils`
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from absl import logging

from components.balancing.planning import has_same_shards, permutation_seeds
from components.balancing.settings import BalancerSettings
from components.example_gen.file_conversion import FileConversion
from components.example_gen.file_plan import FilePlan
from components.example_gen.input_selection import listing_once
from components.example_gen.planned_listing import listing_of
from components.example_gen.split_rules import NEAR_DUPLICATES
from components.inputs.arrow_columns import array_of, int_array, sizes_of
from components.media.options import DESCRIPTIONS
from components.raw_inputs.records import AssumedFacts, FileRecords, facts_of, features_of
from components.raw_inputs.requests import prepare
from components.steps import conversion_of
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.dataset.raw_inputs import RawDataset, no_files
from trainer_utils.format import Feature
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tensors import TensorSpec
from trainer_utils.order.permutation import permute

_SAMPLES = 16  # files to read for the features of the dataset
_RECORD_BYTES = 100  # of a record in addition to its files
_NEEDS_RECORDS = ("exclude", "relabel", "where", "add", "stratify_by")


def open_raw(place: str, conversion: Mapping[str, Any]) -> RawDataset:
    """Open raw inputs as the dataset that `convert` makes of them.

    Args:
        place: a folder, a list or an archive, local or in a bucket.
        conversion: the settings of the conversion, as for `convert`.

    Raises:
        ConfigError: a setting is not allowed, or it needs a conversion.
        InputError: the inputs cannot be read as intended, or are tables of text.
    """
    refused = [name for name in ("update", "beam_pipeline_args", "metadata") if name in conversion]
    for name in refused:
        rule = "none for raw inputs, which are not written"
        raise ConfigError.of(f"conversion[{name!r}]", conversion[name], allowed=rule)
    with listing_once():
        return _open_raw(place, conversion)


def _open_raw(place: str, conversion: Mapping[str, Any]) -> RawDataset:
    """Do the work of `open_raw` with one listing of the inputs."""
    request = prepare(place, **dict(conversion))
    balancing = BalancerSettings(**request.balancer)
    for name in _NEEDS_RECORDS:
        if getattr(balancing, name):
            raise _needs_conversion(name, getattr(balancing, name), "records to be read")
    steps = conversion_of(request.selection, request.settings)
    if not isinstance(steps, FileConversion):
        raise InputError(
            f"{request.source!r}: expected images, audio files or lists of them, got tables of "
            f"text ({request.seen}), whose records are not known before all rows are read. "
            f"Convert them first: tfx-shards convert {request.source} OUT. If their rows hold or "
            "name images: conversion={'kind': 'image'}.",
            path=request.source,
        )
    if steps.settings.group_by == NEAR_DUPLICATES:
        raise _needs_conversion("group_by", NEAR_DUPLICATES, "every file to be compared")
    if steps.settings.base_dataset is not None:
        raise _needs_conversion("base_dataset", steps.settings.base_dataset, "its order")
    logging.info("%r: read as raw inputs, %s", request.source, request.seen)
    return _dataset_of(steps, steps.plan(""), balancing)


def _needs_conversion(name: str, value: object, what: str) -> ConfigError:
    return ConfigError.of(
        f"conversion[{name!r}]",
        value,
        allowed=f"none for raw inputs, since it needs {what}",
        advice="Convert the inputs with it: tfx-shards convert",
    )


def _dataset_of(steps: FileConversion, plan: FilePlan, balancing: BalancerSettings) -> RawDataset:
    """Return the dataset of a plan."""
    order = plan.places
    listing = listing_of(plan, steps.located, steps.config)
    config = {**steps.config, **({} if plan.is_shuffled else {"shuffled": False})}
    if not has_same_shards(config, balancing):
        seeds = permutation_seeds(order, balancing)
        listing = listing.with_permutation(seeds)
        order = {split: _permuted(rows, seeds.get(split)) for split, rows in order.items()}
    sizes = sizes_of(plan.rows)
    records = FileRecords(
        rows=plan.rows,
        order=order,
        columns=plan.columns,
        blobs=plan.blobs,
        base=steps.located.base,
        settings=steps.settings,
        listing=listing,
    )
    features, assumed = _features(steps, plan, records)
    records = dataclasses.replace(records, assumed=assumed)
    uri = steps.selection.base
    shards = {}
    for split, rows in order.items():
        path = f"{uri.rstrip('/')}#{split}"
        num_bytes = int(sizes[rows].sum()) + _RECORD_BYTES * len(rows)
        shards[split] = [ShardFile(path, len(rows), path=path, bytes=num_bytes)]
    return RawDataset(
        uri=uri,
        files=no_files(uri),
        shards=shards,
        features=features,
        says_features=True,
        vocabulary_files={name: f"vocab/{name}.txt" for name in plan.vocabularies},
        raw=records,
        values={name: list(values) for name, values in plan.vocabularies.items()},
    )


def _permuted(rows: npt.NDArray[np.int64], seed: int | None) -> npt.NDArray[np.int64]:
    """Return the rows of records after ShardBalancer's permutation."""
    if seed is None:
        return rows
    moved = np.empty_like(rows)
    moved[permute(np.arange(len(rows)), num_records=len(rows), seed=seed)] = rows
    return moved


def _features(
    steps: FileConversion, plan: FilePlan, records: FileRecords
) -> tuple[dict[str, Feature], dict[str, AssumedFacts]]:
    """Return the features of the dataset, and their assumptions about every file.

    The features of images and audio are judged by some files. A file that differs is an error when
    it is read, since a conversion of all files would have described them otherwise.
    """
    samples = []
    for split, rows in records.order.items():
        count = min(len(rows), max(1, _SAMPLES // len(records.order)))
        numbers = np.unique(np.linspace(0, max(len(rows) - 1, 0), count, dtype=np.int64))
        samples += records.media_of(split, numbers.tolist())
    sampled = features_of(facts_of(samples), plan.blobs)
    features, assumed = {"filename": Feature(type="string")}, {}
    for name, kind in plan.blobs:
        if name in sampled:
            features[name] = sampled[name]
            assumed[name] = _assumed(sampled[name], kind)
        features |= {other: Feature(type="int") for other in DESCRIPTIONS.get(kind, ())}
    values_of = [name for name in plan.rows.column_names if name.startswith("value:")]
    used = pc.take(plan.rows.select(values_of), int_array(plan.order))
    for place, column in enumerate(plan.columns):
        if column.name in features:  # an image's size, which an annotation has as well
            continue
        values = array_of(used, f"value:{column.name}")
        longest = 0
        if column.is_list and len(values):
            longest = pc.max(pc.list_value_length(values)).as_py() or 0
        features[column.name] = plan.feature(
            plan.columns[place],
            length=column.length,
            longest=longest,
            is_missing=values.null_count > 0,
        )
    for name, text in steps.settings.tensors.items():
        if name in features:
            extra = {**features[name].extra, "tensor": TensorSpec.parse(text).to_json()}
            features[name] = dataclasses.replace(features[name], extra=extra)
    return features, assumed


def _assumed(feature: Feature, kind: str) -> AssumedFacts:
    """Return the facts that a feature assumes of every file."""
    if kind == "audio":
        names = ("sample_rate", "channels")
        return AssumedFacts({n: int(feature.extra[n]) for n in names if n in feature.extra})
    if not feature.is_image:
        return AssumedFacts({})
    numbers = {"channels": 1} if len(feature.shape) == 2 else {}
    if feature.is_fixed_size:
        numbers |= {"height": feature.shape[0], "width": feature.shape[1]}
    return AssumedFacts(numbers, most_bits=int(feature.extra.get("bits", 8)))
