"""Releases and images, as far as a machine without docker and without a network can try them."""

import fnmatch
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from scripts.readme_commands import readme_commands

REPOSITORY = Path(__file__).parents[1]
TARGETS = {"pipelines", "trainer", "components"}
COPIES = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)

# In place of uv: installs a wheel with the dependencies of the running environment.
UV = """#!{python}
import pathlib, re, sys, zipfile

if sys.argv[1:3] == ["pip", "install"]:
    python = pathlib.Path(sys.argv[sys.argv.index("--python") + 1])
    wheel = re.sub(r"\\[.*", "", sys.argv[-1])
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "dependencies.pth").write_text({dependencies!r} + "\\n")
    script = python.parent / "tfx-shards"
    script.write_text(
        f"#!{{python}}\\nfrom trainer_utils.core.command_line import main\\nmain()\\n"
    )
    script.chmod(0o755)
elif sys.argv[1:3] == ["tool", "run"]:
    pathlib.Path(sys.argv[sys.argv.index("--output-file") + 1]).write_text("{{}}")
else:
    sys.exit(f"uv is called as {{sys.argv[1:]}}")
"""


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def in_build_context(path: str) -> bool:
    """Return whether .dockerignore keeps a file; the last pattern that matches it decides."""
    is_kept = True
    for line in (REPOSITORY / ".dockerignore").read_text().split():
        pattern = line.removeprefix("!")
        parts = path.split("/")
        parents = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        if any(fnmatch.fnmatch(parent, pattern.removeprefix("**/")) for parent in parents):
            is_kept = line.startswith("!")
    return is_kept


def copied_sources() -> list[str]:
    """List the sources that the Dockerfile copies from the repository."""
    text = (REPOSITORY / "Dockerfile").read_text()
    return [source for words in COPIES.findall(text) for source in words.split()]


def test_images_copy_files_of_the_build_context():
    sources = copied_sources()
    assert len(sources) >= 9
    assert [name for name in sources if not (REPOSITORY / name).exists()] == []
    assert [name for name in sources if not in_build_context(name)] == []


def test_build_context_has_the_packages_only():
    tracked = run("git", "ls-files", cwd=REPOSITORY).stdout.split()
    if not tracked:
        pytest.skip("no checkout of git")
    kept = {path.split("/")[0] for path in tracked if in_build_context(path)}
    assert kept == {source.rstrip("/") for source in copied_sources()}


def test_each_target_of_the_dockerfile_is_built_and_tried():
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.M)
    assert set(stages) >= TARGETS
    assert stages[-1] == "pipelines"  # `docker build .` without --target
    script = (REPOSITORY / "scripts/build_images").read_text()
    assert set(re.search(r"for target in (.*); do", script)[1].split()) == TARGETS
    workflow = (REPOSITORY / ".github/workflows/images.yml").read_text()
    named = re.search(r"for name in (.*); do", workflow)[1].split()
    assert set(named) == {"tfx-shards", "tfx-shards-trainer", "tfx-shards-components"}


def test_workflows_ask_for_steps_and_targets_that_exist():
    workflows = "".join(path.read_text() for path in (REPOSITORY / ".github/workflows").iterdir())
    steps = set(re.findall(r"^    (\w+)\) ", (REPOSITORY / ".ci/run").read_text(), re.M))
    steps |= set(re.findall(r"^    (\w+)\)$", (REPOSITORY / ".ci/run").read_text(), re.M))
    assert {"lint", "stores"} <= steps
    asked = re.findall(r"\.ci/run((?: \w+)+)", workflows)
    assert {step for words in asked for step in words.split()} == steps - {"other"}
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.M))
    assert set(re.findall(r"run: (?:.* && )?make ([a-z-]+)", workflows)) <= targets


def test_readme_has_commands_for_a_release_to_try():
    commands = readme_commands(REPOSITORY / "README.md")
    assert [command.split()[1] for command in commands][:1] == ["convert"]
    assert all(command.startswith("tfx-shards ") for command in commands)


@pytest.fixture
def checkout(tmp_path):
    """Clone the repository, add uncommitted files, and name a release in it."""
    clone = tmp_path / "clone"
    assert run("git", "clone", "--quiet", REPOSITORY, clone, cwd=tmp_path).returncode == 0
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=REPOSITORY
    ).stdout.split("\n")
    for name in filter(None, listed):
        if (REPOSITORY / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((REPOSITORY / name).read_bytes())
            (clone / name).chmod((REPOSITORY / name).stat().st_mode)
    for name, old, new in (
        ("pyproject.toml", r'^version = ".*"', 'version = "9.8.7"'),
        ("trainer_utils/__init__.py", r'^__version__ = ".*"', '__version__ = "9.8.7"'),
        ("CHANGELOG.md", r"^## \[Unreleased\]", "## [9.8.7] - 2026-01-02"),
    ):
        text = (clone / name).read_text()
        (clone / name).write_text(re.sub(old, new, text, count=1, flags=re.MULTILINE))
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    run("git", "add", "--all", cwd=clone)
    done = run("git", *identity, "commit", "--quiet", "--message", "Release", cwd=clone)
    assert done.returncode == 0, done.stderr
    return clone


@pytest.fixture
def programs(tmp_path):
    """Make the folder of an environment whose uv needs no network."""
    folder = tmp_path / "environment/bin"
    folder.mkdir(parents=True)
    (folder.parent / ".stack").write_text("tfx116\n")
    dependencies = sysconfig.get_path("purelib")
    (folder / "uv").write_text(UV.format(python=sys.executable, dependencies=dependencies))
    for name in ("python", "twine"):
        program = Path(sys.executable).parent / name
        (folder / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return folder


@pytest.mark.e2e
@pytest.mark.slow
def test_release_builds_tries_and_tags(checkout, programs):
    pytest.importorskip("build", reason="the extra dev builds releases")
    pytest.importorskip("twine", reason="the extra dev builds releases")
    git = {
        f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = run("scripts/release", programs, "9.8.7", cwd=checkout, PYTHONPATH="", **git)
    assert done.returncode == 0, done.stdout + done.stderr
    for command in readme_commands(checkout / "README.md"):
        assert f"  {command}\n" in done.stdout
    assert run("git", "tag", cwd=checkout).stdout.split()[-1] == "v9.8.7"
    (wheel,) = (checkout / "dist").glob("tfx_shards-9.8.7-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    packages = ("components", "pipelines", "trainer_utils")
    assert {f"{name}/py.typed" for name in packages} <= names
    assert {"components/report/page.html", "components/report/style.css"} <= names


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda clone: (clone / "more").touch(), "a tree without changes"),
        (lambda clone: run("git", "tag", "v9.8.7", cwd=clone), "the tag v9.8.7 exists"),
    ],
)
def test_release_refuses_changes_and_an_existing_tag(checkout, programs, change, said):
    change(checkout)
    done = run("scripts/release", programs, "9.8.7", cwd=checkout)
    assert done.returncode == 1
    assert said in done.stderr
