"""Record which records a run read at which step, and their losses."""

from trainer_utils.ledger.input_ledger import InputHistory, InputLedger
from trainer_utils.ledger.recorder import InputRecorder, read_ledger, read_losses

__all__ = ["InputHistory", "InputLedger", "InputRecorder", "read_ledger", "read_losses"]
