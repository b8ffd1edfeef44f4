"""The components as plain functions: they write the same files as in TFX."""

import functools
import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.input_selection import InputSelection, SplitPattern
from components.example_gen.settings import ExampleGenSettings, ImageSettings, TextSettings
from components.example_gen.split_rules import Partition
from components.settings import AuditSettings, DatasetReportSettings
from tests.make import everything as files
from tests.make import photo, refusing, run_python, write_files
from trainer_utils.core.errors import ConfigError, DatasetError, InputError, TfxShardsError
from trainer_utils.dataset import open_dataset


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    files = {f"{'ab'[n % 2]}/{n}.png": photo(n, "PNG", size=(20 + n, 30)) for n in range(40)}
    return write_files(tmp_path_factory.mktemp("in"), files | {"a/broken.png": b"\x89PNG"})


SETTINGS: dict[str, Any] = {"target_shard_bytes": 2000, "max_reject_fraction": 0.5, "seed": 7}


def test_dataset_is_converted_balanced_described_and_audited(pictures, tmp_path):
    made = steps.convert(str(pictures), str(tmp_path / "made"), ImageSettings(**SETTINGS))
    assert str(made.manifest.total) == "41 found = 40 written + 1 rejected + 0 skipped"
    balanced = str(tmp_path / "balanced")
    done = steps.balance([str(tmp_path / "made")], balanced, BalancerSettings(num_shards=2))
    assert {len(done.manifest.shards_of(split)) for split in done.manifest.splits} == {2}
    schema = tmp_path / "schema"
    exported = steps.export_schema(balanced, str(tmp_path / "told"), schema_uri=str(schema))
    assert exported.num_features == 6
    assert [path.name for path in schema.iterdir()] == ["schema.pbtxt"]
    found = steps.audit(balanced, str(tmp_path / "audit"), AuditSettings(fail_on=("leakage",)))
    listed = json.loads((tmp_path / "audit/findings.json").read_text())["findings"]
    assert len(listed) == len(found.findings) > 0
    steps.report(balanced, str(tmp_path / "page"), DatasetReportSettings())
    assert [path.name for path in (tmp_path / "page").iterdir()] == [steps.REPORT_FILE]


@pytest.mark.parametrize("classes", ["yes no", "0 1"])
def test_kept_labels_are_counted_despite_equal_other_labels(tmp_path, classes):
    values = classes.split()
    rows = [f"some text,{values[n % 2]},{values[n // 2 % 2]},{n}" for n in range(40)]
    source = write_files(
        tmp_path / "in", {"a.csv": "\n".join(["text,label,labels,n", *rows]).encode()}
    )
    columns = {"label": "label", "labels": "label"} if classes == "yes no" else {}
    steps.convert(str(source), str(tmp_path / "made"), TextSettings(columns=columns))
    settings = BalancerSettings(where="n != 6 and n != 8")
    done = steps.balance([str(tmp_path / "made")], str(tmp_path / "out"), settings)
    counted = sum(map(Counter, done.manifest.label_counts.values()), Counter())
    assert counted == {values[0]: 18, values[1]: 20}


def test_tfx_writes_the_same_files_including_lineage(pictures, tmp_path):
    pytest.importorskip("tfx", reason="the components of TFX")
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    from components.image_example_gen import Executor
    from components.shard_balancer import Executor as Balancer

    output = example_gen_pb2.Output()
    output.split_config.splits.add(name="train", hash_buckets=3)
    output.split_config.splits.add(name="test", hash_buckets=1)
    config = example_gen_pb2.Input()
    config.splits.add(name="single_split", pattern="*")
    by_tfx, balanced = standard_artifacts.Examples(), standard_artifacts.Examples()
    by_tfx.uri, balanced.uri = str(tmp_path / "tfx"), str(tmp_path / "tfx-balanced")
    properties = {
        **ImageSettings.to_properties(SETTINGS),
        "input_base": str(pictures),
        "input_config": proto_utils.proto_to_json(config),
        "output_config": proto_utils.proto_to_json(output),
    }
    Executor().Do({}, {"examples": [by_tfx]}, properties)
    asked = {"num_shards": 3, "exclude": ["a/0.png"]}
    given = BalancerSettings.to_properties(asked)
    Balancer().Do({"examples": [by_tfx]}, {"balanced_examples": [balanced]}, given)

    selection = InputSelection(base=str(pictures), partition=Partition((("train", 3), ("test", 1))))
    steps.convert(selection, str(tmp_path / "plain"), ImageSettings(**SETTINGS))
    again = str(tmp_path / "plain-balanced")
    steps.balance([str(tmp_path / "plain")], again, BalancerSettings(**asked))
    assert files(tmp_path / "tfx") == files(tmp_path / "plain")
    assert files(tmp_path / "tfx-balanced") == files(tmp_path / "plain-balanced")


def test_text_files_in_two_patterns_are_refused(tmp_path):
    base = write_files(tmp_path / "in", {f"{c}/{n}.txt": f"{c} {n}" for c in "xy" for n in "12"})
    patterns = (SplitPattern("train", "x/*"), SplitPattern("eval", "*/*"))
    selection = InputSelection(base=str(base), patterns=patterns)
    with pytest.raises(InputError, match=r"'x/1\.txt': expected one pattern"):
        steps.convert(selection, str(tmp_path / "out"), TextSettings(max_reject_fraction=1))


def test_run_with_too_many_rejects_resumes_with_a_higher_limit(pictures, tmp_path, our_messages):
    out = tmp_path / "out"
    with pytest.raises(InputError):
        steps.convert(
            str(pictures), str(out), ImageSettings(**{**SETTINGS, "max_reject_fraction": 0})
        )
    assert not (out / "manifest.json").exists()
    before = {path: path.stat().st_ino for path in out.glob("Split-*/*")}
    assert before
    made = steps.convert(str(pictures), str(out), ImageSettings(**SETTINGS))
    assert before.items() <= {path: path.stat().st_ino for path in out.glob("Split-*/*")}.items()
    assert any("resuming: " in line for line in our_messages())
    steps.convert(str(pictures), str(tmp_path / "other"), ImageSettings(**SETTINGS))
    assert files(out) == files(tmp_path / "other")
    assert made.manifest.total.written == 40


def test_failed_run_leaves_no_files(pictures, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(DatasetError):
        steps.balance([str(tmp_path / "nothing")], str(out), BalancerSettings())
    with pytest.raises(DatasetError):
        steps.export_schema(str(pictures), str(out))
    with pytest.raises(DatasetError):
        steps.audit(str(pictures), str(out), AuditSettings())
    with pytest.raises(DatasetError):
        steps.report(str(pictures), str(out), DatasetReportSettings())
    assert not [path for path in out.rglob("*") if path.is_file()]


def test_no_framework_is_imported(pictures, tmp_path):
    program = (
        "import sys\n"
        "from components import steps\n"
        "from components.example_gen.settings import ImageSettings\n"
        "if __name__ == '__main__':\n"
        f"    steps.convert({str(pictures)!r}, {str(tmp_path / 'out')!r},"
        " ImageSettings(max_reject_fraction=1))\n"
        "    heavy = ('tfx', 'tensorflow', 'apache_beam', 'ml_metadata', 'kfp', 'scipy')\n"
        "    print([name for name in heavy if name in sys.modules])"
    )
    done = run_python(program)
    assert done.stdout == "[]\n", done.stderr


def test_without_beam_its_runners_are_refused(monkeypatch):
    from components.runtime.runners import runner_of

    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with refusing("beam_pipeline_args"):
        runner_of(["--runner=FlinkRunner"], module="balancing.parts")
    with pytest.raises(ConfigError):
        runner_of(["--direct_num_workers=many"], module="balancing.parts")
    with runner_of(["--direct_num_workers=3", "--labels=a=b"], module="balancing.parts") as runner:
        assert runner.processes == 3
        assert runner.make_pipeline is None


def test_invalid_argument_is_refused_by_name(tmp_path, subtests):
    out = str(tmp_path / "out")
    for setting, call in (
        *(
            ("settings", functools.partial(steps.convert, "in", out, given))
            for given in (None, {"seed": 3}, ExampleGenSettings(), BalancerSettings())
        ),
        ("source", lambda: steps.convert(None, out, ImageSettings())),
        ("uri", lambda: steps.convert("in", None, ImageSettings())),
        ("settings", lambda: steps.balance(["in"], out, None)),
        ("examples", lambda: steps.balance("in", out, BalancerSettings())),
        ("examples", lambda: steps.balance([None], out, BalancerSettings())),
        ("examples", lambda: steps.export_schema(None, out)),
        ("settings", lambda: steps.audit("in", out, None)),
        ("settings", lambda: steps.report("in", out, AuditSettings())),
        ("uri", lambda: steps.report("in", "", DatasetReportSettings())),
    ):
        with subtests.test(setting=setting), refusing(setting):
            call()
    assert not [*tmp_path.iterdir()]


def test_harmful_output_place_is_refused_without_changes(pictures, tmp_path, subtests):
    made, file = tmp_path / "made", tmp_path / "file"
    steps.convert(pictures, made, ImageSettings(**SETTINGS))
    file.write_text("one's own")
    before = files(tmp_path), files(pictures)
    calls = [
        *(
            functools.partial(steps.convert, pictures, out, ImageSettings(**SETTINGS))
            for out in (pictures, pictures / "a/out", file, file / "below")
        ),
        functools.partial(steps.balance, [made], made, BalancerSettings()),
        functools.partial(steps.balance, [made], file, BalancerSettings()),
        functools.partial(steps.export_schema, made, made),
        functools.partial(steps.export_schema, made, made / "below"),
        functools.partial(steps.report, made, file / "below", DatasetReportSettings()),
    ]
    for call in calls:
        with subtests.test(call=call), pytest.raises(ConfigError):
            call()
    for name in ("schema", "statistics"):
        with subtests.test(name=name), pytest.raises(DatasetError):
            steps.export_schema(made, tmp_path / "told", **{name: str(tmp_path / "none")})
    assert (files(tmp_path), files(pictures)) == before


def test_invalid_settings_are_refused_on_creation(subtests):
    for make in (
        lambda: ImageSettings(images={"quality": 3}),
        lambda: ImageSettings(names=3),
        lambda: Partition({"train": 1}),
        lambda: Partition((("train", -1),)),
        lambda: Partition((("../train", 1),)),
    ):
        with subtests.test(make=make), pytest.raises(TfxShardsError):
            make()


def test_compressed_tables_go_to_a_relative_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f'"a, {n}",{n % 2}\n' for n in range(50))
    write_files(tmp_path, {"in/t.csv.gz": gzip.compress(f"text,label\n{rows}".encode())})
    steps.convert("in", "out/1", TextSettings())
    dataset = open_dataset("out/1")
    assert sum(dataset.records.values()) == 50
