"""Type checkers reject wrong keywords, and editors complete right ones, from `calls.py`."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("tfx", reason="components needs TFX")

ROOT = pathlib.Path(__file__).parents[2]
CALLS = pathlib.Path(__file__).parent / "calls.py"
BIN = pathlib.Path(sys.executable).parent
SETTINGS = {"pythonVersion": "3.10", "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}


@pytest.fixture
def pyright(tmp_path):
    """Return the prefix of Pyright's commands, of a wheel with its own Node.js; configure it."""
    pytest.importorskip("basedpyright", reason="make venv installs it")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    return str(BIN / "basedpyright")


def wrong_lines():
    lines = CALLS.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# error")]


@pytest.mark.slow
def test_mypy_reports_exactly_the_wrong_calls():
    command = [sys.executable, "-m", "mypy", "--config-file=pyproject.toml", str(CALLS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = re.findall(r"^tests/typing/calls\.py:(\d+): error", done.stdout, re.MULTILINE)
    assert sorted({int(line) for line in found}) == wrong_lines(), done.stdout + done.stderr


@pytest.mark.slow
def test_pyright_reports_exactly_the_wrong_calls(tmp_path, pyright):
    shutil.copy(CALLS, tmp_path)
    command = [pyright, f"--pythonpath={sys.executable}", "--outputjson", f"--project={tmp_path}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    reported = json.loads(done.stdout)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] + 1 for one in reported if one["severity"] == "error"}
    assert sorted(found) == wrong_lines(), reported


COMPLETED = {
    "trainer_utils.iterate('x', batc": "batch_size=",
    "trainer_utils.keras_dataset('x', remai": "remainder=",
    "pipelines.convert('x', 'y', num_sh": "num_shards=",
    "components.ImageExampleGen('x', resi": "resize_shorter_side=",
    "components.ShardBalancer(None, strat": "stratify_by=",
}


@pytest.mark.slow
def test_editors_complete_the_keywords(tmp_path, pyright):
    server = [f"{pyright}-langserver", "--stdio"]
    with subprocess.Popen(
        server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        try:
            initialize(process, tmp_path)
            offered = {call: completions(process, tmp_path, call) for call in COMPLETED}
        finally:
            process.kill()
    missing = [call for call, keyword in COMPLETED.items() if keyword not in offered[call]]
    assert not missing, offered


def initialize(process, folder):
    send(
        process,
        id=0,
        method="initialize",
        params={
            "processId": None,
            "capabilities": {"workspace": {"configuration": True}},
            "workspaceFolders": [{"uri": folder.as_uri(), "name": "root"}],
        },
    )
    answer(process, 0)
    send(process, method="initialized", params={})


def completions(process, folder, call):
    """Return what Pyright's language server offers at the end of a call, as an editor asks."""
    number = [*COMPLETED].index(call) + 1
    source = f"import components, pipelines, trainer_utils\n{call})\n"
    uri = (folder / f"call_{number}.py").as_uri()
    document = {"uri": uri, "languageId": "python", "version": 1, "text": source}
    send(process, method="textDocument/didOpen", params={"textDocument": document})
    where = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": len(call)}}
    send(process, id=number, method="textDocument/completion", params=where)
    return [item["label"] for item in answer(process, number)["result"]["items"]]


def send(process, **message):
    content = json.dumps({"jsonrpc": "2.0", **message}).encode()
    process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(content), content))
    process.stdin.flush()


def answer(process, number):
    """Return the answer to a request; answer the server's own requests meanwhile."""
    while True:
        length = 0
        while line := process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        message = json.loads(process.stdout.read(length))
        if message.get("id") == number and "method" not in message:
            return message
        if message.get("method") == "workspace/configuration":
            python = {"pythonPath": sys.executable}
            items = message["params"]["items"]
            result = [python if item.get("section") == "python" else {} for item in items]
            send(process, id=message["id"], result=result)
        elif "id" in message:
            send(process, id=message["id"], result=None)
