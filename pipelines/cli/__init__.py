"""The command line, `tfx-shards`: convert raw files to datasets, and inspect datasets.

tfx-shards convert photos/ out/        # or: python -m pipelines.cli convert photos/ out/

`commands` contains all commands, `signatures` makes them from functions, `app` turns errors into
exit statuses, `terminal` prints. TensorFlow and TFX are imported only by commands that need them.
"""

from pipelines.cli.app import app, main

__all__ = ["app", "main"]
