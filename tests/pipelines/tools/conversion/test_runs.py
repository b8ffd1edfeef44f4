"""`convert` and `balance` without TFX, TensorFlow, Beam and ML Metadata installed."""

import concurrent.futures
import json
import os
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from click.testing import CliRunner

import pipelines
from components.balancing import parts as balancing_parts
from components.example_gen import file_shards
from components.runtime import processes
from pipelines.cli.app import app
from pipelines.tools.conversion import convert as conversion
from pipelines.tools.verification import verify_dataset
from tests.make import photo, refusing, run_python, wav, write_files
from trainer_utils.core.errors import InputError
from trainer_utils.dataset.location import read_manifest
from trainer_utils.format import Shard

HIDDEN = (
    *("tfx", "tensorflow", "apache_beam", "ml_metadata", "kfp", "tensorflow_data_validation"),
    *("scipy", "tiktoken", "tokenizers", "sentencepiece"),
)
# Contains the folder of the shards, with the number of a run.


@pytest.fixture
def pictures(tmp_path) -> Path:
    files = {f"{'ab'[n % 2]}/{n}.png": photo(n, "PNG", size=(20 + n, 30)) for n in range(30)}
    return write_files(tmp_path / "in", files)


@pytest.fixture
def without_tfx(monkeypatch):
    monkeypatch.setattr(conversion, "has_tfx", lambda: False)


def shell(*arguments: str) -> CompletedProcess[str]:
    """Run a command in a process that cannot import TFX and its dependencies."""
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({HIDDEN!r}))\n"
        "from pipelines.cli.app import main\n"
        "sys.exit(main())"
    )
    return run_python(program, *arguments, cwd=Path.cwd())


def test_only_changed_or_removed_outputs_are_rebuilt(without_tfx, pictures, tmp_path):
    out = tmp_path / "out"
    first = pipelines.convert(pictures, out)
    assert not first.cached
    again = pipelines.convert(pictures, out)
    assert again == first
    assert again.cached
    assert pipelines.convert(pictures, out, seed=1) != first
    assert pipelines.convert(pictures, out, num_shards=3) != first
    (pictures / "a/0.png").write_bytes((pictures / "b/1.png").read_bytes())
    changed = pipelines.convert(pictures, out)
    assert not changed.cached
    shutil.rmtree(changed)
    made = pipelines.convert(pictures, out)
    assert not made.cached
    assert read_manifest(made).total.written == 30
    assert os.path.realpath(out / "latest") == os.path.realpath(made)


def test_output_folder_next_to_a_list_is_not_input(without_tfx, pictures):
    rows = "".join(f"a/{2 * n}.png,{'xy'[n % 2]}\n" for n in range(8))
    (pictures / "list.csv").write_text(f"image,label\n{rows}")
    first = pipelines.convert(pictures / "list.csv", pictures / "out")
    again = pipelines.convert(pictures / "list.csv", pictures / "out")
    assert (again, again.cached) == (first, True)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-1])


LACKING = [
    *[(Path.unlink, name) for name in ("Split-train/*", "index/*", "manifest.json")],
    *[(_cut, name) for name in ("Split-train/*", "vocab/*", "shard_info.json", "manifest.json")],
]


@pytest.mark.parametrize(("damage", "name"), LACKING)
def test_incomplete_dataset_is_rebuilt(without_tfx, pictures, tmp_path, damage, name):
    first = pipelines.convert(pictures, tmp_path / "out")
    digest = read_manifest(first).digest
    damage(next(Path(first).glob(name)))
    again = pipelines.convert(pictures, tmp_path / "out")
    assert not again.cached
    assert read_manifest(again).digest == digest
    assert verify_dataset(again).is_good


def test_killed_run_is_resumed_in_its_folder(without_tfx, pictures, tmp_path):
    out = tmp_path / "out"
    left = out / "artifacts/ImageExampleGen/examples/1/Split-train"
    left.mkdir(parents=True)
    made = pipelines.convert(pictures, out)
    assert made.examples.endswith("examples/1")


def test_metadata_setting_is_refused_without_tfx(without_tfx, pictures, tmp_path):
    with refusing("metadata"):
        pipelines.convert(pictures, tmp_path / "out", metadata=str(tmp_path / "m.sqlite"))
    assert not (tmp_path / "out").exists()


def test_the_commands_work(pictures, tmp_path, subtests):
    out, table = str(tmp_path / "out"), tmp_path / "texts.csv"
    done = shell("convert", str(pictures), out, "--num-shards", "2", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["metadata"] is None
    assert facts["splits"]["train"]["num_shards"] == 2
    table.write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(50)))
    assert shell("convert", str(table), str(tmp_path / "texts")).returncode == 0
    for command in ("inspect", "show", "verify", "audit", "plan", "lineage", "balance"):
        with subtests.test(command=command):
            more = [str(tmp_path / "balanced"), "--num-shards", "3"] if command == "balance" else []
            done = shell(command, out, *more)
            assert done.returncode == 0, (command, done.stderr)
    balanced = read_manifest(done.stdout.strip())
    assert len(balanced.shards_of("train")) == 3
    assert shell("convert", str(pictures), out, "--seed", "x").returncode == 2
    assert shell("convert", str(tmp_path / "nothing"), out).returncode == 1


@pytest.mark.parametrize(
    ("extra", "setting", "arguments"),
    [
        ("audio", "sample_rate", ["in", "out", "--kind", "audio", "--sample-rate", "16000"]),
        ("beam", "beam_pipeline_args", ["in", "--beam-arg=--runner=FlinkRunner", "--dry-run"]),
        ("tokens", "tokenizer", ["a.csv", "out", "--set", "tokenizer=gpt2"]),
    ],
)
def test_missing_library_is_reported_before_reading(
    pictures, tmp_path, monkeypatch, extra, setting, arguments
):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("text\nsome\n")
    before = sorted(tmp_path.rglob("*"))
    done = shell("convert", *arguments)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert done.returncode == 2, done.stderr
    assert line.startswith(f"Error: {setting}: ")
    assert f"pip install 'tfx-shards[{extra}]'" in line
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_fails_leaves_nothing(without_tfx, pictures, tmp_path, monkeypatch, subtests):
    monkeypatch.chdir(tmp_path)
    out = str(pipelines.convert("in", "out"))
    for command, status in (
        (["balance", "none", "new/out"], 1),
        (["balance", out, "new/out", "--where", "height > 10000"], 2),
        (["balance", out, "new/out", "--exclude", "none.txt"], 2),
        (["convert", "in", "new/out", "--splits", "train=1,eval=1000000"], 1),
        (["convert", "in", "new/out", "--num-shards", "other=3"], 2),
    ):
        with subtests.test(command=command):
            done = CliRunner().invoke(app, command)
            assert done.exit_code == status, done.output
            assert not Path("new").exists()


def test_concurrent_runs_into_one_folder_are_independent(pictures, tmp_path, subtests):
    def run(seed: int) -> CompletedProcess[str]:
        return shell("convert", str(pictures), str(tmp_path / "out"), "--seed", str(seed))

    with concurrent.futures.ThreadPoolExecutor() as threads:
        runs = [*threads.map(run, range(3))]
    assert [done.returncode for done in runs] == [0, 0, 0], [done.stderr for done in runs]
    made = [done.stdout.strip() for done in runs]
    assert len(set(made)) == 3
    for uri in [*made, *(tmp_path / "out/artifacts/ImageExampleGen/examples").iterdir()]:
        with subtests.test(uri=uri):
            assert verify_dataset(str(uri)).is_good


def test_next_good_run_removes_the_list_of_rejects(without_tfx, pictures, tmp_path):
    (pictures / "a/x.png").write_bytes(b"none")
    out = tmp_path / "out"
    with pytest.raises(InputError):
        pipelines.convert(pictures, out)
    assert len([*out.rglob("*.rejects.jsonl")]) == 1
    made = pipelines.convert(pictures, out, max_reject_fraction=0.5)
    assert made.rejected == 1
    assert not [*out.rglob("*.rejects.jsonl")]


def test_rows_with_invalid_files_are_rejected_with_a_code(
    without_tfx, pictures, tmp_path, subtests
):
    png = (pictures / "a/0.png").read_bytes()
    settings = {"max_reject_fraction": 0.9}
    for name, junk in (("a", b"junk"), ("b", b""), ("c", str(pictures / "a/2.png").encode())):
        with subtests.test(name=name):
            rows = [{"image": junk}, *({"image": png} for _ in range(8)), {"image": bytearray(png)}]
            made = pipelines.convert(rows, tmp_path / name, **settings)
            assert (made.kind, made.written, made.rejected) == ("image", 9, 1), junk
            code = "NOT_AN_IMAGE" if junk else "EMPTY_FILE"
            assert made.manifest.reject_counts == {code: 1}
    rows = [{"sound": b"junk"}, *({"sound": wav(n)} for n in range(8))]
    made = pipelines.convert(rows, tmp_path / "d", columns={"sound": "audio"}, **settings)
    assert made.manifest.reject_counts == {"NOT_AUDIO": 1}
    assert pipelines.convert([{"audio": wav(n)} for n in range(8)], tmp_path / "e").kind == "audio"
    with pytest.raises(InputError):
        pipelines.convert([{"image": png}, {"image": "a/0.png"}], tmp_path / "f")


def test_unknown_argument_is_refused_by_name(
    without_tfx, pictures, tmp_path, monkeypatch, subtests
):
    monkeypatch.chdir(tmp_path)
    before, rows = sorted(tmp_path.rglob("*")), [{"text": "a"}]
    for setting, source, out, options in (
        ("out", "in", None, {}),
        ("out", "in", "", {}),
        ("source", b"in", "out", {}),
        ("source", None, "out", {}),
        ("source", lambda one, two: [], "out", {}),
        ("columns", rows, "out", {"columns": 3}),
        ("columns['text']", rows, "out", {"columns": {"text": "txt"}}),
        ("num_shards", rows, "out", {"num_shards": "many"}),
        ("metadata", "in", "out", {"metadata": 3}),
        ("splits", rows, "out", {"splits": 3}),
    ):
        with subtests.test(setting=setting):
            with refusing(setting):
                pipelines.convert(source, out, **options)
            assert sorted(tmp_path.rglob("*")) == before


def test_steps_share_processes_and_read_shards_back_once(
    without_tfx, pictures, tmp_path, monkeypatch
):
    servers, verified = [], []
    start, verify = processes._Server.__init__, file_shards.verify_shard

    def count_server(server: processes._Server, module: str) -> None:
        servers.append(module)
        start(server, module)

    def count_shard(shard: Shard, **settings: object) -> None:
        verified.append(shard.path)
        verify(shard, **settings)

    monkeypatch.setattr(processes, "_WORTH_SECONDS", 0.0)  # small conversions start no server
    monkeypatch.setattr(processes._Server, "__init__", count_server)
    for module in (file_shards, balancing_parts):
        monkeypatch.setattr(module, "verify_shard", count_shard)
    done = pipelines.convert(pictures, tmp_path / "out")
    assert servers == ["components.example_gen.file_shards"]
    manifest = read_manifest(done)
    assert sorted(verified) == sorted(shard.path for shard in manifest.shards)
    pipelines.convert(pictures, tmp_path / "out", num_shards=3)  # the same photos, other shards
    assert len(servers) == 2
