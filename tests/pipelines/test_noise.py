"""Imports in processes of their own: silent where they work, all of it where they fail."""

import os
import subprocess
import sys

NOISY = """
import os, sys, warnings
os.write(2, b"Unable to register cuFFT factory\\n")
print("a line of a logger", file=sys.stderr)
warnings.warn("of a package", FutureWarning)
"""
PROGRAM = """
import sys
from pipelines.noise import quiet_import
with quiet_import():
    import noisy
print("after", file=sys.stderr)
with quiet_import():
    import failing
"""


def test_what_an_import_prints_is_held_stderr_and_what_comes_after_is_not(tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "failing.py").write_text(f"{NOISY}raise OSError('no such driver')\n")
    variables = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("after\n")
    assert "a line of a logger" in done.stderr
    assert "no such driver" in done.stderr
