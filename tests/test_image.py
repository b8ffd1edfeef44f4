"""What can be said of the Dockerfile without building it."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
STAGES = {
    re.split(r"\s+", text.strip(), maxsplit=3)[2]: text
    for text in re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
}


def test_both_images_end_as_a_user_that_is_not_root():
    for target in ("trainer", "pipelines"):
        assert re.findall(r"^USER (.*)$", STAGES[target], re.MULTILINE) == ["1000:0"]
    assert list(STAGES)[-1] == "pipelines"  # what a build without a target makes


def test_every_package_comes_from_a_lock_with_hashes():
    for command in re.findall(r"pip install[^&\n]*", DOCKERFILE):
        assert "--require-hashes" in command or "--no-index" in command, command
    for lock in ("requirements-image.lock", "requirements-trainer.lock"):
        text = (REPOSITORY / lock).read_text()
        pins = re.findall(r"^[a-z][\w.-]*(?:\[[\w,-]+\])?==\S+ \\\n\s+--hash=", text, re.MULTILINE)
        assert len(pins) == len(re.findall(r"^[a-z]", text, re.MULTILINE)) > 50


def test_the_trainers_have_the_same_releases_and_no_tfx():
    def pins(lock: str) -> dict[str, str]:
        text = (REPOSITORY / lock).read_text()
        return dict(re.findall(r"^([a-z][\w.-]*)(?:\[[\w,-]+\])?==(\S+)", text, re.MULTILINE))

    everything, trainers = pins("requirements-image.lock"), pins("requirements-trainer.lock")
    for name in set(everything) & set(trainers):
        assert trainers[name] == everything[name]
    alone = set(trainers) - set(everything)
    assert {name for name in alone if not name.startswith("nvidia-")} == set()
    assert "nvidia-cudnn-cu12" in trainers
    assert not {"tfx", "apache-beam", "tensorflow-data-validation"} & set(trainers)


def test_no_notebooks_and_no_test_tools_are_in_an_image():
    for lock in ("requirements-image.lock", "requirements-trainer.lock"):
        names = set(re.findall(r"^([a-z][\w.-]*)", (REPOSITORY / lock).read_text(), re.MULTILINE))
        assert not names & {"ipython", "ipywidgets", "notebook"}
        assert not names & {"datum", "mypy", "pytest", "ruff", "twine"}


def test_the_base_is_pinned_by_digest():
    assert re.findall(r"^ARG BASE.*$", DOCKERFILE, re.MULTILINE) == [
        "ARG BASE"
    ]  # no tag as a default
    assert "RepoDigests" in (REPOSITORY / "scripts/build_images").read_text()


def test_a_change_of_the_code_leaves_the_layers_of_packages_as_they_are():
    for stage in ("trainer-packages", "packages"):
        assert "COPY --from=wheel" not in STAGES[stage]
        assert "trainer_utils" not in STAGES[stage]


def test_what_is_copied_is_there_and_not_ignored():
    allowed = set(re.findall(r"^!(\S+)", (REPOSITORY / ".dockerignore").read_text(), re.MULTILINE))
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (REPOSITORY / name).exists()
        assert name in allowed
