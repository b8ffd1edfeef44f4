"""The command line in processes of its own: what it imports, pipes, completion."""

import json
import os
import subprocess
import sys

import pytest

from tests.docs.markdown import REPOSITORY

HEAVY = ("tensorflow", "tfx", "apache_beam", "keras", "ml_metadata")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["convert", "--help"],
        ["inspect", "DATASET"],
        ["show", "DATASET"],
        ["verify", "DATASET"],
        ["diff", "DATASET", "DATASET"],
        ["audit", "DATASET"],
        ["plan", "DATASET", "--batch-size", "4"],
        ["doctor", "DATASET"],
    ],
    ids=" ".join,
)
def test_what_needs_no_tensorflow_does_not_import_it(whole_dataset, run_cli, tmp_path, arguments):
    program = (
        "import sys\nfrom pipelines.cli import app\n"
        "try:\n    app.main(sys.argv[1:])\nexcept SystemExit as end:\n"
        f"    found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    print(found, file=sys.stderr)\n    raise\n"
    )
    arguments = [str(whole_dataset) if a == "DATASET" else a for a in arguments]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.stderr == "[]\n"
    assert done.returncode == 0


def test_nothing_that_takes_long_is_imported_before_ctrl_c_is_taken_over():
    program = (
        "import sys, pipelines.cli\nprint({'numpy', 'trainer_utils', 'rich'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"set()\n"


def test_recognising_an_input_needs_no_tensorflow():
    pytest.importorskip("tfx", reason="components needs TFX")
    imports = "import sys, pipelines.tools.conversion.recognition"
    program = f"{imports}\nprint([n for n in {HEAVY[:3]} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


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
@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_streams_that_a_daemon_closed_are_no_error(whole_dataset, command, closed):
    line = f'"{sys.executable}" -m pipelines.cli {command} "{whole_dataset}" {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("25" in done.stdout or "good" in done.stdout) == (not closed.startswith(">"))


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


@pytest.mark.parametrize(
    "command",
    ["inspect", "verify", "doctor", "show", "report", "browse", "lineage", "plan --batch-size 4"],
)
def test_what_reads_a_dataset_needs_the_bare_install_alone(whole_dataset, tmp_path, command):
    extras = "apache_beam components kfp ml_metadata obstore pyarrow scipy soundfile tfx tqdm"
    program = (
        f"import http.server, sys\nfor name in {[*extras.split(), 'tensorflow_metadata']!r}:\n"
        "    sys.modules[name] = None\n"
        "http.server.ThreadingHTTPServer.serve_forever = lambda self: None\n"
        "from pipelines.cli import app\napp.main(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command.split(), str(whole_dataset)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr


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
