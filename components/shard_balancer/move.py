"""What all workers of a run know, and what each part of their work leaves.

move = Move(uri=uri, settings=settings, infer=frozenset({0}))
with move.report("gather-train-00000", "train") as moved:
    moved.add(source=0, read=block, kept=block)
    moved.shards.append(shard)
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from components.common.summaries import working_folder, write_summary
from components.common.worker_errors import report_errors
from components.shard_balancer.changes import Changes, load_changes
from components.shard_balancer.settings import BalancerSettings
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import RecordBlock, Shard, combine_checksums, multiset_checksum

__all__ = ["Move", "Moved"]


@dataclasses.dataclass
class Moved:
    """What was read and written of a part of the work.

    Args:
        content: the order-free checksum of the records, by number of the input they are of.
        kept: the same of the records as they go on, of which some may be changed or left out.
        facts: what their features are, by number of an input that does not say.
    """

    content: dict[int, int] = dataclasses.field(default_factory=dict)
    kept: dict[int, int] = dataclasses.field(default_factory=dict)
    facts: dict[int, DatasetFacts] = dataclasses.field(default_factory=dict)
    shards: list[Shard] = dataclasses.field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """What Beam counts of it."""
        return {"records_balanced": sum(shard.records for shard in self.shards)}

    def merge(self, other: "Moved", *, where: str) -> None:
        """Adds what another thread read; `where` goes into the error where facts differ."""
        for mine, others in ((self.content, other.content), (self.kept, other.kept)):
            for source, content in others.items():
                mine[source] = combine_checksums([mine.get(source, 0), content])
        for source, facts in other.facts.items():
            self.facts[source].merge(facts, where=where)

    def add(self, source: int, read: RecordBlock, kept: RecordBlock) -> None:
        """Takes in a block of an input, as it was read and as it goes on."""
        content = _content(read)
        going_on = content if kept is read else _content(kept)
        for sums, more in ((self.content, content), (self.kept, going_on)):
            sums[source] = combine_checksums([sums.get(source, 0), more])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Move:
    """What all workers of a run know.

    Args:
        settings: of the component; lists of names stay behind, workers find them in the folder.
        infer: the numbers of the inputs whose features are to be found out on the way.
        changes_key: of what is to be changed of the records; None: nothing.
    """

    uri: str
    settings: BalancerSettings
    infer: frozenset[int] = frozenset()
    changes_key: str | None = None

    def changes(self) -> Changes | None:
        """What is to be changed of the records."""
        return load_changes(working_folder(self.uri), self.changes_key)

    def start(self) -> Moved:
        """Nothing yet, but which features are to be found out."""
        return Moved(facts={source: DatasetFacts() for source in self.infer})

    @contextlib.contextmanager
    def report(self, name: str, split: str) -> Iterator[Moved]:
        """Keeps the summary `name` of a part of the work: what it moved, or why it failed."""
        moved = self.start()
        with report_errors(self.uri, name):
            yield moved
            summary: dict[str, Any] = {**dataclasses.asdict(moved), "split": split}
            summary["shards"] = [shard.to_entry() for shard in moved.shards]
            write_summary(working_folder(self.uri), name, summary)


def _content(block: RecordBlock) -> int:
    return multiset_checksum(block.lengths, block.payload_crcs)
