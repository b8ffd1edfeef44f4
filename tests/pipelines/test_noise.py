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


def test_where_an_import_fails_all_of_it_is_shown(tmp_path):
    done = run(tmp_path, NOISY + "raise ImportError('no such symbol')\n")
    assert done.returncode == 1
    assert "Unable to register cuFFT factory" in done.stderr
    assert "a line of a logger" in done.stderr
    assert "ImportError: no such symbol" in done.stderr


def test_who_has_set_a_log_level_or_warnings_gets_them(tmp_path):
    assert "cuFFT" in run(tmp_path, TF_CPP_MIN_LOG_LEVEL="0").stderr
    shown = run(tmp_path, options=["-W", "default"], TF_CPP_MIN_LOG_LEVEL="0").stderr
    assert "FutureWarning: of a package" in shown


@pytest.mark.slow
def test_pipelines_convert_prints_nothing_of_tensorflows_import(tmp_path):
    pytest.importorskip("tfx", reason="convert needs TFX")
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b\n" * 9)
    program = "import pipelines\npipelines.convert('a.csv', 'out')\n"
    done = run(tmp_path, program=f"import os\nos.chdir({str(tmp_path)!r})\n{program}")
    assert done.returncode == 0, done.stderr
    for word in ("cuFFT", "cuDNN", "cuBLAS", "oneDNN", "FutureWarning", "cpu_feature_guard"):
        assert word not in done.stderr
