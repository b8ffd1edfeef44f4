"""Entry points of installed distributions; the standard library gives the expected ones."""

import sys
from importlib import metadata

import pytest

from tests.make import write_files
from trainer_utils.core.extras import entry_points


def install(folder, name, points):
    files = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"}
    write_files(folder / f"{name}-1.0.dist-info", {**files, "entry_points.txt": points})


def expected(group):
    return sorted(metadata.entry_points(group=group))


@pytest.mark.parametrize("group", ["console_scripts", "pytest11", "tfx_shards.raw_inputs", "no"])
def test_entry_points_equal_the_standard_library(group):
    assert sorted(entry_points(group)) == expected(group)


def test_hidden_distribution_has_no_entry_points(tmp_path, monkeypatch):
    install(tmp_path / "first", "mine", "[tests.group]\nnew = mine:new\n")
    install(tmp_path / "second", "mine", "[tests.group]\nold = mine:old\n")
    install(tmp_path / "first", "other", "[tests.groups]\na = a\n")
    install(tmp_path / "second", "other", "[tests.group]\nb = b\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second")])
    points = entry_points("tests.group")
    assert [point.value for point in points] == ["mine:new"]
    assert points == expected("tests.group")
