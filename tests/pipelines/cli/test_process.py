"""The command line in processes of its own: what it imports and prints, pipes, completion."""

import json
import os
import subprocess
import sys

import pytest

from tests.docs.markdown import REPOSITORY
from tests.terminals import on_a_terminal

HEAVY = ("tensorflow", "tfx", "apache_beam", "keras", "ml_metadata")
READING = """
inspect|verify|doctor|show|diff DATASET|audit|report|browse|lineage|plan --batch-size 4
"""
BARE = """
import http.server, sys
extras = "apache_beam kfp ml_metadata obstore pyarrow scipy soundfile tfx tqdm"
for name in [*extras.split(), "tensorflow_metadata"]:
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
def test_what_reads_a_dataset_needs_the_bare_install_alone(whole_dataset, tmp_path, is_bare):
    dataset = tmp_path / "dataset"  # without blanks in its name
    dataset.symlink_to(whole_dataset)
    commands = [f"{words} DATASET" for words in READING.strip().split("|")] if is_bare else []
    commands = [words.replace("DATASET", str(dataset)) for words in commands]
    program = (BARE if is_bare else "") + EACH % (HEAVY,)
    done = subprocess.run(
        [sys.executable, "-c", program, "--help", "convert --help", *commands],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    assert ("--quality" in done.stdout) != is_bare


def test_nothing_that_takes_long_is_imported_before_ctrl_c_is_taken_over():
    program = (
        "import sys, pipelines.cli\nprint({'numpy', 'trainer_utils', 'rich'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"set()\n"


def test_completion_lists_commands_and_options(run_cli, tmp_path):
    done = run_cli(
        cwd=tmp_path,
        _TFX_SHARDS_COMPLETE="bash_complete",
        COMP_WORDS="tfx-shards ve",
        COMP_CWORD="1",
    )
    assert done.stdout == "plain,verify\n"
    done = run_cli(
        cwd=tmp_path,
        _TFX_SHARDS_COMPLETE="bash_complete",
        COMP_WORDS="tfx-shards plan --wo",
        COMP_CWORD="2",
    )
    assert done.stdout == "plain,--workers\n"
    assert (
        "_TFX_SHARDS_COMPLETE=bash_complete"
        in run_cli(cwd=tmp_path, _TFX_SHARDS_COMPLETE="bash_source").stdout
    )


def test_a_reader_that_goes_away_is_no_error(whole_dataset):
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "inspect", str(whole_dataset)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_a_daemon_closed_are_no_error(whole_dataset, closed):
    line = f'"{sys.executable}" -m pipelines.cli verify "{whole_dataset}" {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("good" in done.stdout) == (not closed.startswith(">"))


def test_a_pipe_gets_no_colours_and_any_name_can_be_shown(run_cli, dataset, tmp_path):
    strange = dataset.rename(tmp_path / os.fsdecode(b"caf\xe9 \xc3\xa9"))
    done = run_cli("doctor", str(strange), cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    done = run_cli("inspect", str(strange), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["splits"]["eval"]["records"] == 5


@pytest.mark.parametrize(
    "options",
    [["plan", "--batch-size", "4"], ["bench", "--features", "label", "--seconds", "0.1"]],
    ids=["plan", "bench"],
)
def test_logs_of_tensorflow_stay_off_the_terminal(run_cli, whole_dataset, tmp_path, options):
    done = run_cli(*options, str(whole_dataset), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_warnings_of_ours_are_shown_without_a_log():
    program = """
from absl import logging
import components.report.inspection
from pipelines.cli import main

exec(compile("def ours(): logging.warning('of ours')", "/x/components/a.py", "exec"))

def inspect_dataset(uri):
    logging.warning("of others")
    ours()
    raise OSError(5, "the end")

components.report.inspection.inspect_dataset = inspect_dataset
main(["inspect", "data"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines() == ["Warning: of ours", "Error: the end"]
    assert done.returncode == 1


PROGRESS = """
import sys, time
from pipelines.cli import terminal
from trainer_utils import step_display
step_display.PATIENCE_SECONDS = {patience}
terminal._LINE_SECONDS = {line}
with terminal.show_progress("Verifying") as advance:
    for _ in range(4):
        advance(25, 100)
    while {patience} == 0 and sys.stderr.isatty() and step_display._progress is None:
        time.sleep(0.01)
print("done")
"""


@pytest.mark.parametrize(("patience", "is_shown"), [(0, True), (60, False)])
def test_long_work_has_a_bar_on_a_terminal(patience, is_shown):
    program = PROGRESS.format(patience=patience, line=60)
    status, printed = on_a_terminal(sys.executable, "-c", program)
    assert status == 0
    assert ("Verifying" in printed) == is_shown
    assert ("100%" in printed) == is_shown
    assert printed.rstrip().endswith("done")


@pytest.mark.parametrize(("line", "shares"), [(60, ()), (0, (25, 50, 75, 100))])
def test_a_pipe_gets_no_bar_but_a_plain_line_now_and_then(line, shares):
    program = PROGRESS.format(patience=0, line=line)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    said = "".join(f"Verifying: {share}% after 0 s\n" for share in shares)
    assert (done.stdout, done.stderr.decode()) == (b"done\n", said)


def test_tables_are_painted_on_a_terminal_and_plain_in_a_pipe(whole_dataset):
    command = [sys.executable, "-m", "pipelines.cli", "doctor", str(whole_dataset)]
    status, painted = on_a_terminal(*command)
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert status == 0
    assert "\x1b[32mok" in painted
    assert "\x1b" not in piped
    assert "ok    manifest" in piped
    assert [line for line in piped.splitlines() if line.endswith(" ")] == []
