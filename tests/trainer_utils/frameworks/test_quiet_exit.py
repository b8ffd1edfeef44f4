"""A program that ends while batches are left prints nothing at exit."""

import textwrap

import pytest

from tests.make import run_python

READ = """
    import sys, trainer_utils
    batches = iter(trainer_utils.{read}(sys.argv[1], batch_size=8, processes={processes}))
    next(batches)
"""
FIT = """
    import keras, sys, trainer_utils
    train = trainer_utils.input_fn(sys.argv[1], batch_size=8, features="image", label="label")
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(5)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(train, verbose=0)
"""


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        (READ.format(read="iterate", processes=0), "numpy"),
        (READ.format(read="iterate", processes=2), "numpy"),
        (
            "import keras\n" + textwrap.dedent(READ.format(read="input_fn", processes=2)),
            "tensorflow",
        ),
        (FIT, "tensorflow"),
    ],
    ids=["iterate", "processes", "input_fn", "fit"],
)
def test_nothing_is_printed_at_exit(numbered, code, needs):
    pytest.importorskip(needs)
    done = run_python(textwrap.dedent(code), numbered, TF_CPP_MIN_LOG_LEVEL="1")
    assert done.returncode == 0, done.stderr
    noise = [line for line in done.stderr.splitlines() if "Exception" in line or "Error" in line]
    assert noise == []
