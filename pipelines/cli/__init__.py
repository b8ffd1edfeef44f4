"""The command line, `tfx-shards`: raw files to datasets, and what is in datasets.

tfx-shards convert photos/ out/        # or: python -m pipelines.cli convert photos/ out/

`commands` has them all, `flags` makes them of functions, `app` their errors exit statuses,
`terminal` prints. None imports TensorFlow or TFX before it has to.
"""

from pipelines.cli.app import app, main

__all__ = ["app", "main"]
