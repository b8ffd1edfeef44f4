"""Tells TFX when files and datasets that settings name have changed, so that it runs again.

TFX takes a run from its cache where settings and input artifacts are the same. What lies in the
files of `exclude` and `relabel`, and in the datasets of `add`, it does not see by itself.
"""

from components.common.driver import PropertiesDriver
from components.common.settings import ExecProperties
from components.shard_balancer.settings import BalancerSettings
from components.shuffle.edits import fingerprint_of_files
from trainer_utils.dataset import open_dataset

__all__ = ["FINGERPRINT", "ChangesDriver"]

FINGERPRINT = "changes_fingerprint"


class ChangesDriver(PropertiesDriver):
    """Adds the fingerprint of what the settings name to the execution properties."""

    def resolve(self, exec_properties: ExecProperties) -> ExecProperties:  # noqa: D102
        settings = BalancerSettings.from_properties(exec_properties)
        found = fingerprint_of_files(
            {"exclude": settings.exclude, "relabel": settings.relabel},
            [open_dataset(uri, inspect=False).digest for uri in settings.add],
        )
        return exec_properties if found is None else {**exec_properties, FINGERPRINT: found}
