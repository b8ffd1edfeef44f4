"""A package that hides components, pipelines or trainer_utils is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
CALLS = {
    "components": "import pipelines",
    "pipelines": "from trainer_utils.core.command_line import main; main()",
    "trainer_utils": "import components",
}


def run(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_module", [False, True], ids=["package", "module"])
def test_hidden_package_is_an_error_with_the_folder(tmp_path, name, is_module):
    hiding = tmp_path / (f"{name}.py" if is_module else name)
    if is_module:
        hiding.touch()
    else:
        hiding.mkdir()
        (hiding / "__init__.py").touch()
    finished = run(CALLS[name], tmp_path, REPOSITORY)
    assert finished.returncode == 1
    message = finished.stderr.strip().splitlines()[-1]
    assert f"hides the package {name!r} of tfx-shards" in message
    assert "docs/package-names.md" in message
    if name != "trainer_utils":
        assert str(hiding) in message


@pytest.mark.parametrize("name", ["components", "pipelines"])
def test_reading_works_next_to_packages_of_the_same_names(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    finished = run("import trainer_utils; trainer_utils.iterate", tmp_path, REPOSITORY)
    assert finished.returncode == 0, finished.stderr


def test_folder_without_init_does_not_hide_a_package(tmp_path):
    (tmp_path / "components").mkdir()  # Python prefers the real package, wherever it is
    finished = run("import pipelines", tmp_path, REPOSITORY)
    assert finished.returncode == 0, finished.stderr


def test_blocked_package_is_no_error():
    finished = run("import sys; sys.modules['components'] = None; import pipelines", REPOSITORY)
    assert finished.returncode == 0, finished.stderr


def test_three_packages_declare_their_types():
    """Check the files that tell type checkers to read our annotations (PEP 561)."""
    names = ("components", "pipelines", "trainer_utils")
    assert all((REPOSITORY / name / "py.typed").exists() for name in names)
