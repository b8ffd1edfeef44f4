"""The trainer modules where a container has `trainer_utils` and no TFX."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["image_trainer", "text_trainer"])
def test_a_trainer_module_needs_no_tfx(module):
    program = (
        "import sys\n"
        "for name in ('tfx', 'components', 'apache_beam', 'ml_metadata', 'pyarrow'):\n"
        "    sys.modules[name] = None\n"
        f"from pipelines.examples.{module} import run_fn\n"
        "print(run_fn.__module__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"pipelines.examples.{module}\n", done.stderr
