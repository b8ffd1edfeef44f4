"""Every setting is a flag of `convert`, with the description of the setting as its help."""

import shlex

import click
import pytest

pytest.importorskip("tfx", reason="convert needs TFX")
from click.testing import CliRunner

import pipelines.tools.conversion.convert
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from pipelines.cli.app import app
from pipelines.cli.commands import convert
from pipelines.cli.signatures import height_and_width, number_of_bytes
from tests.setting_values import FLAGS
from trainer_utils.format.settings import settings_of

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


def test_flag_value_equals_the_value_in_python(monkeypatch):
    taken = {}

    def prepare(source, **options):
        taken.update(options)
        raise click.Abort

    monkeypatch.setattr(pipelines.tools.conversion.convert, "prepare", prepare)
    for name, (words, value) in [*FLAGS.items(), *OTHERS.items()]:
        taken.clear()
        CliRunner().invoke(app, ["convert", "photos", "out", *shlex.split(words)])
        assert taken == {"kind": None, "splits": None, "beam_pipeline_args": None, name: value}
        assert type(taken[name]) is type(value)


def test_bytes_and_sizes_accept_units():
    for text, number in (("7", 7), ("1 kB", 1000), ("128MiB", 1 << 27), ("1.5g", 3 << 29)):
        assert number_of_bytes(text) == number
    assert height_and_width("224") == (224, 224)
    assert height_and_width("224X256") == (224, 256)
