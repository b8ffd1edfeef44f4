"""What all workers of a job know, and what each part of its work gives.

context = JobContext(uri=uri, block_bytes=8 << 20, run_bytes=1 << 28)
result = context.start("train")
for block in context.read(shard, result):      # verified, and edited
    …
"""

import dataclasses
from collections.abc import Iterator, Mapping

from components.balancing.inputs import InputShard
from components.shuffle.edits import EditCounts, Edits
from components.shuffle.external import ExternalShuffle
from trainer_utils.dataset import read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.dataset.shards import check_count
from trainer_utils.format import RecordBlock, Shard, combine_checksums, multiset_checksum


@dataclasses.dataclass
class TaskResult:
    """What was read and written of a part of a split.

    Args:
        content: the order-free checksum of the records, by number of the input they are of.
        kept: the same of the records as they go on, of which some may be changed or left out.
        facts: what their features are, by number of an input that does not say.
        counts: what was changed of them.
    """

    split: str
    content: dict[int, int] = dataclasses.field(default_factory=dict)
    kept: dict[int, int] = dataclasses.field(default_factory=dict)
    facts: dict[int, DatasetFacts] = dataclasses.field(default_factory=dict)
    counts: EditCounts = dataclasses.field(default_factory=EditCounts)
    shards: list[Shard] = dataclasses.field(default_factory=list)

    def add(self, source: int, read: int, kept: int) -> None:
        """Takes in the checksums of some records of an input, as they were read and go on."""
        for sums, more in ((self.content, read), (self.kept, kept)):
            sums[source] = combine_checksums([sums.get(source, 0), more])


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobContext:
    """What all workers of a job know.

    Args:
        uri: of the dataset that is written.
        block_bytes: how much is read or read back at a time.
        run_bytes: how much is put in order at a time.
        infer: the numbers of the inputs whose features are to be found out on the way.
        edits: what is to be changed of the records.
        shuffles: by split.
    """

    uri: str
    block_bytes: int
    run_bytes: int
    infer: frozenset[int] = frozenset()
    edits: Edits = dataclasses.field(default_factory=Edits)
    shuffles: Mapping[str, ExternalShuffle] = dataclasses.field(default_factory=dict)

    def start(self, split: str) -> TaskResult:
        """Nothing yet, but which features are to be found out."""
        return TaskResult(split, facts={source: DatasetFacts() for source in self.infer})

    def read(self, given: InputShard, result: TaskResult) -> Iterator[RecordBlock]:
        """The verified blocks of a shard, edited; those of which nothing stays are left out.

        Args:
            result: what was read is added to it, and to its facts of an input where it has some.

        Raises:
            CorruptShardError: the shard is damaged.
            DatasetError: it has another number of records than the dataset says.
        """
        source, shard, records = given.source, given.shard, 0
        for block in read_shard_blocks(shard.path, block_bytes=self.block_bytes):
            records += len(block)
            kept = self.edits.apply(block, result.counts, path=shard.path, source=source)
            read = multiset_checksum(block.lengths, block.payload_crcs)
            is_same = kept is block
            going_on = read if is_same else multiset_checksum(kept.lengths, kept.payload_crcs)
            result.add(source, read, going_on)
            if not len(kept):
                continue
            if source in result.facts:
                result.facts[source].add(kept, path=shard.path, takes_lists=False)
            yield kept
        check_count(shard, records)
