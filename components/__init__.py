"""TFX components that make balanced, verified, sharded TFRecord datasets.

    from components import ImageExampleGen, ShardBalancer, SchemaExport

They need the extra: `pip install tfx-shards[tfx]`. Importing this package alone does not import
TFX, which takes some ten seconds; the first use of a component does.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("tfx") is None:
    raise ImportError("components needs TFX: run pip install 'tfx-shards[tfx]' on Python 3.10")

if TYPE_CHECKING:
    from components.audio_example_gen.component import AudioExampleGen
    from components.image_example_gen.component import ImageExampleGen
    from components.schema_export.component import SchemaExport
    from components.shard_balancer.component import ShardBalancer
    from components.text_example_gen.component import TextExampleGen

__all__ = [
    "AudioExampleGen",
    "ImageExampleGen",
    "SchemaExport",
    "ShardBalancer",
    "TextExampleGen",
]

_MODULES = {
    "AudioExampleGen": "components.audio_example_gen.component",
    "ImageExampleGen": "components.image_example_gen.component",
    "SchemaExport": "components.schema_export.component",
    "ShardBalancer": "components.shard_balancer.component",
    "TextExampleGen": "components.text_example_gen.component",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
