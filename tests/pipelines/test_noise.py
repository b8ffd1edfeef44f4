"""Imports in processes of their own: silent where they work, all of it where they fail."""

import os
import subprocess
import sys

import pytest

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
"""


def run(folder, noisy=NOISY, program=PROGRAM, options=(), **environment):
    (folder / "noisy.py").write_text(noisy)
    variables = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    variables["PYTHONPATH"] = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_an_import_prints_is_held_stderr_and_what_comes_after_is_not(tmp_path):
    assert run(tmp_path).stderr == "after\n"


@pytest.mark.slow
def test_pipelines_convert_prints_nothing_of_tensorflows_import(tmp_path):
    pytest.importorskip("tfx", reason="convert needs TFX")
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b\n" * 9)
    program = "import pipelines\npipelines.convert('a.csv', 'out')\n"
    done = run(tmp_path, program=f"import os\nos.chdir({str(tmp_path)!r})\n{program}")
    assert done.returncode == 0, done.stderr
    for word in ("cuFFT", "cuDNN", "cuBLAS", "oneDNN", "FutureWarning", "cpu_feature_guard"):
        assert word not in done.stderr
