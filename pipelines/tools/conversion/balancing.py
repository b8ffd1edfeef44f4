"""ShardBalancer in one call, its lineage kept.

uri = balance("out/", "balanced/", where="height >= 64", num_shards=8)
uri = balance("balanced/", "smaller/", exclude="bad.txt", keep_shards=True)
"""

import os
from collections.abc import Sequence
from typing import Any

from components.shard_balancer.settings import BalancerSettings
from pipelines.tools.conversion.import_noise import suppress_import_noise
from pipelines.tools.conversion.outputs import METADATA_FILE, point_to
from trainer_utils.dataset.location import newest_dataset
from trainer_utils.format import ConfigError
from trainer_utils.format.spelling import check_names
from trainer_utils.storage import is_remote

__all__ = ["balance", "check_balancing"]

_PIPELINE = "tfx-shards-balance"


def balance(
    examples: str, out: str, *, beam_pipeline_args: Sequence[str] | None = None, **settings: Any
) -> str:
    """Runs ShardBalancer on a dataset, in a pipeline of its own.

    Args:
        examples: the uri of a dataset, or the folder that `convert` or this was given.
        out: a local folder for the artifact and for `metadata.sqlite`; `out/latest` is a link to
            the newest dataset.
        beam_pipeline_args: as Beam takes them. None: all runs in this process.
        settings: of ShardBalancer.

    Returns:
        The uri of the new dataset.

    Raises:
        ConfigError: a setting is not allowed.
        DatasetError: an input is no dataset, not whole, or damaged.
    """
    check_balancing(out, settings)
    given = os.path.abspath(newest_dataset(examples)) if not is_remote(examples) else examples
    root = os.path.abspath(out)
    _check_outside(out, given)
    os.makedirs(root, exist_ok=True)
    metadata = os.path.join(root, METADATA_FILE)
    with suppress_import_noise():
        from pipelines.tools.conversion.pipeline import run_balancer  # TFX: all was checked before

    uri = run_balancer(given, settings, root, _PIPELINE, metadata, beam_pipeline_args or ())
    point_to(root, uri)
    return os.path.join(out, os.path.relpath(uri, root))


def check_balancing(out: str, settings: dict[str, Any]) -> None:
    """Refuses a place or settings that cannot be, before TFX is imported.

    Raises:
        ConfigError: it names the setting.
    """
    check_names("balance", settings, BalancerSettings.argument_names())
    BalancerSettings(**settings)
    if not out or is_remote(out):
        raise ConfigError.of("out", out, allowed="a local folder")


def _check_outside(out: str, dataset: str) -> None:
    """Refuses a place inside of the dataset that is read, where only its own files may be."""
    if is_remote(dataset):
        return
    folder = os.path.realpath(dataset)
    if os.path.commonpath([folder, os.path.realpath(out)]) == folder:
        raise ConfigError.of("out", out, allowed=f"a folder outside the dataset {dataset!r}")
