"""Which records a run saw at which step, from the ledger that it left.

from pipelines.tools.ledger import RunLedger

run = RunLedger("checkpoints/")
print(run.at_step(1234))
print(run.of_record("cat/1.jpg"))
"""

from pipelines.tools.ledger.run import RunLedger, RunRecord, RunStep, RunSummary

__all__ = ["RunLedger", "RunRecord", "RunStep", "RunSummary"]
