"""Each process of a training job reads its share, by its given or detected rank."""

import json
import logging
import subprocess
import sys
import textwrap

import pytest

import trainer_utils
from tests.make import run_python
from trainer_utils import ConfigError
from trainer_utils.frameworks import ranks

SETTINGS = {"batch_size": 8, "seed": 3, "features": "id"}
SHARES = """
    import json, sys, trainer_utils
    settings = {"batch_size": 8, "seed": 3, "features": "id"}
    batches = trainer_utils.iterate(sys.argv[1], "train", **settings)
    print(json.dumps([batch.tolist() for batch in batches]))
"""


def ids_of(uri, **settings):
    batches = trainer_utils.iterate(uri, "train", **SETTINGS, **settings)
    return [batch.tolist() for batch in batches]


def test_variables_of_torchrun_give_each_process_its_share(numbered):
    found = []
    for rank in range(2):
        done = run_python(textwrap.dedent(SHARES), numbered, RANK=str(rank), WORLD_SIZE="2")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found == [ids_of(numbered, rank=rank, world_size=2) for rank in range(2)]
    ids = [number for share in found for batch in share for number in batch]
    assert sorted(ids) == list(range(150))


def test_a_given_rank_goes_before_a_detected_one(numbered, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert ids_of(numbered, world_size=1) == ids_of(numbered, rank=0, world_size=1)
    assert ids_of(numbered) == ids_of(numbered, rank=1, world_size=2)


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"rank": 1}, "world_size"),
        ({"world_size": 2}, "rank"),
        ({"num_workers": 4}, "rank"),  # mistaken for a DataLoader's
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"rank": -1, "world_size": 2}, "rank"),
        ({"rank": 0, "world_size": 0}, "world_size"),
        ({"rank": 0, "world_size": 2, "worker": 0}, "worker"),
    ],
)
@pytest.mark.filterwarnings("ignore:worker=:FutureWarning")
def test_half_a_rank_is_refused(numbered, given, setting):
    with pytest.raises(ConfigError, match=f"^{setting}: "):
        trainer_utils.iterate(numbered, "train", **SETTINGS, **given)


def test_the_former_names_warn(numbered):
    with pytest.warns(FutureWarning, match="rank= and world_size="):
        found = ids_of(numbered, worker=1, num_workers=2)
    assert found == ids_of(numbered, rank=1, world_size=2)


@pytest.mark.parametrize("given", [("1", ""), ("", "2"), ("one", "2"), ("2", "2")])
def test_variables_that_make_no_rank_are_refused(numbered, monkeypatch, given):
    for name, value in zip(("RANK", "WORLD_SIZE"), given, strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^rank: "):
        ids_of(numbered)


def test_a_detected_rank_is_logged_once(numbered, monkeypatch, caplog):
    ranks.report_rank.cache_clear()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with caplog.at_level(logging.INFO, logger=ranks.__name__):
        for _ in range(2):
            trainer_utils.iterate(numbered, "train", **SETTINGS)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == "reading as rank 1 of 2, by the variables RANK and WORLD_SIZE"


@pytest.mark.parametrize(
    "names",
    [
        ("KERAS_DISTRIBUTION_PROCESS_ID", "KERAS_DISTRIBUTION_NUM_PROCESSES"),
        ("HOROVOD_RANK", "HOROVOD_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ],
)
def test_variables_of_other_launchers_give_the_share(numbered, monkeypatch, names):
    for name, value in zip(names, ("1", "2"), strict=True):
        monkeypatch.setenv(name, value)
    assert ids_of(numbered) == ids_of(numbered, rank=1, world_size=2)


def test_the_script_of_a_slurm_job_reads_everything(numbered, monkeypatch):
    for name in ("SLURM_NTASKS", "SLURM_NPROCS"):
        monkeypatch.setenv(name, "8")  # what sbatch sets in the one process of the script
    for name, value in (("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")):
        monkeypatch.setenv(name, value)
    assert ids_of(numbered) == ids_of(numbered, rank=0, world_size=1)


TORCHRUN = """
    import json, os, sys
    import torch.distributed as distributed
    import trainer_utils
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    del os.environ["RANK"], os.environ["WORLD_SIZE"]
    data = trainer_utils.torch_dataset(sys.argv[1], "train", batch_size=8, features="id")
    with open(f"{sys.argv[2]}/{rank}.json", "w") as stream:
        json.dump([int(n) for batch in (data[i] for i in range(len(data))) for n in batch], stream)
    distributed.destroy_process_group()
"""


def test_torchrun_reads_each_record_once(numbered, tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TORCHRUN))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*command, script, numbered, tmp_path], check=True, timeout=300)
    shares = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == list(range(150))
