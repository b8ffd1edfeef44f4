"""Tells TFX when files and datasets that settings name have changed, so that it runs again.

TFX takes a run from its cache where settings and input artifacts are the same. What lies in the
files of `exclude` and `relabel`, and in the datasets of `add`, it does not see by itself.
"""

import json
from typing import Any

from components.common.driver import PropertiesDriver
from components.common.settings import ExecProperties
from components.shard_balancer.changes import digest_of, read_named
from components.shard_balancer.settings import BalancerSettings
from trainer_utils.dataset import open_dataset

__all__ = ["FINGERPRINT", "ChangesDriver", "fingerprint_of_changes"]

FINGERPRINT = "changes_fingerprint"


class ChangesDriver(PropertiesDriver):
    """Adds the fingerprint of what the settings name to the execution properties."""

    def resolve(self, exec_properties: ExecProperties) -> ExecProperties:  # noqa: D102
        found = fingerprint_of_changes(BalancerSettings.from_properties(exec_properties))
        return exec_properties if found is None else {**exec_properties, FINGERPRINT: found}


def fingerprint_of_changes(settings: BalancerSettings) -> str | None:
    """Of the files and datasets that settings name; None where they name none.

    Raises:
        ConfigError: a file cannot be read.
        DatasetError: a dataset is none, or not whole.
    """
    facts: dict[str, Any] = {
        name: digest_of(read_named(name, path))
        for name, path in (("exclude", settings.exclude), ("relabel", settings.relabel))
        if isinstance(path, str)
    }
    if settings.add:
        facts["add"] = [open_dataset(uri, inspect=False).digest for uri in settings.add]
    return digest_of(json.dumps(facts).encode()) if facts else None
