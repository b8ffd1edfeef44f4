"""Report unreadable records from a loader's processes to its main process.

    reports = SubstituteReports()          # before the processes start
    reports.send(unreadable)               # in each of them, forked or spawned
    unreadable.update(reports.receive())   # in the process that started them

Batches come through the framework's queue, which has no place for anything else.
"""

import json
import logging
from collections.abc import Mapping

from trainer_utils.format.slices import RecordName
from trainer_utils.storage.line_log import LineLog

_logger = logging.getLogger(__name__)


class SubstituteReports:
    """Reports from the processes of one loader."""

    def __init__(self) -> None:
        self._log = LineLog("unreadable")
        self._sent: set[RecordName] = set()

    @property
    def is_owner(self) -> bool:
        """Whether this is the receiving process."""
        return self._log.is_owner

    def send(self, unreadable: Mapping[RecordName, str]) -> None:
        """Report the records that this process has not reported yet."""
        new = {name: why for name, why in unreadable.items() if name not in self._sent}
        if not new or self.is_owner:
            return
        self._sent.update(new)
        try:
            self._log.append(json.dumps([*name, why]) for name, why in new.items())
        except OSError as error:
            _logger.warning(
                "%d records could not be read and were replaced by others, but %r, which reports "
                "them to the main process, cannot be written to: %s. `unreadable` and the ledger "
                "do not include them: %s",
                *(len(new), self._log.path, error, "; ".join([*new.values()][:3])),
            )

    def receive(self) -> dict[RecordName, str]:
        """Return the records that were reported since the last call."""
        if not self.is_owner:
            return {}
        reports = [json.loads(line) for line in self._log.read_new()]
        return {RecordName(path, number): why for path, number, why in reports}
