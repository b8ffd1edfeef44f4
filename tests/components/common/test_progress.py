"""What is shown while shards are written."""

import json
import sys
import time

import pytest
from absl import logging

from components.common import progress
from components.common.progress import Work, show_progress
from components.common.summaries import start_working, working_folder, write_summary
from tests.terminals import on_a_terminal

WORK = {"train-00000": Work(30, 3_000_000), "train-00001": Work(70, 7_000_000)}


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(progress, "_POLL_SECONDS", {False: 0.01, True: 0.01})


def write_half(uri) -> None:
    start_working(str(uri))
    write_summary(working_folder(str(uri)), "train-00000", json.loads("{}"))
    time.sleep(0.6)


def test_a_line_is_logged_where_there_is_no_terminal(tmp_path, monkeypatch, our_messages):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.05)
    logging.set_verbosity(logging.INFO)
    with show_progress(str(tmp_path), WORK, unit="images"):
        write_half(tmp_path)
    lines = our_messages()
    assert any(line.startswith("30 of 100 images, ") and "time left" in line for line in lines)


def test_a_bar_is_drawn_on_a_terminal(tmp_path):
    program = f"""
import sys, time
from tests.components.common.test_progress import WORK, progress, show_progress, write_half
from trainer_utils import step_display
step_display.PATIENCE_SECONDS = 0
progress._POLL_SECONDS = {{False: 0.01, True: 0.01}}
with show_progress({str(tmp_path)!r}, WORK, unit="images"):
    while step_display._progress is None:
        time.sleep(0.01)
    write_half({str(tmp_path)!r})
"""
    status, drawn = on_a_terminal(sys.executable, "-c", program)
    assert status == 0, drawn
    assert "Images" in drawn
    assert "30%" in drawn
    assert "30/100" in drawn
    assert "MB/s" in drawn


def test_an_error_inside_is_not_held_back(tmp_path):
    with pytest.raises(KeyError, match="inside"), show_progress(str(tmp_path), WORK, unit="x"):
        raise KeyError("inside")
