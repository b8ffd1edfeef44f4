"""The setup of an environment: the choice of a stack, pip's settings for uv, the locks."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
LOCKS = ("requirements-tfx.lock", "requirements-tfx116.lock")
# Answers the queries of scripts/choose_stack to a Python.
PYTHON = """#!/bin/sh
case $2 in
  *executable*) echo "$0" ;;
  *python_version*) echo {version}.9 ;;
  *"not in"*) case $2 in *{version}*) exit 0 ;; *) exit 1 ;; esac ;;
esac
"""


def write_command(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def choose(tmp_path):
    """Return a function that chooses a stack for a glibc version and the installed programs."""

    def run(glibc: str, *commands: str, machine: str = "x86_64", **environment: str):
        folder = tmp_path / "bin"
        folder.mkdir()
        write_command(folder / "getconf", f"#!/bin/sh\necho glibc {glibc}\n")
        write_command(folder / "uname", f"#!/bin/sh\necho {machine}\n")
        write_command(folder / "pyenv", "#!/bin/sh\nexit 1\n")
        for name in ("awk", "bash", "env", "grep", "head", "sort", "tail"):
            (folder / name).symlink_to(Path("/usr/bin") / name)
        for name in commands:
            version = name.removeprefix("python")
            text = PYTHON.format(version=version) if version != name else "#!/bin/sh\n"
            write_command(folder / name, text)
        return subprocess.run(
            [REPOSITORY / "scripts/choose_stack"],
            env={"PATH": str(folder), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("glibc", "commands", "stack", "stack_chosen", "python"),
    [
        # the newest Python with a new glibc; otherwise the Python of TFX 1.16
        ("2.41", ["python3.10", "python3.12"], "", "tfx", "python3.12"),
        ("2.37", ["python3.10", "python3.12"], "", "tfx116", "python3.10"),
        ("2.4", ["python3.10"], "", "tfx116", "python3.10"),
        # STACK takes precedence
        ("2.41", ["python3.10", "python3.12"], "tfx116", "tfx116", "python3.10"),
        ("2.41", ["python3.10"], "tfx", "tfx", "python3.10"),
        # uv installs a Python if there is no suitable one
        ("2.41", ["uv", "python3.9"], "", "tfx", "uv:3.13"),
    ],
)
def test_stack_depends_on_glibc_and_the_request(
    choose, glibc, commands, stack, stack_chosen, python
):
    finished = choose(glibc, *commands, STACK=stack)
    assert finished.returncode == 0, finished.stderr
    chosen, path, why = finished.stdout.splitlines()
    assert (chosen, path.rpartition("/")[2]) == (stack_chosen, python)
    assert {"tfx": "TFX 1.21", "tfx116": "TFX 1.16"}[chosen] in why
    assert f"STACK={stack}" in why if stack else f"glibc {glibc}" in why


@pytest.mark.parametrize(
    ("glibc", "commands", "environment", "said"),
    [
        ("2.36", ["python3.12"], {}, "Python 3.10"),
        ("2.36", ["python3.10"], {"STACK": "tfx"}, "glibc 2.38"),
        ("2.41", ["python3.10"], {"STACK": "tfx121"}, "tfx116"),
    ],
)
def test_unavailable_stack_is_reported_in_one_line(choose, glibc, commands, environment, said):
    finished = choose(glibc, *commands, **environment)
    assert finished.returncode == 1
    (line,) = finished.stderr.splitlines()
    assert said in line


def test_uv_gets_the_settings_of_pip(tmp_path):
    (tmp_path / "wheels").mkdir()
    settings = {
        "PIP_INDEX_URL": "https://index.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://one.example/a https://two.example/b",
        "PIP_FIND_LINKS": f"{tmp_path / 'wheels'} {tmp_path / 'nowhere'}",
        "PIP_CERT": "/etc/some ca.pem",
        "PIP_CONFIG_FILE": os.devnull,
    }
    finished = subprocess.run(
        [sys.executable, REPOSITORY / "scripts/uv_settings.py"],
        env={"PATH": os.environ["PATH"], "UV_INSECURE_HOST": "kept", **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    exported = dict(word.split("=", 1) for word in shlex.split(finished.stdout) if "=" in word)
    assert exported == {
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "UV_INDEX": "https://one.example/a https://two.example/b",
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "SSL_CERT_FILE": "/etc/some ca.pem",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


@pytest.mark.parametrize(("lock", "tfx"), list(zip(LOCKS, ("1.21.0", "1.16.0"), strict=True)))
def test_locks_have_hashes_and_no_hosts(lock, tfx):
    text = (REPOSITORY / lock).read_text()
    pins = re.findall(r"^[a-z][\w.-]*(?:\[[\w,-]+\])?==[^\n]+ \\\n\s+--hash=", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z]", text, re.MULTILINE)) > 200
    assert "://" not in text
    assert {"pip", "setuptools", "uv", "wheel"} <= set(re.findall(r"^(\w+)==", text, re.MULTILINE))

    pins = re.findall(r"^(tfx|ml-metadata|datum)==([\w.]+)", text, re.MULTILINE)
    assert dict(pins) == {"tfx": tfx, "ml-metadata": tfx, "datum": "1.13.0"}
