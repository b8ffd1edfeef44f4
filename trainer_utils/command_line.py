"""What the script `tfx-shards` calls: the command line, wherever its package is hidden by another.

main()      # of pipelines.cli; or a sentence that says which folder is in its place
"""

import importlib
import sys


def main() -> None:
    """Runs the command line; a folder `pipelines/` of one's own on the path is told at once."""
    try:
        run = importlib.import_module("pipelines.cli").main
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("pipelines"):
            raise
        hides = importlib.import_module("pipelines").__path__
        sys.exit(
            f"tfx-shards: expected its own package 'pipelines', got the one in {[*hides]}. "
            "Rename that folder, or leave the folder above it out of PYTHONPATH."
        )
    run()
