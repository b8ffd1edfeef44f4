"""`StepTimer` with clocks of our own, and in Keras 3 and tf-keras, in processes of their own."""

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

from trainer_utils import ConfigError
from trainer_utils.frameworks.read_timer import ReadTime
from trainer_utils.monitoring import StepTimer, step_timer

REPOSITORY = Path(__file__).parents[3]


class Trainer:
    """Calls a timer as Keras does, and tells it the time."""

    def __init__(self, monkeypatch, *, busy: float = 0.5, is_timed: bool = True, **options):
        self.seconds = self.waited = self.batches = self.cpu = 0.0
        self.busy, self.is_timed = busy, is_timed
        self.timer = StepTimer(**options)
        self.timer._clock = lambda: self.seconds
        self.timer._cpu = lambda: self.cpu
        monkeypatch.setattr(step_timer, "usable_cores", lambda: 4)
        monkeypatch.setattr(
            step_timer, "time_in_reads", lambda: ReadTime(self.batches, self.waited)
        )

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.cpu += seconds * 4 * self.busy

    def epoch(self, steps: int, *, compute: float, wait: float, validation: float = 0) -> dict:
        self.timer.on_epoch_begin(0)
        for step in range(steps):
            self.timer.on_train_batch_begin(step)
            self.advance(wait + compute)
            if self.is_timed:
                self.waited += wait
                self.batches += 1
            self.timer.on_train_batch_end(step)
        self.advance(validation)
        self.waited += validation
        logs: dict = {}
        self.timer.on_epoch_end(0, logs)
        return logs


def test_the_share_of_a_step_is_what_of_it_was_waiting(monkeypatch):
    trainer = Trainer(monkeypatch, threshold=0.5, every=10)
    trainer.epoch(23, compute=0.75, wait=0.25)
    assert trainer.timer.shares == [0.25, 0.25]  # 3 to warm up, then twice 10
    logs = trainer.epoch(10, compute=0.25, wait=0.25)
    assert trainer.timer.shares == [0.25, 0.25, 0.5]
    assert logs == {"input_wait": 0.5}


def test_what_lies_between_epochs_is_no_step(monkeypatch):
    trainer = Trainer(monkeypatch, every=5, threshold=0.9)
    trainer.epoch(13, compute=0.5, wait=0.0, validation=0.0)
    trainer.waited += 100
    trainer.seconds += 100
    trainer.epoch(5, compute=0.5, wait=0.5)
    assert trainer.timer.shares == [0, 0, 0.5]


@pytest.mark.parametrize(
    ("busy", "setting"), [(0.9, "resize_shorter_side"), (1.0, "encoding"), (0.3, "cache=")]
)
def test_a_warning_comes_once_with_the_setting_to_change(monkeypatch, busy, setting):
    trainer = Trainer(monkeypatch, every=10, busy=busy)
    with pytest.warns(UserWarning, match=r"20% of the time of steps 4 to 13 ") as caught:
        trainer.epoch(33, compute=0.8, wait=0.2)
    assert len(caught) == 1
    assert setting in str(caught[0].message)
    assert f"{busy:.0%} busy" in str(caught[0].message)


def test_waiting_of_no_more_than_the_threshold_is_not_warned_of(monkeypatch):
    trainer = Trainer(monkeypatch, every=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.epoch(33, compute=0.96, wait=0.04)
    assert trainer.timer.shares == pytest.approx([0.04] * 3)


def test_a_dataset_without_a_read_timer_gets_a_warning(monkeypatch):
    trainer = Trainer(monkeypatch, every=10, is_timed=False)
    with pytest.warns(UserWarning, match=r"cannot tell .*add_read_timer\(dataset\)"):
        trainer.epoch(33, compute=1, wait=1)


@pytest.mark.parametrize(("setting", "value"), [("threshold", 1), ("threshold", -1), ("every", 0)])
def test_settings_that_cannot_be_are_refused(setting, value):
    with pytest.raises(ConfigError, match=f"{setting}: expected .* got {value}"):
        StepTimer(**{setting: value})


FIT = textwrap.dedent("""
    import time, warnings
    import tensorflow as tf
    import trainer_utils
    from trainer_utils.frameworks.read_timer import add_read_timer
    {keras}

    def slow(x):
        time.sleep(0.05)
        return x

    data = tf.data.Dataset.range(12).map(
        lambda n: tf.ensure_shape(tf.numpy_function(slow, [n], tf.int64), ())
    )
    data = data.map(lambda n: (tf.cast([n], tf.float32), tf.cast([n], tf.float32))).batch(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    timer = trainer_utils.monitoring.StepTimer(every=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        history = model.fit(add_read_timer(data), epochs=2, verbose=0, callbacks=[timer])
    told = [str(w.message) for w in caught if "StepTimer" in str(w.message)]
    assert len(told) == 1 and "went into waiting for input" in told[0], told
    assert len(timer.shares) == 6, timer.shares  # of 9 steps and of 12: 4, 4, 1 and 4, 4, 4
    assert all(0 < share <= 1 for share in timer.shares), timer.shares
    print(type(model).__module__)
""")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("keras", "legacy", "package"),
    [
        ("import keras", "0", "keras"),
        ("keras = tf.keras", "1", "tf_keras"),
        ("import tf_keras as keras", "0", "tf_keras"),
    ],
    ids=["Keras 3", "tf-keras as tf.keras", "tf-keras beside Keras 3"],
)
def test_it_measures_in_fit(keras, legacy, package):
    pytest.importorskip(package)
    finished = subprocess.run(
        [sys.executable, "-c", FIT.format(keras=keras)],
        cwd=REPOSITORY,
        env={"PATH": "", "TF_USE_LEGACY_KERAS": legacy, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert finished.stdout.strip().startswith(f"{package}.")
