"""Ready pipelines, conversion in one call, and a demonstration.

    import pipelines
    uri = pipelines.convert("photos/", "datasets/photos")

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
