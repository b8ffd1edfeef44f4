"""Measure an input, export its metrics, time a trainer's waits for it, and preview its images.

from trainer_utils.monitoring import StepTimer, export_metrics, measure_input, preview
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_utils.monitoring.bench import measure_input
    from trainer_utils.monitoring.image_grid import preview
    from trainer_utils.monitoring.step_timer import StepTimer
    from trainer_utils.runtime.telemetry import export_metrics

__all__ = ["StepTimer", "export_metrics", "measure_input", "preview"]

_MODULES = {
    "StepTimer": "monitoring.step_timer",
    "export_metrics": "runtime.telemetry",
    "measure_input": "monitoring.bench",
    "preview": "monitoring.image_grid",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"trainer_utils.{_MODULES[name]}"), name)
