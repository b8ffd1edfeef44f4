"""Plan the records and steps of each worker, and open and order every input.

print(plan(uri, "train", workers=8, batch_size=256, remainder="pad"))
"""

import functools
import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.core.printable import printable
from trainer_utils.core.settings import NumberRule
from trainer_utils.dataset.location import Inputs
from trainer_utils.dataset.opening import record_keys
from trainer_utils.dataset.raw_inputs import RawDataset, changed_since, inputs_folder
from trainer_utils.dataset.selection import (
    Source,
    digest_of,
    listing_of,
    mean_bytes,
    open_sources,
)
from trainer_utils.format import canonical_split
from trainer_utils.options import Callback, InputOptions, choose_options
from trainer_utils.order import InputOrder, MixPart
from trainer_utils.order.input_plan import InputPlan, plan_workers
from trainer_utils.order.mixing import Weights, WeightSchedule
from trainer_utils.order.recipe import Recipe
from trainer_utils.order.resume_token import InputsState
from trainer_utils.reading.filtering import filtered_sources
from trainer_utils.reading.packing import PackedSource, packed_sources
from trainer_utils.storage import exists, is_remote, read_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.options.keywords import InputSettings

_logger = logging.getLogger(__name__)


def plan(
    artifact_uri: Inputs,
    split: str | None = None,
    *,
    workers: int = 1,
    replicas: int | None = None,
    options: InputOptions | None = None,
    **settings: "Unpack[InputSettings]",
) -> InputPlan:
    """Compute the plan of each worker.

    Args:
        artifact_uri: the dataset, as in `input_fn`.
        split: the split or slices to read, as in `input_fn`.
        workers: the number of workers.
        replicas: the number of replicas of all workers together, a multiple of the workers. None:
            one each.
        options: all settings, as in `input_fn`.
        settings: fields of `InputOptions`, as in `input_fn`.

    Raises:
        ConfigError: the plan is impossible, such as a batch that the workers cannot share; or
            `state` is not a token to resume from.
        DatasetError: as in `input_fn`.
    """
    chosen = choose_options(options, settings, of=plan)
    workers = NumberRule(1)("workers", workers)
    replicas = workers if replicas is None else NumberRule(1)("replicas", replicas)
    sources, chosen = open_input(artifact_uri, split, chosen)
    callbacks_of(sources, chosen)
    return plan_workers(order_of(sources, chosen, num_workers=workers, num_replicas=replicas))


def order_of(
    sources: Sequence[Source],
    options: InputOptions,
    *,
    num_workers: int = 1,
    num_replicas: int | None = None,
) -> InputOrder:
    """Return the order of the records of some sources; see `InputOrder` for the workers."""
    return InputOrder(
        [part for source in sources for part in source.ranges],
        options,
        num_workers=num_workers,
        num_replicas=num_replicas,
        mean_record_bytes=mean_bytes(sources),
        digest=digest_of(sources),
        parts=mix_parts(sources, options.weights),
        inputs=_inputs_of(sources),
        find_changed=functools.partial(_find_changed, sources),
    )


def _inputs_of(sources: Sequence[Source]) -> InputsState | None:
    """Return the raw inputs of some sources, or None if they are not known."""
    listing = listing_of(sources)
    if listing is None:
        return None
    return InputsState(
        files=listing.fingerprint,
        settings=listing.settings,
        digest=listing.digest,
        num_files=listing.files,
        newest=listing.newest,
        num_rejected=listing.rejected,
        rejected=listing.rejects,
    )


def _find_changed(sources: Sequence[Source], newest: int) -> list[str]:
    """Return the raw inputs that changed after a time, as far as their folders are known."""
    changed: list[str] = []
    for source in sources:
        folder = inputs_folder(source.dataset)
        if folder is not None:
            changed += changed_since(folder, newest)
    return changed


def mix_parts(sources: Sequence[Source], weights: Weights | None) -> list[MixPart]:
    """Return the parts that an order mixes; an empty list without weights."""
    if weights is None:
        return []
    schedule = WeightSchedule.of(weights)

    def part_of(name: str, source: Source) -> MixPart:
        """Return a part of the mixture, after its older version if the schedule names one."""
        after = None
        if name in schedule.older:
            if isinstance(source, PackedSource):
                rule = f"None with part {name!r}, which has an older version, since packs have none"
                raise ConfigError.of("pack", source.packs.options, allowed=rule)
            older_name, place, split = schedule.older[name]
            (older,) = filtered_sources(
                [_one_source(older_name, place, split)], InputOptions(where=source.where)
            )
            after = older_name, part_of(older_name, older)
        if after is not None and isinstance(source.dataset, RawDataset):
            rule = f"a converted dataset for part {name!r}, which has an older version"
            raise ConfigError.of("uri", source.dataset.uri, allowed=rule)
        keys = functools.partial(record_keys, source.dataset, source.ranges)
        return MixPart(source.num_records, digest_of([source]), source.mean_bytes, keys, after)

    if len(schedule.names) != len(sources):
        rule = f"one for each of {len(sources)} datasets"
        raise ConfigError.of("weights", [*schedule.names], allowed=rule)
    return [part_of(*named) for named in zip(schedule.names, sources, strict=True)]


def _packed(sources: list[Source], options: InputOptions) -> list[Source]:
    """Return the sources, packed if `pack=` asks for it; raise a ConfigError for raw inputs."""
    if options.pack is not None and any(isinstance(s.dataset, RawDataset) for s in sources):
        rule = "None for raw inputs, whose records have no tokens before they are converted"
        raise ConfigError.of("pack", options.pack, allowed=rule)
    if options.convert_to is not None:
        raw_to_convert(sources)
    return packed_sources(sources, options)


def raw_to_convert(sources: Sequence[Source]) -> RawDataset:
    """Return the raw inputs that `convert_to` converts.

    Raises:
        ConfigError: the sources have no raw inputs, or several.
    """
    raw_datasets = {id(s.dataset): s.dataset for s in sources if isinstance(s.dataset, RawDataset)}
    if len(raw_datasets) == 1:
        return raw_datasets.popitem()[1]
    places = ", ".join(dataset.uri for dataset in raw_datasets.values())
    got = f"several of them, {places}" if places else "a dataset, which is converted already"
    raise ConfigError(
        f"convert_to: expected one raw input to convert, got {got}. Leave convert_to out.",
        setting="convert_to",
        value=places or None,
    )


def _one_source(
    name: str | None, uri: Any, split: str | None, options: InputOptions | None = None
) -> Source:
    options = options or InputOptions()
    opened = open_sources(
        uri, split, conversion=options.conversion, cache_folder=options.cache_folder
    )
    if len(opened) != 1:
        raise ConfigError.of("uri", uri, allowed=f"one dataset for part {name!r}")
    return opened[0]


def open_input(
    artifact_uri: Inputs, split: str | None, options: InputOptions
) -> tuple[list[Source], InputOptions]:
    """Open the datasets to read, or the parts of a recipe with its weights.

    Args:
        artifact_uri: the dataset, as in `input_fn`, or a recipe or its file.
        split: the split or slices to read, as in `input_fn`; None with a recipe.
        options: the settings of the input.

    Returns:
        The splits to read, packed if the options ask for it, and the options with the recipe's
        weights.

    Raises:
        ConfigError: a split or weights were passed next to a recipe, or a part is several datasets.
        DatasetError: as in `input_fn`.
    """
    recipe = artifact_uri
    if isinstance(recipe, (str, os.PathLike)) and os.fspath(recipe).endswith((".yaml", ".yml")):
        path = os.fspath(recipe)
        if not exists(path):
            raise DatasetError.at(path, expected="a recipe", got="no such file")
        recipe = Recipe.from_yaml(read_text(path))
    if not isinstance(recipe, Recipe):
        opened = open_sources(
            recipe,
            split,
            apart=options.weights is not None,
            conversion=options.conversion,
            cache_folder=options.cache_folder,
        )
        opened = filtered_sources(opened, options)
        return _packed(opened, options), _with_absolute_paths(options)
    for name, value in (("split", split), ("weights", options.weights)):
        if value is not None:
            raise ConfigError.of(name, value, allowed="None with a recipe, whose parts have them")
    sources = [_one_source(part.name, part.uri, part.split, options) for part in recipe.parts]
    options = _with_absolute_paths(options.replace(weights=recipe.weights))
    sources = filtered_sources(sources, options)
    return _packed(sources, options), options


def _with_absolute_paths(options: InputOptions) -> InputOptions:
    """Return the options for processes that may have another working folder."""
    out = options.convert_to
    if out is None or is_remote(out):
        return options
    return options.replace(convert_to=os.path.abspath(out))


def callbacks_of(sources: Sequence[Source], options: InputOptions) -> list[Callback | None]:
    """Return the callbacks before and after batching that apply to the splits read.

    Raises:
        ConfigError: a callback is for a split that no dataset has and that has no usual name, or
            the splits read together have different callbacks.
    """
    there = dict.fromkeys(split for source in sources for split in source.dataset.shards)
    read = dict.fromkeys(split for source in sources for split in source.split_names)
    chosen: list[Callback | None] = []
    for name in ("pre_batching_callback", "post_batching_callback"):
        callback = getattr(options, name)
        if not isinstance(callback, Mapping):
            chosen.append(callback)
            continue
        for split in callback:
            if split not in there and (not isinstance(split, str) or not canonical_split(split)):
                rule = f"one of the splits {', '.join(there)}.{did_you_mean(split, there)}"
                said = f"{name}[{split!r}]: expected {rule}".removesuffix(".")
                raise ConfigError(said, setting=name, value=split)
        same = {canonical_split(split): name for split, name in callback.items()}
        functions = {callback.get(name, same.get(canonical_split(name) or name)) for name in read}
        if len(functions) > 1:
            rule = f"one function for all of {', '.join(read)}, which are read together"
            raise ConfigError(f"{name}: expected {rule}, got different ones", setting=name)
        chosen.append(functions.pop() if functions else None)
    return chosen


def check_has_records(sources: Sequence[Source], options: InputOptions) -> None:
    """Warn of an input without records.

    Raises:
        DatasetError: such an input is to be repeated without end.
    """
    if any(source.num_records for source in sources):
        return
    splits = ", ".join(dict.fromkeys(repr(source.split) for source in sources))
    places = ", ".join(dict.fromkeys(str(source.place) for source in sources))
    if options.repeat is True:
        raise DatasetError(f"split {splits}: expected records to repeat, got none ({places})")
    _logger.warning("split %s has no records: there are no batches (%s)", splits, printable(places))
