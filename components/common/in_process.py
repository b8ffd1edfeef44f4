"""Beam in this process: the runner that downloads nothing.

with make_pipeline() as pipeline: ...
"""

from collections.abc import Sequence

import apache_beam as beam

__all__ = ["IN_PROCESS_RUNNER", "make_pipeline"]

# Beam's DirectRunner would first try to download another runner (Prism) from the internet.
IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def make_pipeline(arguments: Sequence[str] = ()) -> beam.Pipeline:
    """A pipeline of that runner, with Beam's own arguments."""
    own = (f"--runner={IN_PROCESS_RUNNER}", "--no_save_main_session")
    return beam.Pipeline(argv=[*arguments, *own])
