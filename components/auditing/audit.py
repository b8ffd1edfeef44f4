"""Audit a dataset: copies within and across splits, label conflicts, shifts, odd images."""

import contextlib
import os
from collections.abc import Callable, Sequence

from components.auditing.checks import find_all
from components.auditing.findings import KINDS, LABEL, Audit, Finding
from components.auditing.scanning import Scan
from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.dataset import Dataset, open_dataset


def audit_dataset(
    uri: str | os.PathLike[str],
    *,
    against: str | os.PathLike[str] | None = None,
    label: str = LABEL,
    most: int = 100,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Audit:
    """Read a whole dataset, and optionally another to compare with, and return the findings.

    This takes about a hundred bytes of memory per record, and 8 bytes of disk per word of text.

    Args:
        uri: the uri of any dataset that `open_dataset` reads.
        against: the uri of an earlier dataset.
        label: the feature with the class of a record.
        most: the maximum number of findings to list for each kind; all are counted.
        advance: called regularly with the bytes read since the last call, and the total.

    Raises:
        DatasetError: a uri is not a dataset, or a record is damaged.
        ConfigError: no dataset has the label.
    """
    datasets = [
        open_dataset(place, reads_all=True) for place in (uri, against) if place is not None
    ]
    _check_label(label, datasets)
    total = sum(shard.bytes for dataset in datasets for shard in dataset.shard_files)
    by_kind: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
    with contextlib.ExitStack() as stack:
        scans = [stack.enter_context(Scan(dataset, label)) for dataset in datasets]
        for scan in scans:
            scan.read_all(advance=lambda done: advance(done, total))
        for finding in find_all(*scans):
            by_kind[finding.kind].append(finding)
    return Audit(
        uri=datasets[0].uri,
        against=datasets[1].uri if against is not None else None,
        records=datasets[0].records,
        counts={kind: len(findings) for kind, findings in by_kind.items() if findings},
        findings=[finding for findings in by_kind.values() for finding in findings[:most]],
    )


def _check_label(label: str, datasets: Sequence[Dataset]) -> None:
    """Raise ConfigError for an unknown feature: without classes there are no label conflicts."""
    names = sorted({name for dataset in datasets for name in dataset.features})
    if label != LABEL and label not in names:
        allowed, meant = f"one of the features {', '.join(names)}", did_you_mean(label, names)
        raise ConfigError.of("label", label, allowed=allowed, advice=meant.strip())
