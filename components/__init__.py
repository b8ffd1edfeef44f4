"""TFX components that make balanced, verified, sharded TFRecord datasets.

    from components import ImageExampleGen, ShardBalancer, SchemaExport

They need an extra: `pip install tfx-shards[tfx]`, or `[tfx116]` where glibc is older than 2.38.
Importing this package alone does not import TFX, which takes some ten seconds; the first use of a
component does. `components.kubeflow` needs kfp alone.
"""

import importlib
import importlib.util
import re
from typing import TYPE_CHECKING, Any

try:
    from trainer_utils.core.extras import HOW_TO_GET_TFX
    from trainer_utils.core.package_names import check_packages
except ModuleNotFoundError as error:
    if not str(error.name).startswith("trainer_utils"):
        raise
    raise ImportError(
        "another package hides the package 'trainer_utils' of tfx-shards: "
        f"see docs/package-names.md ({error})"
    ) from error

if TYPE_CHECKING:
    from components.audio_example_gen import AudioExampleGen
    from components.dataset_audit import DatasetAudit
    from components.dataset_report import DatasetReport
    from components.image_example_gen import ImageExampleGen
    from components.schema_export import SchemaExport
    from components.shard_balancer import ShardBalancer
    from components.text_example_gen import TextExampleGen

__all__ = [
    "AudioExampleGen",
    "DatasetAudit",
    "DatasetReport",
    "ImageExampleGen",
    "SchemaExport",
    "ShardBalancer",
    "TextExampleGen",
]

check_packages("trainer_utils")

_HAS_TFX = importlib.util.find_spec("tfx") is not None
_NO_TFX = f"components needs TFX: {HOW_TO_GET_TFX}"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not _HAS_TFX:
        raise ImportError(_NO_TFX)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return getattr(importlib.import_module(f"components.{words}"), name)


def __dir__() -> list[str]:
    return __all__
