"""Every setting is a flag of `convert`, with the description of the setting as its help."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

import pipelines.tools.conversion.convert
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from pipelines.cli.app import app
from pipelines.cli.commands import convert
from pipelines.cli.sections import SECTIONS, first_sentence
from pipelines.cli.signatures import height_and_width, number_of_bytes
from tests.setting_values import FLAGS
from trainer_utils.core.settings import settings_of

SETTINGS = {
    "image": ImageSettings,
    "text": TextSettings,
    "audio": AudioSettings,
    "any": BalancerSettings,
}
OTHERS = {
    "splits": ("--splits train=0.8,eval=.2", {"train": 0.8, "eval": 0.2}),
    "beam_pipeline_args": ("--beam-arg=--runner=X --beam-arg --y=2", ["--runner=X", "--y=2"]),
    "vocabulary": ('--set vocabulary=\'{"a":["b"]}\'', {"a": ["b"]}),
    "layout": ("--set layout=csv", "csv"),
}


def test_each_setting_has_a_flag():
    declared = {name for settings in SETTINGS.values() for name in settings_of(settings)}
    params = convert.get_params(click.Context(convert))
    flags = {one.name for one in params if isinstance(one, click.Option) and "help" not in one.name}
    assert declared == {*FLAGS}
    others = {"kind", "splits", "others", "beam_args", "metadata", "dry_run", "as_json"}
    others |= {"update", "replace", "restart", "verify_output"}
    assert flags - {"verbose"} == declared | others


def test_each_setting_is_in_one_section_of_the_help():
    names = [name for section in SECTIONS.values() for names in section for name in names]
    assert sorted(names) == sorted(FLAGS)


@pytest.mark.parametrize(("flag", "most"), [("--help", 99), ("--help-all", 400)])
def test_help_of_convert_lists_each_flag_once(flag, most):
    result = CliRunner().invoke(app, ["convert", flag])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert len(lines) <= most
    titles = [line.removesuffix(":") for line in lines if line.endswith(":") and line[0] != " "]
    assert titles == ["Options", *SECTIONS]
    assert "Kubeflow" not in result.output
    params = convert.get_params(click.Context(convert))
    for option in (one for one in params if isinstance(one, click.Option)):
        listed = re.findall(rf"^  .*?(?<![\w-]){option.opts[0]}(?![\w-])", result.output, re.M)
        described = re.findall(rf"^  {option.opts[0]}(?![\w-])", result.output, re.M)
        assert listed, option.opts[0]
        assert len(described) <= 1, option.opts[0]


def test_full_help_is_in_the_words_of_the_command_line():
    text = " ".join(CliRunner().invoke(app, ["convert", "--help-all"]).output.split())
    assert "Wildcards are *, ? and […]." in text  # the whole description
    assert "outside SRC that hold" in text
    assert "closest to --target-shard-bytes." in text
    assert not re.search(r"input_base|target_shard_bytes|\bTrue\b|\bFalse\b|\{'", text)
    assert "Texts: encoding of the files, by its name in Python. Default: utf-8." in text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Seed of the hash. 64 bits.", "Seed of the hash."),
        ("Files such as *.json. Default: none.", "Files such as *.json."),
        ("Images: a column. Texts: a row.", "A column."),
        (f"A file of a dataset, {'long ' * 20}words.", "A file of a dataset."),
    ],
)
def test_help_shortens_long_descriptions(text, short):
    assert first_sentence(text) == short


def test_flag_value_equals_the_value_in_python(monkeypatch, subtests):
    taken = {}

    def prepare(source, **options):
        taken.update(options)
        raise click.Abort

    monkeypatch.setattr(pipelines.tools.conversion.convert, "prepare", prepare)
    for name, (words, value) in [*FLAGS.items(), *OTHERS.items()]:
        with subtests.test(name=name):
            taken.clear()
            CliRunner().invoke(app, ["convert", "photos", "out", *shlex.split(words)])
            assert taken == {"kind": None, "splits": None, "beam_pipeline_args": None, name: value}
            assert type(taken[name]) is type(value)


def test_bytes_and_sizes_accept_units(subtests):
    for text, number in (("7", 7), ("1 kB", 1000), ("128MiB", 1 << 27), ("1.5g", 3 << 29)):
        with subtests.test(text=text):
            assert number_of_bytes(text) == number
    assert height_and_width("224") == (224, 224)
    assert height_and_width("224X256") == (224, 256)
