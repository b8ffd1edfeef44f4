"""Logs of workers, as Kubernetes gives them: they break off, and come again from the start."""

import pytest

from components.kubeflow.worker_logs import WorkerLogs, parse_metrics

LINES = [f"2026-01-01T00:00:0{n}.000000000Z line {n}" for n in range(4)]


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("accuracy=0.93", {"accuracy": 0.93}),
        ("  val/loss=1e-2, top-5=.5\n", {"val/loss": 0.01, "top-5": 0.5}),
        ("steps=7 rate=-3.", {"steps": 7.0, "rate": -3.0}),
        ("loss=nan", {}),
        ("loss=1e999", {}),
        ("accuracy = 0.93", {}),
        ("epoch 3: accuracy=0.93", {}),
        ("batch_size=", {}),
        ("", {}),
    ],
)
def test_metrics_are_lines_of_nothing_else(line, metrics):
    assert parse_metrics(line) == metrics


def test_each_line_comes_once_though_the_connection_breaks(tmp_path):
    asked = []

    def read_lines(pod: str, *, since: str):
        asked.append((pod, since))
        for number, line in enumerate(LINES):
            if line.split()[0] > since:
                yield line
            if number == len(asked):  # one line more each time
                raise OSError("connection reset")

    logs = WorkerLogs(read_lines, str(tmp_path))
    for _ in range(6):
        logs.follow("p", worker=3, ended=True)
        logs.finish()
    assert (tmp_path / "worker-3.log").read_text() == "line 0\nline 1\nline 2\nline 3\n"
    assert [since.count("Z") for _, since in asked] == [0, 1, 1, 1]


def test_only_the_first_worker_gives_metrics(tmp_path):
    def read_lines(pod: str, *, since: str):
        yield f"2026-01-01T00:00:00.0Z score={pod}"

    logs = WorkerLogs(read_lines, str(tmp_path))
    logs.follow("10", worker=0, ended=True)
    logs.follow("20", worker=1, ended=True)
    logs.finish()
    assert logs.metrics == {"score": 10.0}
