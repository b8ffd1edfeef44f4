"""The commands, options, settings, targets, files and links named in the pages exist."""

import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess

import click
import pytest

from pipelines.cli.app import COMMANDS, app
from tests.docs.markdown import LANGUAGES, PAGES, REPOSITORY, blocks, sessions, shell_lines, spans

pytest.importorskip("tfx", reason="the pages speak of the components")


def test_each_block_has_a_language_or_a_note(subtests):
    for page in PAGES:
        with subtests.test(page=page):
            assert page.read_text().count("```") == 2 * len(list(blocks(page)))
            for block in blocks(page):
                assert block.language in LANGUAGES, block.place
                assert re.fullmatch(r"(not run|output): \w.*|", block.note), block.place
                if block.language == "python":
                    compile(block.text, block.place, "exec")
                if block.language == "Dockerfile":
                    assert all(
                        re.match(r"(FROM|RUN|COPY|ENV) \S", s) for s in shell_lines(block.text)
                    )


def check_command(words):
    """Assert that a command and its options exist."""
    assert words[0] in COMMANDS, words
    command = app.get_command(click.Context(app), words[0])
    context = click.Context(command, info_name=words[0])
    command.make_parser(context).parse_args([word for word in words[1:] if word != "…"])


def test_each_command_in_a_sentence_exists(subtests):
    for page in PAGES:
        with subtests.test(page=page):
            for span in spans(page):
                if span.startswith("tfx-shards ") and "…" not in span.split()[1]:
                    check_command(shlex.split(span)[1:])
                if re.fullmatch(r"--[a-z-]+( [A-Z]+)?", span) and page.name == "cli.md":
                    options = {option for name in COMMANDS for option in options_of(name)}
                    assert span.split()[0] in options | {"--help"}, span


def test_named_container_images_have_the_current_version():
    version = re.search(r'^version = "(.*)"', (REPOSITORY / "pyproject.toml").read_text(), re.M)[1]
    sources = [*PAGES, REPOSITORY / "Dockerfile", *REPOSITORY.glob("pipelines/cli/*.py")]
    named = {
        (path.name, tag)
        for path in sources
        for tag in re.findall(r"\btfx-shards:(\d[\w.]*)", path.read_text())
    }
    assert named
    assert {tag for _, tag in named} == {version}, named


def options_of(name):
    command = app.get_command(click.Context(app), name)
    parameters = command.get_params(click.Context(command))
    return {option for parameter in parameters for option in parameter.opts}


def test_each_example_of_the_help_is_a_command(subtests):
    for name in COMMANDS:
        with subtests.test(name=name):
            command = app.get_command(click.Context(app), name)
            text = command.help.replace("\\\n", " ")
            examples = re.findall(r"^\s*tfx-shards .*", text, re.MULTILINE)
            assert examples, name
            for example in examples:
                check_command(shlex.split(example.split(" | ")[0], comments=True)[1:])


def test_make_targets_scripts_and_links_exist(subtests):
    for page in PAGES:
        with subtests.test(page=page):
            targets = set(
                re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
            )
            for span in spans(page):
                if match := re.fullmatch(r"make ([a-z-]+)( [A-Z]+=.*)?", span):
                    assert match[1] in targets, span
                if match := re.fullmatch(
                    r"(?:python )?((benchmarks|pipelines|tests|trainer_utils)/\S+)", span
                ):
                    assert (REPOSITORY / match[1]).exists(), span
            text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
            for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)", text):
                linked = page.parent / target if target else page
                assert linked.exists(), target
                if linked.suffix != ".md":
                    continue
                headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE)
                anchors = {
                    "#" + re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings
                }
                assert not anchor or anchor in anchors, anchor


def test_consoles_that_are_not_run_have_valid_options():
    for page in PAGES:
        for block in blocks(page):
            if not block.is_run and block.language in ("sh", "console"):
                commands = [command for command, _ in sessions(block.text)] or shell_lines(
                    block.text
                )
                for command in commands:
                    program, *arguments = shlex.split(command, comments=True)
                    if program == "tfx-shards":
                        check_command(arguments)


def test_make_has_the_targets_of_blocks(subtests):
    for page in PAGES:
        with subtests.test(page=page):
            for block in blocks(page):
                lines = shell_lines(block.text) if block.language == "sh" else ()
                if block.language == "console":
                    lines = [command for command, _ in sessions(block.text)]
                for line in lines:
                    words = shlex.split(line, comments=True)
                    if words[0] == "make":
                        command = ["make", "--dry-run", "--question", *words[1:]]
                        done = subprocess.run(
                            command, cwd=REPOSITORY, capture_output=True, check=False
                        )
                        assert done.returncode in (0, 1), done.stderr


def packages():
    """Return all our packages with lazily imported names."""
    for room in ("components", "pipelines", "trainer_utils"):
        for path in sorted((REPOSITORY / room).rglob("__init__.py")):
            if "def __getattr__(" in path.read_text():
                yield ".".join(path.parent.relative_to(REPOSITORY).parts)


def test_no_lazy_name_is_shadowed_by_a_module():
    """Check names: importing a submodule sets it in its package, which bypasses `__getattr__`."""
    for package in packages():
        module = importlib.import_module(package)
        modules = {found.name for found in pkgutil.iter_modules(module.__path__)}
        both = {*module.__all__} & modules
        assert [name for name in both if not inspect.ismodule(getattr(module, name))] == []
