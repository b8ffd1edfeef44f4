"""`StepTimer` with simulated clocks, and in Keras 3 and tf-keras."""

import time

import pytest
import tensorflow as tf

from trainer_utils import ConfigError
from trainer_utils.frameworks.read_timer import ReadTime, add_read_timer
from trainer_utils.monitoring import StepTimer, step_timer


class Trainer:
    """A trainer that calls a timer like Keras, with a simulated clock."""

    def __init__(self, monkeypatch, *, busy: float = 0.5, is_timed: bool = True, **options):
        self.seconds = self.waited = self.batches = self.cpu = 0.0
        self.busy, self.is_timed = busy, is_timed
        self.timer = StepTimer(**options)
        monkeypatch.setattr(step_timer, "perf_counter", lambda: self.seconds)
        monkeypatch.setattr(step_timer, "cpu_seconds", lambda: self.cpu)
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


def test_the_share_is_the_part_of_a_step_spent_waiting(monkeypatch):
    trainer = Trainer(monkeypatch, threshold=0.5, every=10)
    trainer.epoch(23, compute=0.75, wait=0.25)
    assert trainer.timer.shares == [0.25, 0.25]  # 3 to warm up, then twice 10
    logs = trainer.epoch(10, compute=0.25, wait=0.25)
    assert trainer.timer.shares == [0.25, 0.25, 0.5]
    assert logs == {"input_wait": 0.5}


@pytest.mark.parametrize(("busy", "setting"), [(0.9, "resize_shorter_side"), (0.3, "cache=")])
def test_a_warning_comes_once_with_the_setting_to_change(monkeypatch, busy, setting):
    trainer = Trainer(monkeypatch, every=10, busy=busy)
    with pytest.warns(UserWarning, match=r"20% of the time of steps 4 to 13 ") as caught:
        trainer.epoch(33, compute=0.8, wait=0.2)
    assert len(caught) == 1
    assert setting in str(caught[0].message)
    assert f"{busy:.0%} busy" in str(caught[0].message)


def test_a_dataset_without_a_read_timer_gets_a_warning(monkeypatch):
    trainer = Trainer(monkeypatch, every=10, is_timed=False)
    with pytest.warns(UserWarning, match=r"cannot measure .*add_read_timer\(dataset\)"):
        trainer.epoch(33, compute=1, wait=1)


def test_invalid_settings_are_refused(subtests):
    for setting, value in (("threshold", 1), ("threshold", -1), ("every", 0)):
        with subtests.test(setting=setting):
            with pytest.raises(ConfigError) as caught:
                StepTimer(**{setting: value})
            assert (caught.value.setting, caught.value.value) == (setting, value)


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_it_measures_in_fit(package):
    keras = pytest.importorskip(package)

    def slow(x):
        time.sleep(0.02)
        return x

    data = tf.data.Dataset.range(12).map(
        lambda n: tf.ensure_shape(tf.numpy_function(slow, [n], tf.int64), ())
    )
    data = data.map(lambda n: (tf.cast([n], tf.float32), tf.cast([n], tf.float32))).batch(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    timer = StepTimer(every=4)
    with pytest.warns(UserWarning, match="was spent waiting for input") as caught:
        model.fit(add_read_timer(data), epochs=2, verbose=0, callbacks=[timer])
    assert sum("StepTimer" in str(told.message) for told in caught) == 1
    assert len(timer.shares) == 6  # of 9 steps and of 12: 4, 4, 1 and 4, 4, 4
    assert all(0 < share <= 1 for share in timer.shares)
