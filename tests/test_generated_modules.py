"""Generated modules equal the output of their generator."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def test_generated_modules_are_up_to_date():
    command = [sys.executable, "scripts/generate_settings.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
