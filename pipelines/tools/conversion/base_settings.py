"""Take the settings of the dataset that an update starts from.

conversion = with_settings_of(conversion, "out/artifacts/ImageExampleGen/examples/1", "out")
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from components.balancing.settings import BalancerSettings
from components.example_gen.updates import read_base
from components.inputs.advice import how_to_set
from components.raw_inputs.requests import SETTINGS, Conversion
from trainer_utils.core.errors import ConfigError
from trainer_utils.dataset.location import newest_dataset, read_manifest
from trainer_utils.format import Manifest

# Settings of ShardBalancer that divide records into shards; an update keeps the shards.
_DIVIDING = ("num_shards", "shard_multiple", "balance", "stratify_by")
Balancing = dict[str, Any]  # settings of ShardBalancer by name
_EDITS = ("exclude", "relabel", "add")  # a manifest has only their digests


def with_settings_of(conversion: Conversion, base_uri: str, out: str) -> Conversion:
    """Return a conversion with the settings of an earlier one, except for those given now.

    Args:
        conversion: the new conversion, with the settings given by the user.
        base_uri: the ExampleGen's dataset in `out`.
        out: the output folder of both conversions.

    Raises:
        ConfigError: the earlier conversion had edits, which cannot be read from its dataset.
    """
    base = read_base(base_uri)
    assert base.dataset.manifest is not None
    config = {**conversion.settings.for_manifest(), "splits": conversion.splits}
    names = SETTINGS[conversion.kind].argument_names()
    example_gen = {
        name: before
        for name, (before, _) in base.differing(config, free=("update", "vocabulary")).items()
        if name in names
    }
    labels = base.dataset.manifest.config.get("vocabulary") or {}  # those given by the user
    if labels:
        known = base.dataset.vocabularies
        example_gen["vocabulary"] = {name: [*known[name]] for name in labels if name in known}
    splits, shares = conversion.splits, base.dataset.manifest.config.get("splits")
    if splits is None and shares:  # keys of JSON are sorted; the order decides which hash is where
        splits = {name: shares[name] for name in base.dataset.manifest.accounting}
    return dataclasses.replace(
        conversion,
        splits=splits,
        example_gen={**example_gen, **conversion.example_gen},
        balancer={**_balancing(out, conversion), **conversion.balancer},
    )


def without_division(conversion: Conversion, base_config: Mapping[str, Any], out: str) -> Balancing:
    """Return the settings of ShardBalancer without division into the same shards.

    Args:
        conversion: the new conversion.
        base_config: the settings of the ExampleGen's dataset in `out`, as in its manifest.
        out: the output folder of both conversions.
    """
    default = {name: getattr(BalancerSettings, name) for name in _DIVIDING}
    # An earlier update kept the shards of the ExampleGen.
    before = {**default, **base_config, **_balancing(out, conversion)}
    return {
        name: value
        for name, value in conversion.balancer.items()
        if name not in _DIVIDING or value != before[name]
    }


def _balancing(out: str, conversion: Conversion) -> Balancing:
    """Return the settings of ShardBalancer that wrote the newest dataset in a folder."""
    latest = newest_dataset(out)
    manifest = read_manifest(latest) if latest != out else None
    if manifest is None or manifest.producer != "ShardBalancer":
        return {}
    _check_edits(manifest, conversion.balancer)
    config = manifest.config
    names = {*BalancerSettings.argument_names()} - {"keep_shards", "where", *_EDITS}
    settings = {name: config[name] for name in names if name in config}
    if where := config.get("where"):
        settings["where"] = where["condition"]
    return {n: value for n, value in settings.items() if value != getattr(BalancerSettings, n)}


def _check_edits(manifest: Manifest, given: Mapping[str, Any]) -> None:
    for name in _EDITS:
        if name in manifest.config and name not in given:
            raise ConfigError(
                f"{name}: the dataset to update was made with {name}=, which an update needs "
                f"again. Pass it again, or convert without {how_to_set(update=True)}.",
                setting=name,
                value=None,
            )
