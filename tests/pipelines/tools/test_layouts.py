"""The command that describes layouts, and explains which one a source has."""

import json

import pytest
from click.testing import CliRunner

from components.layouts.registry import all_layouts
from pipelines.cli import app
from tests.make import jpeg, write_files
from trainer_utils.core.errors import ConfigError


def run(*arguments):
    done = CliRunner().invoke(app, ["layouts", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_all_layouts_are_described():
    printed = run()
    for layout in all_layouts():
        assert f"{layout.name} (" in printed
        assert layout.tree.splitlines()[0] in printed
    assert [one["name"] for one in json.loads(run("--json"))["layouts"]] == [
        layout.name for layout in all_layouts()
    ]


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        ({"cat/1.jpg": jpeg(1), "dog/2.jpg": jpeg(2)}, "folder"),
        ({"x/1.jpg": jpeg(1), "list.csv": "image,label\nx/1.jpg,a\n"}, "csv"),
        ({"train.txt": "a\nb\n", "test.txt": "c\n"}, "lines"),
    ],
)
def test_layout_of_a_source_is_explained(tmp_path, files, taken):
    facts = json.loads(run(str(write_files(tmp_path, files)), "--json"))
    assert facts["taken"] == taken
    matches = {one["name"]: one["matches"] for one in facts["layouts"]}
    assert matches[taken]
    assert all(one["reason"] for one in facts["layouts"])


def test_unknown_kind_is_refused():
    from pipelines.tools.layouts import describe_layouts

    with pytest.raises(ConfigError, match="kind"):
        describe_layouts(kind="video")
