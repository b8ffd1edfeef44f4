"""The trainer modules where a container has `trainer_utils` and no TFX."""

import json
import os
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


RUN = """
import sys, types
import numpy as np
import trainer_utils
from pipelines.examples import {module}

uri, records = sys.argv[1] + "/dataset", {records}
with trainer_utils.DatasetWriter(uri, vocabulary=["a", "b"]) as writer:
    for number in range(records + 1):
        value = np.full((20, 20, 3), number, np.uint8) if {image} else f"text {{number}}"
        example = {{"label": "ab"[number % 2], "image" if {image} else "text": value}}
        writer.write("train" if number < records else "eval", example)
{module}.run_fn(types.SimpleNamespace(
    train_files=[uri], eval_files=[uri], train_steps=None,
    custom_config={{"epochs": 1, "batch_size": 8, **({{"image_size": 32}} if {image} else {{}})}},
    serving_model_dir=sys.argv[1] + "/model", model_run_dir=sys.argv[1] + "/run",
))
"""


@pytest.mark.parametrize("module", ["image_trainer", "text_trainer"])
def test_replicas_may_be_more_than_records_to_evaluate(module, tmp_path):
    program = RUN.format(module=module, records=16, image=module == "image_trainer")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        # Its convolutions fail without any rows on some processors: docs/workers.md.
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert (metrics["replicas"], metrics["num_classes"]) == (2, 2)
    assert metrics["eval_accuracy"] in (0, 1)
