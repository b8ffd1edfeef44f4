"""Conversion in one call; and in rooms, what stands on the components.

    import pipelines
    uri = pipelines.convert("photos/", "datasets/photos")

- `cli`: the command line, `tfx-shards`: its arguments, and all that is printed.
- `tools`: what the commands do: convert, inspect, show, browse, report, verify, diff, doctor.
- `lineage`: what ML Metadata knows of an artifact, a record, a run.
- `kubeflow`: pipelines for Kubeflow Pipelines v2, compiled.
- `examples`: ready pipelines, their trainers, the demonstrations.
- `notebook`: the page of a dataset in a notebook; `pandas`: TFRecorder's accessor of data frames.

Importing this package alone does not import TFX, which takes some ten seconds.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.tools.conversion.convert import convert

__all__ = ["convert"]


def __getattr__(name: str) -> Any:
    if name != "convert":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipelines.tools.conversion.convert import convert

    return convert
