"""What a process of its own prints."""

import os
import subprocess
import sys

import pytest


def run(folder, program):
    variables = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    variables["PYTHONPATH"] = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", program],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_pipelines_convert_prints_nothing_of_tensorflows_import(tmp_path):
    pytest.importorskip("tfx", reason="convert needs TFX")
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b\n" * 9)
    program = "import pipelines\npipelines.convert('a.csv', 'out')\n"
    done = run(tmp_path, program=f"import os\nos.chdir({str(tmp_path)!r})\n{program}")
    assert done.returncode == 0, done.stderr
    for word in ("cuFFT", "cuDNN", "cuBLAS", "oneDNN", "FutureWarning", "cpu_feature_guard"):
        assert word not in done.stderr
