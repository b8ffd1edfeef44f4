"""A look at input shards before they are moved: where their records lie, and their classes.

    survey = survey_shard(shard, stratify_by="label")
    survey.index.lengths, survey.classes

Needed where nothing says how many records a shard has, where shards are to be equal in bytes or in
classes, and where a split is larger than memory. Lengths come from a record index or from the
headers alone; only for classes are records parsed.
"""

import dataclasses
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from components.common.summaries import working_folder
from components.common.worker_errors import report_errors
from components.shard_balancer.changes import Changes, Tally
from components.shard_balancer.inputs import InputShard
from components.shard_balancer.move import Move
from trainer_utils.dataset.opening import check_count
from trainer_utils.dataset.record_index import read_index
from trainer_utils.dataset.shards import read_shard_blocks
from trainer_utils.format import DatasetError, RecordBlock, RecordIndex
from trainer_utils.format.framing import Lengths
from trainer_utils.format.tfrecord import compact
from trainer_utils.storage.file_system import MachineError, persist
from trainer_utils.storage.files import make_folder, read_bytes, write_atomically
from trainer_utils.storage.paths import join

__all__ = ["ShardSurvey", "StoredSurveys", "keep_survey", "survey_shard"]

Ints = npt.NDArray[np.int64]
_TFMD_TYPES = {"int": schema_pb2.INT, "string": schema_pb2.BYTES}


@dataclasses.dataclass(frozen=True)
class ShardSurvey:
    """Of one input shard, with what is to be changed of it.

    Args:
        index: where its records lie, of those that stay.
        classes: `(records,)`, the place of each record's class in `values`; None where classes
            were not asked for.
        values: the classes that occur, as text, in order of occurrence.
        tally: what becomes of its records; None where nothing is changed.
    """

    index: RecordIndex
    classes: Lengths | None = None
    values: tuple[str, ...] = ()
    tally: Tally | None = None


def keep_survey(move: Move, numbered: tuple[int, InputShard]) -> dict[str, int]:
    """Surveys a numbered shard, and keeps the result as a file in the working folder."""
    number, shard = numbered
    with report_errors(move.uri, f"survey-{number:06d}"):
        survey = survey_shard(shard, stratify_by=move.settings.stratify_by, changes=move.changes())
        _write_survey(move.uri, number, survey)
    return {}


def survey_shard(
    given: InputShard, *, stratify_by: str | None = None, changes: Changes | None = None
) -> ShardSurvey:
    """Looks at one shard.

    Args:
        stratify_by: the feature whose values are the classes.

    Raises:
        CorruptShardError: it is damaged.
        DatasetError: it has another number of records than the dataset says, or an example has
            several classes.
    """
    shard = given.shard
    if stratify_by is None and changes is None:
        return ShardSurvey(read_index(shard))
    reader = None if stratify_by is None else _ClassReader(stratify_by, shard.path)
    tally = None if changes is None else Tally()
    lengths: list[Lengths] = [np.zeros(0, np.uint16)]
    classes: list[Lengths] = [np.zeros(0, np.uint16)]
    for block in read_shard_blocks(shard.path):
        if changes is not None and tally is not None:
            block = changes.apply(block, tally, path=shard.path, source=given.source)
        lengths.append(compact(block.lengths))
        if reader is not None and len(block):
            classes.append(compact(reader.read(block)))
    if tally is not None:
        check_count(shard, tally.found)
    index = RecordIndex(np.concatenate(lengths))
    if reader is None:
        return ShardSurvey(index, tally=tally)
    return ShardSurvey(index, np.concatenate(classes), tuple(reader.codes), tally)


class _ClassReader:
    """Each example's value of one feature, as a number."""

    def __init__(self, feature: str, path: str) -> None:
        self._feature, self._path = feature, path
        from tfx_bsl.coders import example_coder  # with TensorFlow; few workers decode examples

        self._make_decoder = example_coder.ExamplesToRecordBatchDecoder
        self._decoder = self._make_decoder()
        self._knows_type = False
        self.codes: dict[str, int] = {}

    def read(self, block: RecordBlock) -> Ints:
        """`(records,) int64`."""
        where = f"{self._path}, near byte {block.file_offset}"
        try:
            batch = persist(self._path, self._decoder.DecodeBatch, block.records())
        except MachineError:
            raise
        except Exception as error:
            raise DatasetError(
                f"feature {self._feature!r}: expected tf.train.Example with one type of it, "
                f"got others: {error} ({where})"
            ) from error
        place = batch.schema.get_field_index(self._feature)
        if place < 0 or pa.types.is_null(batch.column(place).type):
            return np.full(len(block), self._code("missing"), np.int64)
        return self._codes_of(batch.column(place), where)

    def _codes_of(self, column: pa.Array, where: str) -> Ints:
        kind = column.type.value_type
        if pa.types.is_floating(kind):
            raise DatasetError(
                f"stratify_by: expected a feature of integers or texts, got floats of "
                f"{self._feature!r} ({where})"
            )
        self._skip_other_features("int" if pa.types.is_integer(kind) else "string")
        lengths = np.diff(np.asarray(column.offsets))
        if lengths.max(initial=0) > 1:
            raise DatasetError(
                f"stratify_by: expected one value of {self._feature!r} an example, got "
                f"{int(lengths.max())} ({where})"
            )
        encoded = column.flatten().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = np.array([self._code(repr(name)) for name in names], np.int64)
        classes = np.empty(len(column), np.int64)
        classes[lengths == 1] = codes[np.asarray(encoded.indices)] if names else 0
        if (lengths == 0).any():
            classes[lengths == 0] = self._code("missing")
        return classes

    def _code(self, value: str) -> int:
        return self.codes.setdefault(value, len(self.codes))

    def _skip_other_features(self, kind: str) -> None:
        """Once the type is known the decoder can skip all other features, such as images."""
        if not self._knows_type:
            schema = schema_pb2.Schema()
            schema.feature.add(name=self._feature, type=_TFMD_TYPES[kind])
            self._decoder = self._make_decoder(schema.SerializeToString())
            self._knows_type = True


class StoredSurveys(Sequence[ShardSurvey]):
    """What `keep_survey` kept of some shards, read when asked for: one shard's fits memory.

    Args:
        numbers: of the shards among those that were surveyed.
    """

    def __init__(self, uri: str, numbers: Sequence[int]) -> None:
        self._uri, self._numbers = uri, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        return _read_survey(self._uri, self._numbers[place])


def _read_survey(uri: str, number: int) -> ShardSurvey:
    path = _survey_path(uri, number)
    with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
        values = json.loads(str(arrays["values"]))
        classes = arrays.get("classes", None)
        said = json.loads(str(arrays["tally"]))
        tally = None if said is None else Tally.from_json(said)
        return ShardSurvey(RecordIndex(arrays["lengths"]), classes, tuple(values), tally)


def _write_survey(uri: str, number: int, survey: ShardSurvey) -> None:
    path = _survey_path(uri, number)
    make_folder(join(working_folder(uri), "surveys"))
    arrays: dict[str, Any] = {
        "lengths": survey.index.lengths,
        "values": np.array(json.dumps(survey.values)),
        "tally": np.array(json.dumps(None if survey.tally is None else survey.tally.to_json())),
    }
    if survey.classes is not None:
        arrays["classes"] = survey.classes
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    with write_atomically(path, temporary_folder=working_folder(uri)) as target:
        target.write(stream.getvalue())


def _survey_path(uri: str, number: int) -> str:
    return join(working_folder(uri), f"surveys/{number:06d}.npz")
