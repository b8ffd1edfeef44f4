"""tf.data service: a real dispatcher and two worker processes."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import tensorflow as tf

from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature
from trainer_utils.reading import data_service

WORKER = """
import sys, tensorflow as tf
config = tf.data.experimental.service.WorkerConfig(
    dispatcher_address=sys.argv[1], port=int(sys.argv[2])
)
worker = tf.data.experimental.service.WorkerServer(config)
print("ready", flush=True)
sys.stdin.read()  # until the test ends
"""


@contextlib.contextmanager
def worker_of(address: str, port: int = 0) -> Iterator[subprocess.Popen]:
    """A worker of a dispatcher; port 0: any that is free."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, address, str(port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as worker:  # fmt: skip
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            yield worker
        finally:
            worker.kill()


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    with worker_of(address), worker_of(address):
        yield dispatcher.target


@pytest.fixture(scope="module")
def uri(tmp_path_factory, write_dataset) -> str:
    shards = [[{"id": [n]} for n in range(start, start + 20)] for start in range(0, 200, 20)]
    return write_dataset(
        tmp_path_factory.mktemp("served"), {"train": shards}, {"id": Feature(type="int")}
    )


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", [True, False])
def test_two_workers_read_every_record_once_an_epoch(service, uri, shuffle):
    dataset = input_fn(uri, features="id", batch_size=8, shuffle=shuffle, data_service=service)
    for _ in range(2):
        batches = [batch.tolist() for batch in dataset.as_numpy_iterator()]
        assert sorted(n for batch in batches for n in batch) == list(range(200))
        assert max(map(len, batches)) == 8


@pytest.mark.slow
def test_epochs_are_repeated_and_hooks_run(service, uri):
    dataset = input_fn(
        uri, features="id", batch_size=8, data_service=service, repeat=2,
        post_batching_callback=lambda batch: {"id": -batch["id"]},
    )  # fmt: skip
    read = [n for batch in dataset.as_numpy_iterator() for n in batch.tolist()]
    assert sorted(read) == sorted([*range(-199, 1)] * 2)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("remainder", "pad"), ("start_step", 3), ("shuffle", "global"), ("on_corrupt", "skip")],
)
def test_what_a_service_cannot_keep_is_refused(uri, setting, value):
    with pytest.raises(ConfigError, match=f"^{setting}: expected"):
        input_fn(uri, data_service="grpc://localhost:1", **{setting: value})


def test_a_service_that_is_not_there_is_named_within_seconds(uri, monkeypatch):
    """TensorFlow's own call goes on trying for minutes."""
    monkeypatch.setattr(data_service, "_WAIT_SECONDS", 0.6)
    with socket.socket() as free:
        free.bind(("localhost", 0))  # nobody listens there
        address = f"grpc://localhost:{free.getsockname()[1]}"
        with pytest.raises(ConfigError, match=rf"data_service: .* listens at '{address}'") as found:
            input_fn(uri, data_service=address)
    assert (found.value.setting, found.value.value) == ("data_service", address)


@pytest.mark.slow
def test_an_epoch_without_the_records_of_a_lost_worker_ends_with_an_error(tmp_path, write_dataset):
    """The service itself ends it as if it were whole."""
    shards = [[{"id": [n]} for n in range(start, start + 400)] for start in range(0, 4000, 400)]
    uri = write_dataset(tmp_path, {"train": shards}, {"id": Feature(type="int")})
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    dataset = input_fn(uri, features="id", batch_size=8, data_service=dispatcher.target)
    with contextlib.ExitStack() as stack:
        with worker_of(address, port):
            batches = iter(dataset)
            assert len(next(batches)) == 8
        stack.enter_context(worker_of(address, port))
        with pytest.raises(tf.errors.InvalidArgumentError, match="a worker was lost"):
            list(batches)
        again = [n for batch in dataset.as_numpy_iterator() for n in batch.tolist()]
        assert sorted(again) == list(range(4000))
