"""Lightning and Accelerate, on two real ranks, read each record exactly once in each epoch."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning", reason="of the extra `frameworks-test`")
pytest.importorskip("accelerate", reason="of the extra `frameworks-test`")

HEAD = """
    import json, os, sys, warnings
    warnings.simplefilter("ignore")
    import torch
    import trainer_utils
    from torch.utils.data import DataLoader
    uri, out, kind = sys.argv[1:]
    settings = dict(batch_size=8, features="id", seed=3)

    def report(ids, error=""):
        with open(f"{out}/{os.environ['RANK']}.json", "w") as stream:
            json.dump({"ids": ids, "error": error}, stream)

    def load():
        if kind.startswith("loader"):
            return trainer_utils.torch_loader(uri, "train", num_workers=2, **settings)
        dataset = trainer_utils.torch_dataset(uri, "train", **settings)
        return DataLoader(dataset, batch_size=None)
"""
LIGHTNING = """
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.ids = torch.nn.Linear(1, 1), {}

        def training_step(self, batch, index):
            self.ids.setdefault(self.current_epoch, []).extend(batch.tolist())
            return self.layer(batch[:, None].float() * 1e-6).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    module = Module()
    module.train_dataloader = load  # called once the ranks are known
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    try:
        trainer.fit(module)
    except Exception as error:
        report(None, str(error))
    else:
        report(module.ids)
"""
ACCELERATE = """
    from accelerate import Accelerator, DataLoaderConfiguration

    config = DataLoaderConfiguration(dispatch_batches=True if "dispatched" in kind else None)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    loader = load()
    try:
        loader = accelerator.prepare(loader)
        ids = {}
        for epoch in range(2):
            for batch in loader:
                ids.setdefault(epoch, []).extend(batch.tolist())
    except Exception as error:
        report(None, str(error))
        os._exit(0)
    report(ids)
"""


def run(script: str, uri: str, folder: Path, kind: str) -> list[dict[str, object]]:
    """Run a script on two ranks, and return their reports."""
    program = folder / "train.py"
    program.write_text(textwrap.dedent(HEAD) + textwrap.dedent(script))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, program, uri, folder, kind],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    reports = [folder / f"{rank}.json" for rank in range(2)]
    assert any(report.exists() for report in reports), done.stderr
    return [json.loads(report.read_text()) for report in reports if report.exists()]


def check_each_record_once(reports: list[dict[str, object]]) -> None:
    assert [report["error"] for report in reports] == ["", ""]
    for epoch in range(2):
        ids = [number for report in reports for number in report["ids"][str(epoch)]]
        assert sorted(ids) == list(range(150)), f"epoch {epoch}"
    orders = [reports[0]["ids"][str(epoch)] for epoch in range(2)]
    assert len({tuple(order) for order in orders}) == 2, "epochs are shuffled differently"


def test_lightning_reads_each_record_once(numbered, tmp_path):
    check_each_record_once(run(LIGHTNING, numbered, tmp_path, "loader"))


def test_lightnings_sampler_is_refused(numbered, tmp_path):
    for report in run(LIGHTNING, numbered, tmp_path, "dataset"):
        assert "use_distributed_sampler=False" in report["error"]


def test_accelerate_reads_each_record_once(numbered, tmp_path):
    check_each_record_once(run(ACCELERATE, numbered, tmp_path, "loader, dispatched"))


def test_a_loader_that_accelerate_dispatches_is_refused(numbered, tmp_path):
    for report in run(ACCELERATE, numbered, tmp_path, "dataset, dispatched"):
        assert "torch_loader" in report["error"]
