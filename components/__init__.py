"""TFX components that make balanced, verified, sharded TFRecord datasets.

    from components import ImageExampleGen, ShardBalancer, SchemaExport

They need an extra: `pip install tfx-shards[tfx]`, or `[tfx116]` where glibc is older than 2.38.
Importing this package alone does not import TFX, which takes some ten seconds; the first use of a
component does. `components.kubeflow` needs kfp alone.
"""

import importlib
import importlib.util
from typing import Any

from trainer_utils.extras import HOW_TO_GET_TFX

_HAS_TFX = importlib.util.find_spec("tfx") is not None
_NO_TFX = f"components needs TFX: {HOW_TO_GET_TFX}"

_MODULES = {
    "AudioExampleGen": "components.audio_example_gen.component",
    "DatasetAudit": "components.dataset_audit.component",
    "DatasetReport": "components.dataset_report.component",
    "ImageExampleGen": "components.image_example_gen.component",
    "SchemaExport": "components.schema_export.component",
    "ShardBalancer": "components.shard_balancer.component",
    "TextExampleGen": "components.text_example_gen.component",
}
__all__ = [*_MODULES]  # type checkers and editors read `__init__.pyi`


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not _HAS_TFX:
        raise ImportError(_NO_TFX)
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
