"""The command line, `tfx-shards`: raw files to datasets, and what is in datasets.

tfx-shards convert photos/ out/        # or: python -m pipelines.cli convert photos/ out/
tfx-shards inspect out/

Exit status: 0, 1 for bad data, 2 for bad usage. Each command is a module of its own, which is
imported when it is asked for; none imports TensorFlow or TFX before it has to.
"""

from pipelines.cli.app import app, main

__all__ = ["app", "main"]
