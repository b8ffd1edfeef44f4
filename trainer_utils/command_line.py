"""Start the command line, or explain that another `pipelines` package hides it.

main()      # runs pipelines.cli, or exits with the name of the folder in its place
"""

import importlib
import sys


def main() -> None:
    """Run the command line; exit with an explanation if a user's `pipelines/` folder hides it."""
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
