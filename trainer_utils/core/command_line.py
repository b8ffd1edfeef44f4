"""Start the command line, or explain which package is hidden.

main()      # runs pipelines.cli, or exits with the name of the folder in its place
"""

import importlib
import sys

from trainer_utils.core.package_names import check_packages


def main() -> None:
    """Run the command line; exit with an explanation if another package hides it."""
    try:
        check_packages("components", "pipelines")
    except ImportError as error:
        sys.exit(f"tfx-shards: {error}")
    importlib.import_module("pipelines.cli").main()
