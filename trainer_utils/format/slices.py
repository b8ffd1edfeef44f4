"""The slices of splits that a reader asks for: `train[:80%]`, `train[10%:]+eval`.

    resolve_slices("train[:80%]+eval", {"train": 100, "eval": 20})
    # [SplitRange('train', 0, 80), SplitRange('eval', 0, 20)]

Source: the grammar and the rounding of percentages are Datum's and TFDS's
(`datum/utils/reader_utils.py`): one `%` makes both bounds percentages, rounded to the nearest.
"""

import dataclasses
import re
from collections.abc import Mapping

from trainer_utils.format.errors import ConfigError, DatasetError
from trainer_utils.format.naming import canonical_split
from trainer_utils.format.spelling import did_you_mean

_SLICE = re.compile(
    r"(?P<split>\w+)"
    r"(?:\[(?:(?P<start>-?\d+)(?P<start_percent>%)?)?:(?:(?P<stop>-?\d+)(?P<stop_percent>%)?)?\])?"
)


@dataclasses.dataclass(frozen=True)
class SplitRange:
    """Records `start` to `stop` (not included) of a split, in the order of its shards."""

    split: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def resolve_slices(spec: str, records: Mapping[str, int]) -> list[SplitRange]:
    """Turns a spec into ranges of records.

    Args:
        spec: slices joined by `+`. `val` and the like find the split that goes by another usual
            spelling, such as `eval`, where no split has that very name.
        records: by split.

    Returns:
        One range a slice, in the order of the spec.

    Raises:
        ConfigError: the spec does not parse, or has more than 100%.
        DatasetError: it names an unknown split, or reaches past its end.
    """
    parts = map(str.strip, spec.split("+")) if isinstance(spec, str) else [spec]
    return [_resolve(part, records) for part in parts]


def _resolve(part: str, records: Mapping[str, int]) -> SplitRange:
    match = _SLICE.fullmatch(part) if isinstance(part, str) else None
    if match is None:
        raise ConfigError.of(
            "split", part, allowed="a name, or a slice such as 'train[:80%]' or 'train[100:200]'"
        )
    split = _find_split(match["split"], records)
    size = records[split]
    percent = bool(match["start_percent"] or match["stop_percent"])
    start = _bound(match["start"], 0, size, percent, part)
    stop = _bound(match["stop"], size, size, percent, part)
    if start > stop:
        raise DatasetError(
            f"split {part!r}: expected a start before the stop, "
            f"got [{start}:{stop}] of {size} records"
        )
    return SplitRange(split, start, stop)


def _find_split(name: str, records: Mapping[str, int]) -> str:
    if name in records:
        return name
    same = [split for split in records if canonical_split(split) == canonical_split(name)]
    if canonical_split(name) is not None and len(same) == 1:
        return same[0]
    known = ", ".join(records) or "none, of a dataset without splits"
    like = did_you_mean(name, records)
    if same and canonical_split(name):
        like = f" Did you mean {' or '.join(map(repr, same))}?"
    raise DatasetError(f"split {name!r}: expected one of {known}.{like}")


def _bound(text: str | None, default: int, size: int, percent: bool, part: str) -> int:
    if text is None:
        return default
    if percent and abs(int(text)) > 100:  # whatever it is rounded to
        raise ConfigError.of("split", part, allowed="percentages from -100 to 100")
    bound = round(int(text) * size / 100) if percent else int(text)
    if abs(bound) > size:
        raise DatasetError(f"split {part!r}: expected bounds within its {size} records, got {text}")
    return bound + size if bound < 0 else bound
