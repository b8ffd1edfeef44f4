"""A command line shows warnings of this project, and silences other libraries."""

import subprocess
import sys

SCRIPT = """
import logging, warnings
from absl import logging as absl_logging
from pipelines.noise import silence_process
import pipelines.noise, components.steps

silence_process(print)
logging.getLogger("components.layouts").warning("a layout")
logging.getLogger("trainer_utils.reading").info("no warning")
logging.getLogger("other.components").warning("other logger")
for name in ("components.steps", "componentsx", "other.components"):
    warnings.warn_explicit(f"in {name}", FutureWarning, "file.py", 1, module=name)
absl_logger = absl_logging.get_absl_logger()
for path in (components.steps.__file__, "/site-packages/tfx/components/executor.py"):
    absl_logger.handle(absl_logger.makeRecord("absl", 30, path, 1, f"from {path[-8:]}", (), None))

class Bad:
    def __del__(self):
        raise ValueError("of " + self.__del__.__module__)

Bad.__del__.__module__ = "tensorflow.python"
Bad()
Bad.__del__.__module__ = "pipelines.cli"
Bad()
"""


def test_only_this_projects_warnings_are_shown():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "Warning: a layout",
        "Warning: in components.steps",
        "Warning: from steps.py",
    ]
    assert "of pipelines.cli" in done.stderr
    assert "tensorflow" not in done.stderr
