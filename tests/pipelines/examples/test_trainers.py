"""The trainer modules in a container with `trainer_utils` but without TFX."""

import json

import pytest

from tests.make import run_python

RUN = """
import sys, types
for name in ("tfx", "components", "apache_beam", "ml_metadata", "pyarrow"):
    sys.modules[name] = None
import numpy as np
from tensorflow.python.autograph.core import config
import trainer_utils
from pipelines.examples import MODULE as module

# AutoGraph leaves keras alone, but converts tf_keras: three quarters of a short training.
config.CONVERSION_RULES += (config.DoNotConvert("tf_keras"),)
uri, records, is_image = sys.argv[1] + "/dataset", 16, "MODULE" == "image_trainer"
with trainer_utils.DatasetWriter(uri, vocabulary=["a", "b"]) as writer:
    for number in range(records + 1):
        value = np.full((20, 20, 3), number, np.uint8) if is_image else f"text {number}"
        example = {"label": "ab"[number % 2], "image" if is_image else "text": value}
        writer.write("train" if number < records else "eval", example)
module.run_fn(types.SimpleNamespace(
    train_files=[uri], eval_files=[uri], train_steps=None,
    custom_config={"epochs": 1, "batch_size": 8, **({"image_size": 32} if is_image else {})},
    serving_model_dir=sys.argv[1] + "/model", model_run_dir=sys.argv[1] + "/run",
))
"""


@pytest.mark.parametrize("module", ["image_trainer", "text_trainer"])
def test_training_without_tfx_and_with_few_eval_records(module, tmp_path):
    # Convolutions of oneDNN fail for empty batches on some processors: docs/workers.md.
    done = run_python(RUN.replace("MODULE", module), tmp_path, TF_ENABLE_ONEDNN_OPTS="0")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert (metrics["replicas"], metrics["num_classes"]) == (2, 2)
    assert metrics["eval_accuracy"] in (0, 1)
    assert (tmp_path / "model/saved_model.pb").is_file()
