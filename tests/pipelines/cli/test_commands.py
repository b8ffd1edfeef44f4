"""The commands that need no TFX, in this process."""

import json
import sys
import types

import pytest
from click.testing import CliRunner
from PIL import Image

from pipelines.cli.app import COMMANDS, app
from tests.pipelines.rewriting import rewrite


@pytest.fixture
def invoke():
    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def json_of(result):
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def test_help_lists_every_command_with_its_first_sentence(invoke):
    result = invoke("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(invoke, command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"\n  tfx-shards {command}" in result.stdout
    assert "--verbose" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspct"], "No such command 'inspct'"),
        (["inspect"], "Missing argument 'URI...'"),
        (["inspect", "a", "--nonsense"], "No such option"),
        (["plan", "a", "--workers", "0"], "0 is not in the range"),
        (["verify", "a", "--processes", "x"], "'x' is not a valid integer"),
        (["bench", "a", "--image-size", "0x3"], "expected a size such as 224"),
        (["convert", "a"], "Missing argument 'OUT'"),
        (["convert", "a", "b", "--num-shards", "train=x"], "expected 8 or train=8,eval=2"),
        (["convert", "a", "b", "--splits", "8"], "expected train=8,eval=2"),
        (["convert", "a", "b", "--target-shard-bytes", "1XB"], "expected bytes such as"),
        (["convert", "a", "b", "--column", "x"], "expected NAME=KIND"),
        (["convert", "a", "b", "--set", "x"], "expected NAME=VALUE"),
        (["convert", "a", "b", "--seed", "1", "--set", "seed=2"], "seed is given twice"),
        (["doctor"], "Missing argument 'URI'"),
    ],
)
def test_bad_usage_is_status_2(invoke, arguments, said):
    pytest.importorskip("tfx")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_list_of_whole_paths_is_taken_as_it_comes_but_where_folders_are_named(
    invoke, tmp_path, monkeypatch
):
    pytest.importorskip("tfx")
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos")
    lines = [f"{tmp_path}/photos/{n}.jpg,{'ab'[n % 2]}\n" for n in range(4)]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "l.csv").write_text("".join(lines) + "gone.jpg,a\n")
    planned = json_of(invoke("convert", "lists/l.csv", "--dry-run", "--json"))
    assert planned["rejects"] == {"FILE_NOT_FOUND": 1}
    assert sum(split["records"] for split in planned["splits"].values()) == 4
    strict = ["--image-root", "lists"]
    planned = json_of(invoke("convert", "lists/l.csv", "--dry-run", "--json", *strict))
    assert planned["rejects"] == {"OUTSIDE_INPUT_BASE": 4, "FILE_NOT_FOUND": 1}
    assert planned["first_rejects"]["FILE_NOT_FOUND"].startswith("gone.jpg (line 5")
    assert f"--image-root {tmp_path}/photos" in planned["cures"][0]
    shown = invoke("convert", "lists/l.csv", "--dry-run", *strict).stdout
    assert "4 OUTSIDE_INPUT_BASE, the first" in shown
    root = ["--image-root", "photos"]
    planned = json_of(invoke("convert", "lists/l.csv", "--dry-run", "--json", *root))
    assert planned["rejects"] == {"FILE_NOT_FOUND": 1}
    assert sum(split["records"] for split in planned["splits"].values()) == 4


def write_photos(folder):
    folder.mkdir()
    for number in range(4):
        Image.new("RGB", (9, 8), (60 * number, 5, 9)).save(folder / f"{number}.jpg")


def test_the_flag_that_the_question_about_a_header_names_answers_it(invoke, tmp_path):
    pytest.importorskip("tfx")
    table = tmp_path / "t.tsv"
    table.write_text("The film was great\tpos\nA bore\tneg\n")
    asked = invoke("convert", table, "--dry-run")
    assert asked.exit_code == 1
    flags = asked.stderr.partition("(tfx-shards convert … ")[2].partition(")")[0].split()
    assert flags == ["--columns", "text,label"]
    planned = json_of(invoke("convert", table, "--dry-run", "--json", *flags))
    assert (planned["found"], planned["features"]) == (2, {"text": "string", "label": "label"})
    planned = json_of(invoke("convert", table, "--dry-run", "--json", "--header"))
    assert planned["found"] == 1


@pytest.mark.parametrize("command", ["inspect", "verify", "plan", "bench"])
def test_a_missing_dataset_is_status_1_and_one_line(invoke, tmp_path, command):
    result = invoke(command, tmp_path / "none")
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: '{tmp_path}/none': expected the folder of a dataset")


def test_inspect_shows_what_is_in_a_dataset(invoke, whole_dataset):
    text = invoke("inspect", whole_dataset).stdout
    assert "25 examples" in text
    assert "3 shards, written by ImageExampleGen" in text
    assert "Rejected: 1 EMPTY_FILE" in text
    facts = json_of(invoke("inspect", whole_dataset, "--json"))
    assert facts["splits"]["train"]["records"] == 20
    assert facts["splits"]["train"]["labels"] == {"cat": 10, "dog": 10}
    assert facts["features"]["label"] == {"type": "int", "shape": [], "dense": True}
    assert facts["classes"] == {"label": 2}
    assert facts["rejects"] == {"EMPTY_FILE": 1}


def test_inspect_shows_the_commonest_of_many_labels(invoke, dataset):
    labels = {f"class {number:03d}": number for number in range(1, 101)}
    rewrite(dataset / "manifest.json", lambda m: m["splits"]["train"].update(labels=labels))
    text = invoke("inspect", dataset).stdout
    assert "class 100" in text
    assert "class 050" not in text
    assert "and 82 more labels" in text


def test_inspect_knows_others_datasets(invoke, datum_photos):
    facts = json_of(invoke("inspect", datum_photos, "--json"))
    assert facts["writer"] == "Datum"
    assert facts["splits"]["val"]["records"] == 7
    stock = json_of(invoke("inspect", "tests/golden/tfrecorder", "--json"))
    assert stock["features"]["image_height"] == {"type": "int", "shape": [], "dense": True}
    assert stock["splits"]["train"]["records"] == 8
    assert "no manifest" in invoke("inspect", "tests/golden/tfrecorder").stdout


def test_verify_exits_1_and_names_the_place(invoke, dataset):
    assert invoke("verify", dataset).exit_code == 0
    shard = dataset / "Split-eval/data_tfrecord-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    result = invoke("verify", dataset)
    assert result.exit_code == 1
    assert f"{shard}': expected the payload's checksum" in result.stdout
    facts = json_of(invoke("verify", dataset, "--json"))
    assert not facts["good"]
    assert facts["problems"][0]["record"] == 4


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["show", "URI", "--split", "nonsense"], 1),
        (["plan", "URI", "--split", "train[:9999]"], 1),
        (["bench", "URI", "--split", "nonsense"], 1),
        (["diff", "URI", "none"], 1),
        (["audit", "none"], 1),
        (["forget", "nobody.jpg", "--in", "URI", "--dry-run"], 1),
        (["forget", "nobody.jpg", "--in", "none"], 1),
        (["show", "URI", "--split", "train["], 2),
        (["bench", "URI", "--split", ""], 2),
        (["show", "URI", "--split", ""], 2),
        (["show", "URI", "--split", "train[:101%]"], 2),
        (["forget", "--in", "URI"], 2),
        *(([command, ""], 2) for command in ("inspect", "show", "verify", "plan", "audit")),
        (["lineage", ""], 2),
    ],
)
def test_what_the_data_has_not_is_1_and_what_is_wrong_anywhere_2(
    invoke, whole_dataset, tmp_path, arguments, status
):
    places = {"URI": whole_dataset, "none": tmp_path / "none"}
    result = invoke(*(places.get(argument, argument) for argument in arguments))
    assert (result.exit_code, result.stdout) == (status, ""), result.stderr
    assert "Error: " in result.stderr
    assert "unexpected" not in result.stderr


def test_damage_that_tensorflow_reports_is_one_sentence(invoke, dataset):
    shard = dataset / "Split-train/data_tfrecord-00000-of-00002"
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    result = invoke("bench", dataset, "--seconds", 0.02)
    assert result.exit_code == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"Error: '{shard}': expected the payload's checksum to agree")
    assert line.endswith("The file is damaged: write it again.")


def test_a_page_is_written_with_its_folder_or_its_own_name_is_in_the_error(
    invoke, whole_dataset, tmp_path
):
    page = tmp_path / "new" / "page.html"
    assert invoke("report", whole_dataset, "-o", page).exit_code == 0
    assert page.read_text().startswith("<!DOCTYPE html>") or "<html" in page.read_text()
    assert [file.name for file in page.parent.iterdir()] == [page.name]
    (tmp_path / "file").write_text("")
    result = invoke("report", whole_dataset, "-o", tmp_path / "file" / "page.html")
    assert result.exit_code == 1
    assert "Error: " in result.stderr
    assert f"'{tmp_path}/file" in result.stderr


def test_plan_is_that_of_trainer_utils(invoke, whole_dataset):
    import trainer_utils

    arguments = ["plan", whole_dataset, "--workers", 2, "--batch-size", 8, "--remainder", "pad"]
    made = trainer_utils.plan(str(whole_dataset), workers=2, batch_size=8, remainder="pad")
    assert str(made) in invoke(*arguments).stdout
    facts = json_of(invoke(*arguments, "--json"))
    assert (facts["steps"], facts["padded"]) == (3, 4)
    assert [worker["records"] for worker in facts["workers"]] == [10, 10]


def test_an_impossible_plan_is_status_1(invoke, whole_dataset):
    result = invoke("plan", whole_dataset, "--workers", 3, "--batch-size", 8)
    assert result.exit_code == 1
    assert "expected a multiple of the 3 replicas, got 8" in result.stderr
    assert invoke("plan", whole_dataset, "--split", "nonsense").exit_code == 1


def test_bench_tells_stages_and_what_bounds_them(invoke, whole_dataset):
    options = ["--seconds", 0.02, "--batch-size", 4, "--features", "label"]
    facts = json_of(invoke("bench", whole_dataset, *options, "--json"))
    assert [stage["name"] for stage in facts["stages"]] == ["read", "decode", "batch"]
    assert facts["bound"] in ("storage", "processor", "copying")
    assert facts["step_seconds"] > 0


def test_bench_takes_other_settings_of_input_fn(invoke, whole_dataset):
    result = invoke("bench", whole_dataset, "--set", "shuffle=nonsense", "--seconds", 0.02)
    assert result.exit_code == 2
    assert "shuffle: expected True, False" in result.stderr


def test_the_output_folder_of_convert_stands_for_its_newest_dataset(invoke, dataset, tmp_path):
    out = tmp_path / "out"
    target = out / "artifacts/ShardBalancer/balanced_examples/7"
    target.parent.mkdir(parents=True)
    dataset.rename(target)
    (out / "latest").symlink_to("artifacts/ShardBalancer/balanced_examples/7")
    for uri in (out, f"{out}/", out / "latest", target):
        assert json_of(invoke("inspect", uri, "--json"))["uri"] == str(target)


class FakeFacts:
    def to_json(self):
        return {"name": "facts"}

    def __str__(self):
        return "facts as text"


def test_lineage_hands_over_what_was_asked(invoke, monkeypatch):
    pytest.importorskip("tfx")
    calls = []

    def describe_artifact(uri, *, metadata=None, record=None):
        calls.append((uri, metadata, record))
        return FakeFacts()

    fake = types.SimpleNamespace(describe_artifact=describe_artifact)
    monkeypatch.setitem(sys.modules, "pipelines.lineage", fake)
    assert invoke("lineage", "data").stdout == "facts as text\n"
    result = invoke("lineage", "data", "--metadata", "grpc://h:1", "--record", "a.jpg", "--json")
    assert json_of(result) == {"name": "facts"}
    assert calls == [("data", None, None), ("data", "grpc://h:1", "a.jpg")]


def test_runs_lists_those_of_a_file_or_folder(invoke, monkeypatch, tmp_path):
    pytest.importorskip("tfx")
    calls = []
    fake = types.SimpleNamespace(list_runs=lambda where: calls.append(where) or FakeFacts())
    monkeypatch.setitem(sys.modules, "pipelines.lineage", fake)
    assert invoke("runs", tmp_path).stdout == "facts as text\n"
    assert json_of(invoke("runs", "grpc://h:1", "--json")) == {"name": "facts"}
    assert invoke("runs").stdout == "facts as text\n"
    assert calls == [str(tmp_path), "grpc://h:1", "."]


def test_compile_hands_over_what_was_asked(invoke, monkeypatch):
    pytest.importorskip("tfx")
    from trainer_utils.format import ConfigError

    calls = []

    def compile_pipeline(pipeline, output, *, image, pipeline_root, name=None, **others):
        calls.append((pipeline, output, image, pipeline_root, name, others))
        if name == "Bad":
            raise ConfigError("name: expected lower case, got 'Bad'")

    fake = types.SimpleNamespace(compile_pipeline=compile_pipeline)
    monkeypatch.setitem(sys.modules, "pipelines.kubeflow", fake)
    arguments = ["compile", "p.py:make", "-o", "p.yaml", "--image", "i", "--pipeline-root", "r"]
    assert invoke(*arguments).exit_code == 0
    bad = invoke(*arguments, "--name", "Bad")
    assert bad.exit_code == 2
    assert "Error: name: expected lower case, got 'Bad'" in bad.stderr
    assert calls[0] == ("p.py:make", "p.yaml", "i", "r", None, {})
    assert invoke(*arguments, "--dataset-root", "/data", "--volume", "claim=/data").exit_code == 0
    assert calls[-1][-1] == {"dataset_root": "/data", "volumes": ["claim=/data"]}
    assert invoke(*arguments, "--gpu", "Trainer=1", "--env", "A=b", "--env", "C=d").exit_code == 0
    assert calls[-1][-1] == {"gpu": ["Trainer=1"], "env": ["A=b", "C=d"]}


@pytest.mark.parametrize("command", ["convert a b", "compile a --image i"])
def test_without_tfx_one_line_says_what_to_install(invoke, monkeypatch, command):
    import importlib.util

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "tfx" else find_spec(name, *rest),
    )
    arguments = [*command.split(), *(["--pipeline-root", "r"] if "compile" in command else [])]
    result = invoke(*arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "pip install 'tfx-shards[tfx]'" in line


def test_a_defect_is_one_line_and_verbose_shows_where(invoke, monkeypatch, whole_dataset):
    def fail(uri):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("components.report.inspection.inspect_dataset", fail)
    result = invoke("inspect", whole_dataset)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error: unexpected ZeroDivisionError: oh. Run it with --verbose to see where."
    ]
    assert "in fail" in invoke("inspect", whole_dataset, "--verbose").stderr


def test_ctrl_c_is_quiet_and_130(invoke, monkeypatch, whole_dataset):
    def interrupt(uri):
        raise KeyboardInterrupt

    monkeypatch.setattr("components.report.inspection.inspect_dataset", interrupt)
    result = invoke("inspect", whole_dataset)
    assert (result.exit_code, result.stderr) == (130, "Error: interrupted\n")
