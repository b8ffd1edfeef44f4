"""Every setting with wrong values: refused at once, without TFX, in a sentence that names it."""

import inspect
import json
import subprocess
import sys

import pytest

pytest.importorskip("tfx", reason="convert needs TFX")
import components
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, LayoutNames, TextSettings

SETTINGS = {"image": ImageSettings, "text": TextSettings, "audio": AudioSettings}
COMPONENTS = {"image": "ImageExampleGen", "text": "TextExampleGen", "audio": "AudioExampleGen"}
TFX_OPTIONS = ("input_config", "output_config", "range_config")
LAYOUT_NAMES = [*inspect.signature(LayoutNames).parameters]
WRONG = {  # settings: values that no kind of conversion takes
    "layout": ["foldr", 3, None, ["csv"]],
    "columns": [["a"], "a=int", {"a": "integer"}, {"a": None}, 3],
    "vocabulary": ["cat", 3, False, {"label": []}, ["a", "a"], [1], ["a\nb"]],
    "tensors": [["a"], "a=int8[2]", {"a": "float3[2]"}, {"a": 3}, 3],
    "group_by": ["", 3, ["a"], True],
    "stratify": ["yes", 2, None, [True]],
    "seed": ["x", 1.5, None, True, 2**63, -(2**63) - 1],
    "target_shard_bytes": ["128MiB", 0, -1, 1.5, None, True],
    "compression": ["zip", "GZIP", None, 1],
    "max_reject_fraction": ["1%", -0.1, 1.1, None, True],
    "image_roots": ["folder", [1], [""], 3],
    "orientation": ["aply", None, True],
    "frames": ["last", None, 1],
    "resize_shorter_side": [0, -1, "256", 1.5, True],
    "quality": [0, 101, "95", 95.5, None],
    "encoding": ["jpeg2000", None, 8],
    "verify": ["decod", None, True],
    "max_pixels": [0, "many", 1.5, None],
    "feature_names": [["a"], "a=b", {"a": ""}, {"a": 3}, {"a": "x", "b": "x"}, 3],
    **{name: ["", 3, "/whole", "../out", ["a"]] for name in LAYOUT_NAMES},
    "sample_rate": [0, "16kHz", 1.5, True],
    "channels": [0, 3, "mono"],
    "column_names": ["a,b", [""], ["a", "a"], 3],
    "header": ["yes", 2, [True]],
    "delimiter": ["", ";;", 3, '"', "é"],
    "lowercase": ["yes", 2, None],
    "normalize": ["NFX", 3, "nfc"],
    "min_chars": [-1, "x", None, 1.5],
    "max_chars": [0, "x", 1.5],
    "deduplicate": ["yes", 2, None],
    "tokenizer": ["", 3, ["a"]],
    "keep_text": ["yes", 2, None],
    "num_shards": [0, -1, "eight", 1.5, True, {"train": 0}, {"train": "x"}, [8]],
    "shard_multiple": [0, "x", None, 1.5],
    "shuffle": ["yes", 2, None],
    "balance": ["size", None, 1],
    "stratify_by": [3, True, ["label"]],
    "memory_bytes": [0, 1 << 19, "1GB", None],
    "exclude": [3, "", [1], [""], True],
    "relabel": [3, "", ["a"], {"a": None}, {"a": ["cat"]}],
    "where": [3, "", "open(label)", "height >", ["height > 3"]],
    "add": ["more/", [1], [""], 3],
    "keep_shards": ["yes", 2, None],
    **{name: ["x", 3] for name in TFX_OPTIONS},
}
PROGRAM = """
import json, sys, time
from click.testing import CliRunner
from pipelines.cli.app import app
for arguments in json.load(sys.stdin):
    before = set(sys.modules)
    result = CliRunner().invoke(app, arguments)
    heavy = [n for n in ("tfx", "tensorflow", "apache_beam", "ml_metadata") if n in sys.modules]
    print(json.dumps([result.exit_code, result.stderr, result.stdout, heavy]))
"""


def invoke_all(calls, cwd):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(calls),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def takers(name):
    return [kind for kind, settings in SETTINGS.items() if name in settings.argument_names()]


def test_the_sweep_has_every_setting_and_the_settings_are_the_constructors():
    known = {*inspect.signature(BalancerSettings).parameters, *TFX_OPTIONS}
    for kind, settings in SETTINGS.items():
        constructor = inspect.signature(getattr(components, COMPONENTS[kind]).__init__)
        arguments = {*constructor.parameters} - {"self", "input_base", *TFX_OPTIONS}
        assert set(settings.argument_names()) == arguments
        known |= arguments
    balancer = inspect.signature(components.ShardBalancer.__init__).parameters
    assert {*inspect.signature(BalancerSettings).parameters} == {*balancer} - {"self", "examples"}
    assert set(WRONG) == known


def test_a_wrong_value_is_refused_before_tfx_is_imported(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").touch()
    calls, expected = [], []
    for name, values in WRONG.items():
        for kind in takers(name) or ["image"]:
            for value in values:
                setting = f"{name}={json.dumps(value)}"
                call = ["convert", "photos", "out", "--kind", kind, "--set", setting]
                calls.append(call)
                expected.append((name, value))
    for (name, value), call, (status, stderr, stdout, heavy) in zip(
        expected, calls, invoke_all(calls, tmp_path), strict=True
    ):
        assert (status, stdout, heavy) == (2, "", []), (call, stderr)
        (line,) = stderr.splitlines()
        assert line.startswith(f"Error: {name}"), call
        innermost = value
        while isinstance(innermost, (dict, list)) and innermost:
            innermost = [*(innermost.values() if isinstance(innermost, dict) else innermost)][-1]
        assert repr(innermost) in line or repr(value) in line, call
    assert not (tmp_path / "out").exists()


CASES = {  # words of the command line: the exit status, and what the one sentence says
    "inspct out": (2, "Did you mean 'inspect'?"),
    "convert photos out --laout folder": (2, "Did you mean '--layout'?"),
    "convert photos out --kind image --layout foldr": (2, "Did you mean 'folder'?"),
    "convert photos out --set num_shrds=3": (2, "Did you mean 'num_shards'?"),
    "convert photos out --splits train=8,eval=2 --num-shards tain=3": (2, "Did you mean 'train'?"),
    "convert photos out --set verify=decod --kind image": (2, "Did you mean 'decode'?"),
    "convert photos out --dry-run --set batch=1": (2, "'batch'"),
    "compile imag --image i --pipeline-root gs://b/r": (2, "'imag'"),
    "compile none.py:f --image i --pipeline-root gs://b/r": (2, "none.py"),
    "convert photos photos/out --kind image": (2, "'photos/out'"),
    "convert photos out --kind images": (2, "'images'"),
    "convert none out": (1, "'none'"),
    "convert empty out": (1, "'empty'"),
    "convert dataset out": (1, "ShardBalancer"),
    "convert dataset out --kind text": (1, "ShardBalancer"),
    "convert twice.tsv out": (1, "'text' twice"),
    "convert commas.tsv out": (1, "text,label"),
    "convert good.csv out --column stars=float": (2, "'stars'"),
    "convert images.csv out --column stars=float": (2, "'stars'"),
}


def test_what_is_wrong_is_told_in_one_sentence_before_tfx_is_imported(tmp_path):
    for name in ("photos/1.jpg", "dataset/Split-train/data_tfrecord-00000-of-00001", "empty/a/b"):
        (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / "photos/1.jpg").touch()
    (tmp_path / "dataset/Split-train/data_tfrecord-00000-of-00001").touch()
    (tmp_path / "twice.tsv").write_text("text\tlabel\ttext\na\tb\tc\n")
    (tmp_path / "commas.tsv").write_text("text,label\na,b\n")
    (tmp_path / "good.csv").write_text("text,label\na,b\n")
    (tmp_path / "images.csv").write_text("image_uri,label\na.jpg,cat\n")
    calls = [case.split() for case in CASES]
    for call, (status, stderr, stdout, heavy), (code, said) in zip(
        calls, invoke_all(calls, tmp_path), CASES.values(), strict=True
    ):
        assert (status, stdout, heavy) == (code, "", []), (call, stderr)
        assert said in stderr.splitlines()[-1], call
        assert "Traceback" not in stderr
        assert "Starting TFX" not in stderr


@pytest.mark.parametrize(
    ("component", "argument"),
    [
        ("ImageExampleGen", "inpt_base"),
        ("AudioExampleGen", "sample_rat"),
        ("TextExampleGen", "lowercas"),
        ("ShardBalancer", "num_shard"),
        ("SchemaExport", "exampls"),
    ],
)
def test_a_constructor_names_an_argument_that_it_has_not(component, argument):
    with pytest.raises((TypeError, ValueError), match=argument):
        getattr(components, component)(**{argument: 1})


@pytest.mark.parametrize("value", [3, ""])
def test_an_input_base_is_a_path(value):
    from trainer_utils.format import ConfigError

    with pytest.raises(ConfigError) as raised:
        components.ImageExampleGen(input_base=value)
    assert (raised.value.setting, raised.value.value) == ("input_base", value)


@pytest.mark.parametrize("name", [name for name in WRONG if takers(name)])
def test_a_constructor_refuses_each_wrong_value(name):
    from trainer_utils.format import ConfigError

    optional = {"columns", "vocabulary", "image_roots", "column_names"}
    for kind in takers(name):
        for value in WRONG[name]:
            if value is None and name in optional:
                continue
            with pytest.raises(ConfigError, match=name):
                getattr(components, COMPONENTS[kind])(input_base="x", **{name: value})


def test_a_plan_says_which_setting_was_meant():
    from components.shard_balancer import plan
    from trainer_utils.format import ConfigError

    with pytest.raises(ConfigError, match="Did you mean 'num_shards'"):
        plan("examples/", num_shrds=3)


def test_an_output_config_is_checked_in_the_constructor():
    from tfx.proto import example_gen_pb2

    from trainer_utils.format import ConfigError

    config = example_gen_pb2.Output()
    config.split_config.splits.add(name="a/b", hash_buckets=1)
    with pytest.raises(ConfigError, match="split 'a/b'"):
        components.ImageExampleGen(input_base="x", output_config=config)


def test_pipelines_convert_refuses_before_tfx_is_imported(tmp_path):
    (tmp_path / "1.jpg").touch()
    program = """
import sys, pipelines
for given in ({"num_shrds": 3}, {"layout": "foldr"}, {"metdata": "x"}, {"kind": "imge"}):
    try:
        pipelines.convert(".", "out", **{"kind": "image", **given})
    except ValueError as error:
        print(error)
print([n for n in ("tfx", "tensorflow", "apache_beam") if n in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    *errors, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    for line, hint in zip(errors, ["num_shards", "folder", "metadata", "image"], strict=True):
        assert line.endswith(f"Did you mean '{hint}'?")
