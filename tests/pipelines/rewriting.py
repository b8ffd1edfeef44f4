"""Change JSON files of a dataset and keep their checksums valid."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer_utils.format.sealing import seal


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON file; a manifest gets a new checksum of itself."""
    value = json.loads(path.read_text())
    change(value)
    text = json.dumps(value, indent=2, sort_keys=path.name == "manifest.json") + "\n"
    path.write_text(seal(text) if "checksum" in value else text)
