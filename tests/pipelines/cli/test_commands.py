"""The commands that do not need TFX, run in this process."""

import json

import pytest
from click.testing import CliRunner

import trainer_utils
from components.inputs.rejects import remedy
from pipelines.cli.app import COMMANDS, app
from tests.components.raw_inputs.raw_folders import classes
from tests.make import write_rows


@pytest.fixture
def invoke():
    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def json_of(result):
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def test_each_command_has_help_with_an_example(invoke, subtests):
    for command in COMMANDS:
        with subtests.test(command=command):
            result = invoke(command, "--help")
            assert result.exit_code == 0
            assert f"\n  tfx-shards {command}" in result.stdout


def test_bad_usage_exits_2(invoke, whole_dataset, subtests):
    pytest.importorskip("tfx")
    for arguments in (
        "inspect",
        "inspect a --nonsense",
        "plan a --workers 0",
        "verify a --processes x",
        "bench a --image-size 0x3",
        "bench DATASET --set shuffle=nonsense --seconds 0.02",
        "bench DATASET --set conversion=3 --seconds 0.02",
        "audit DATASET --fail-on leekage",
        "convert a b --num-shards train=x",
        "convert a b --splits train=.8,train=.2",
        "convert photos b --kind image --splits train=0.8,eval=0.3",
        "convert a b --target-shard-bytes 1XB",
        "convert a b --column x",
        "convert a b --seed 1 --set seed=2",
    ):
        with subtests.test(arguments=arguments):
            result = invoke(*arguments.replace("DATASET", str(whole_dataset)).split())
            assert (result.exit_code, result.stdout) == (2, ""), (arguments, result.output)


def test_inspect_shows_the_content_of_a_dataset(invoke, whole_dataset):
    text = invoke("inspect", whole_dataset).stdout
    assert "25 examples" in text
    assert "3 shards, written by ImageExampleGen" in text
    assert "Rejected: 1 EMPTY_FILE" in text
    assert f"  EMPTY_FILE: {remedy('EMPTY_FILE')}" in text
    facts = json_of(invoke("inspect", whole_dataset, "--json"))
    assert facts["splits"]["train"]["records"] == 20
    assert facts["splits"]["train"]["labels"] == {"cat": 10, "dog": 10}
    label = {"type": "int", "shape": [], "dense": True, "num_classes": 2}
    assert facts["features"]["label"] == label
    assert facts["classes"] == {"label": 2}
    assert facts["rejects"] == {"EMPTY_FILE": 1}


def test_verify_exits_1_and_names_the_place(invoke, dataset):
    assert invoke("verify", dataset).exit_code == 0
    shard = dataset / "Split-eval/data_tfrecord-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    result = invoke("verify", dataset)
    assert result.exit_code == 1
    assert f"{shard}': payload CRC mismatch: stored 0x" in result.stdout
    facts = json_of(invoke("verify", dataset, "--json"))
    assert not facts["good"]
    assert facts["problems"][0]["record"] == 4


def test_report_shows_a_damaged_dataset_and_exits_1(invoke, dataset, tmp_path):
    page = tmp_path / "page.html"
    assert invoke("report", dataset, "-o", page).exit_code == 0
    shard = dataset / "Split-eval/data_tfrecord-00000-of-00001"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    page.unlink()
    result = invoke("report", dataset, "-o", page)
    assert result.exit_code == 1
    assert f"{shard}': " in result.stderr
    assert "Split-eval" in page.read_text()


def test_missing_data_exits_1_and_invalid_setting_exits_2(
    invoke, whole_dataset, tmp_path, subtests
):
    places = {"URI": whole_dataset, "none": tmp_path / "none"}
    for arguments, status in (
        (["show", "URI", "--split", "nonsense"], 1),
        (["plan", "URI", "--split", "train[:9999]"], 1),
        (["diff", "URI", "none"], 1),
        *(([command, "none"], 1) for command in ("inspect", "verify", "plan", "bench", "audit")),
        (["forget", "nobody.jpg", "--in", "URI", "--dry-run"], 1),
        (["show", "URI", "--split", "train["], 2),
        (["bench", "URI", "--split", ""], 2),
        (["forget", "--in", "URI"], 2),
        *(([command, ""], 2) for command in ("inspect", "show", "verify", "plan", "lineage")),
    ):
        with subtests.test(arguments=arguments):
            result = invoke(*(places.get(argument, argument) for argument in arguments))
            assert (result.exit_code, result.stdout) == (status, ""), (arguments, result.stderr)
            (line,) = [one for one in result.stderr.splitlines() if one.startswith("Error: ")]
            assert "unexpected" not in line


def test_plan_equals_the_plan_of_trainer_utils(invoke, whole_dataset):
    arguments = ["plan", whole_dataset, "--workers", 2, "--batch-size", 8, "--remainder", "pad"]
    made = trainer_utils.plan(str(whole_dataset), workers=2, batch_size=8, remainder="pad")
    assert str(made) in invoke(*arguments).stdout
    facts = json_of(invoke(*arguments, "--json"))
    assert (facts["steps"], facts["padded"]) == (3, 4)
    assert [worker["records"] for worker in facts["workers"]] == [10, 10]
    impossible = invoke("plan", whole_dataset, "--workers", 3, "--batch-size", 8)
    assert (impossible.exit_code, impossible.stdout) == (2, "")


def test_bench_reports_stages_and_the_bottleneck(invoke, whole_dataset):
    options = ["--seconds", 0.02, "--batch-size", 4, "--features", "label"]
    facts = json_of(invoke("bench", whole_dataset, *options, "--json"))
    assert [stage["name"] for stage in facts["stages"]] == ["read", "decode", "batch"]
    assert facts["bound"] in ("storage", "processor", "copying")
    assert facts["step_seconds"] > 0


def test_bench_reads_raw_files(invoke, tmp_path):
    classes(tmp_path / "photos")
    conversion = 'conversion={"resize_shorter_side": 16}'
    options = ["--seconds", 0.02, "--batch-size", 4, "--set", conversion, "--json"]
    facts = json_of(invoke("bench", tmp_path / "photos", *options))
    assert [stage["name"] for stage in facts["stages"]] == ["read", "decode", "batch"]


@pytest.mark.parametrize(("library", "pipeline"), [("tfx", "image"), ("kfp", "a.py:f")])
def test_missing_library_error_says_what_to_install(invoke, monkeypatch, library, pipeline):
    import importlib.util

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == library else find_spec(name, *rest),
    )
    result = invoke("compile", pipeline, "--image", "i", "--pipeline-root", "r")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"pip install 'tfx-shards[{library}]'" in line


def test_audit_exit_status_depends_on_findings(invoke, whole_dataset):
    found = json_of(invoke("audit", whole_dataset, "--against", whole_dataset, "--json"))
    assert found["records"] == {"train": 20, "eval": 5}
    assert found["against"] == str(whole_dataset)
    kinds = [*json_of(invoke("audit", whole_dataset, "--json"))["counts"]]
    assert invoke("audit", whole_dataset, "--fail-on", f"dark,{kinds[0]}").exit_code == 1
    assert invoke("audit", whole_dataset, "--fail-on", "dark").exit_code == 0


def test_show_finds_records_by_name(invoke, tmp_path, subtests):
    with trainer_utils.DatasetWriter(str(tmp_path / "out"), num_shards=2) as writer:
        for number in range(40):
            name, split = f"{number % 10}.jpg", "train" if number < 30 else "eval"
            writer.write(split, {"filename": name, "n": number})
    of_name = [("train", 7), ("train", 17), ("train", 27), ("eval", 37)]
    for count in (20, 3):
        with subtests.test(count=count):
            arguments = ["show", tmp_path / "out", "--record", "7.jpg", "-n", count, "--json"]
            found = json_of(invoke(*arguments))
            assert {each["values"]["filename"] for each in found} == {"7.jpg"}
            shown = {(each["split"], each["values"]["n"]) for each in found}
            assert len(found) == len(shown) == min(count, 4)
            assert shown <= {*of_name}
            assert [each["split"] for each in found] == [split for split, _ in of_name][
                : len(found)
            ]


def test_show_refuses_unknown_name_and_split_with_name(invoke, tmp_path):
    write_rows(tmp_path / "out", [{"filename": "7.jpg"}])
    command = ["show", tmp_path / "out", "--record", "5.jpg"]
    assert invoke(*command).exit_code == 1
    assert invoke(*command, "--split", "train").exit_code == 2
