"""Every setting is a flag of `convert`, and its help says what the setting does."""

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
from pipelines.cli.flags import height_and_width, number_of_bytes
from trainer_utils.format.settings import settings_of

SETTINGS = {
    "image": ImageSettings,
    "text": TextSettings,
    "audio": AudioSettings,
    "any": BalancerSettings,
}
FLAGS = {  # words of the command line, and what `prepare` gets for them
    "layout": ("--layout csv", "csv"),
    "columns": ("--column a=b=int --column c=label", {"a=b": "int", "c": "label"}),
    "image_roots": ("--image-root a,b --image-root c", ["a,b", "c"]),
    "tensors": ("--tensor a=int8[] --tensor b=float16[3,?]", {"a": "int8[]", "b": "float16[3,?]"}),
    "column_names": ("--columns 'text,\"a, b\"'", ["text", "a, b"]),
    "header": ("--no-header", False),
    "vocabulary": ("--vocabulary cat,dog", ["cat", "dog"]),
    "group_by": ("--group-by patient", "patient"),
    "stratify": ("--stratify", True),
    "seed": ("--seed -3", -3),
    "target_shard_bytes": ("--target-shard-bytes 1MiB", 1 << 20),
    "compression": ("--compression gzip", "gzip"),
    "max_reject_fraction": ("--max-reject-fraction 0", 0.0),
    "orientation": ("--orientation keep", "keep"),
    "frames": ("--frames reject", "reject"),
    "resize_shorter_side": ("--resize-shorter-side 256", 256),
    "quality": ("--quality 80", 80),
    "encoding": ("--encoding latin-1", "latin-1"),
    "verify": ("--verify decode", "decode"),
    "max_pixels": ("--max-pixels 1000", 1000),
    "feature_names": ("--feature-name a=b/c --feature-name c=d", {"a": "b/c", "c": "d"}),
    "base_dataset": ("--base-dataset out/1", "out/1"),
    "image_dir": ("--image-dir jpg", "jpg"),
    "csv_path": ("--csv-path lists/{split}.csv", "lists/{split}.csv"),
    "annotation_dir": ("--annotation-dir xml", "xml"),
    "label_dir": ("--label-dir maps", "maps"),
    "image_set_dir": ("--image-set-dir sets", "sets"),
    "label_list": ("--label-list labels.txt", "labels.txt"),
    "sample_rate": ("--sample-rate 16000", 16_000),
    "channels": ("--channels 1", 1),
    "delimiter": ("--delimiter ;", ";"),
    "lowercase": ("--lowercase", True),
    "normalize": ("--normalize NFC", "NFC"),
    "min_chars": ("--min-chars 2", 2),
    "max_chars": ("--max-chars 2", 2),
    "deduplicate": ("--deduplicate", True),
    "tokenizer": ("--tokenizer tokenizer.json", "tokenizer.json"),
    "keep_text": ("--no-keep-text", False),
    "num_shards": ("--num-shards train=8,eval=2", {"train": 8, "eval": 2}),
    "shard_multiple": ("--shard-multiple 4", 4),
    "shuffle": ("--no-shuffle", False),
    "balance": ("--balance bytes", "bytes"),
    "stratify_by": ("--stratify-by label", "label"),
    "memory_bytes": ("--memory-bytes 64MiB", 64 << 20),
    "exclude": ("--exclude bad.txt", "bad.txt"),
    "relabel": ("--relabel labels.csv", "labels.csv"),
    "where": ("--where height>3", "height>3"),
    "add": ("--add more/ --add a,b", ["more/", "a,b"]),
    "keep_shards": ("--keep-shards", True),
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
    others |= {"update"}
    assert flags - {"verbose"} == declared | others


def test_a_flag_gives_what_python_would(monkeypatch):
    taken = {}

    def prepare(source, **options):
        taken.update(options)
        raise click.Abort

    monkeypatch.setattr(pipelines.tools.conversion.convert, "prepare", prepare)
    for name, (words, value) in [*FLAGS.items(), *OTHERS.items()]:
        taken.clear()
        CliRunner().invoke(app, ["convert", "photos", "out", *shlex.split(words)])
        assert taken == {"kind": None, "splits": None, name: value}
        assert type(taken[name]) is type(value)


def test_bytes_and_sizes_have_units():
    for text, number in (("7", 7), ("1 kB", 1000), ("128MiB", 1 << 27), ("1.5g", 3 << 29)):
        assert number_of_bytes(text) == number
    assert height_and_width("224") == (224, 224)
    assert height_and_width("224X256") == (224, 256)
