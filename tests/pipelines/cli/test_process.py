"""The command line in separate processes: its imports and output, pipes, completion."""

import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from pipelines.cli.app import app
from tests.make import run_python
from tests.terminals import on_a_terminal

HEAVY = ("tensorflow", "tfx", "apache_beam", "keras", "ml_metadata")
READING = """
inspect|verify|doctor|show|diff DATASET|audit|report|browse|lineage|plan --batch-size 4
"""
BARE = """
import http.server, sys
for name in "apache_beam kfp ml_metadata obstore scipy tensorflow tfx tqdm".split():
    sys.modules[name] = None
http.server.ThreadingHTTPServer.serve_forever = lambda self: None
"""
EACH = """
import sys
from pipelines.cli import app
for words in sys.argv[1:]:
    try:
        app.main(words.split())
    except SystemExit as end:
        if end.code:
            sys.exit(f"{words}: {end.code}")
    found = [name for name in %r if sys.modules.get(name)]
    if found:
        sys.exit(f"{words}: {found}")
"""


@pytest.mark.parametrize("is_bare", [True, False])
def test_reading_a_dataset_needs_only_the_bare_install(whole_dataset, tmp_path, is_bare):
    dataset = tmp_path / "dataset"  # a name without spaces
    dataset.symlink_to(whole_dataset)
    commands = [f"{words} DATASET" for words in READING.strip().split("|")] if is_bare else []
    commands = [words.replace("DATASET", str(dataset)) for words in commands]
    program = (BARE if is_bare else "") + EACH % (HEAVY,)
    done = run_python(program, "--help", "convert --help", *commands, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    assert "--quality" in done.stdout


def test_completion_lists_commands_and_options():
    completion = BashComplete(app, {}, "tfx-shards", "_TFX_SHARDS_COMPLETE")
    assert [one.value for one in completion.get_completions([], "ve")] == ["verify"]
    assert [one.value for one in completion.get_completions(["plan"], "--wo")] == ["--workers"]


def test_closed_pipe_is_not_an_error(whole_dataset):
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "inspect", str(whole_dataset)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


PROGRESS = """
import sys, time
from pipelines.cli import terminal
from trainer_utils.core import step_display
step_display.PATIENCE_SECONDS = {patience}
terminal._LINE_SECONDS = {line}
with terminal.show_progress("Verifying") as advance:
    for _ in range(4):
        advance(25, 100)
    while {patience} == 0 and sys.stderr.isatty() and step_display._progress is None:
        time.sleep(0.01)
print("done")
"""


def test_long_work_shows_a_bar_on_a_terminal(subtests):
    for patience, is_shown in ((0, True), (60, False)):
        with subtests.test(patience=patience):
            program = PROGRESS.format(patience=patience, line=60)
            status, printed = on_a_terminal(sys.executable, "-c", program)
            assert status == 0
            assert ("Verifying" in printed) == ("100%" in printed) == is_shown
            assert printed.rstrip().endswith("done")
