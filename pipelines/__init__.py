"""Conversion in one call, and the subpackages that build on the components.

    import pipelines
    uri = pipelines.convert("photos/", "datasets/photos")

- `cli`: the command line, `tfx-shards`: its arguments and its output.
- `tools`: the functions behind the commands: convert, layouts, verify, diff, forget, ledger etc.
- `lineage`: the history of an artifact, a record or a run in ML Metadata.
- `kubeflow`: a compiler of pipelines for Kubeflow Pipelines v2.
- `examples`: ready pipelines, their trainers, and the demonstration.
- `notebook`: the report of a dataset in a notebook; `pandas`: TFRecorder's accessor of DataFrames.

Importing this package does not import TFX, which takes about ten seconds.
"""

from typing import TYPE_CHECKING, Any

try:
    from trainer_utils.core.package_names import check_packages
except ModuleNotFoundError as error:
    if not str(error.name).startswith("trainer_utils"):
        raise
    raise ImportError(
        "another package hides the package 'trainer_utils' of tfx-shards: "
        f"see docs/package-names.md ({error})"
    ) from error

if TYPE_CHECKING:
    from pipelines.tools.conversion.convert import convert

__all__ = ["convert"]

check_packages("components", "trainer_utils")


def __getattr__(name: str) -> Any:
    if name != "convert":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipelines.tools.conversion.convert import convert

    return convert
