"""What a command that needs TFX says where TFX is not installed.

require_tfx("convert")
"""

import importlib.util

from trainer_utils.extras import HOW_TO_GET_TFX
from trainer_utils.format import ConfigError

__all__ = ["require_tfx"]


def require_tfx(command: str) -> None:
    """Refuses to go on without the extra.

    Raises:
        ConfigError: it says what to install.
    """
    if importlib.util.find_spec("tfx") is None:
        raise ConfigError(f"tfx-shards {command} needs TFX: {HOW_TO_GET_TFX}")
