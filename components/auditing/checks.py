"""The checks of an audit.

Source: the Kolmogorov-Smirnov test's asymptotic bound; Pearson's chi-squared test, its critical
value by Wilson and Hilferty, 1931.
"""

import collections
import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from components.auditing.disjoint_sets import DisjointSets
from components.auditing.findings import Finding
from components.auditing.scanning import IMAGE, TEXT, Scan
from trainer_utils.core.printable import image_extent

_MAX_RECORDS = 20  # records of a finding that are named
_BLANK_CONTRAST = 1.5  # grey levels
_DARK_BRIGHTNESS = 16.0
_BLURRED_SHARPNESS = 0.09  # relative to the contrast; sharp photos have 0.3 to 0.5, skies 0.12
_ODD_ASPECT = 3.0  # factor above or below the median aspect ratio
_ODD_SIDE = 4.0  # factor above or below the median of the shorter side
_COMPARED_WORDS = 1000
_MIN_SHIFT = 0.1  # the smallest distance that is reported
_KOLMOGOROV = 1.95  # the 0.999 quantile of the Kolmogorov distribution
_NORMAL = 3.09  # the 0.999 quantile of the normal distribution
_MIN_EXPECTED = 1.0  # expected count of a class in a sample; rarer classes are pooled


Numbers = npt.NDArray[np.int64]


def find_all(scan: Scan, before: Scan | None = None) -> list[Finding]:
    """Return all findings in the order of the dataset; `before` scans an earlier dataset."""
    findings = itertools.chain(
        _find_copies(scan),
        _find_missing_classes(scan),
        _find_shifts(scan, before),
        _find_odd_images(scan),
    )

    def place(finding: Finding) -> tuple[object, ...]:
        first = (
            (finding.records[0].split, finding.records[0].number) if finding.records else ("", 0)
        )
        return first, finding.splits, finding.detail

    return sorted(findings, key=place)


def _find_copies(scan: Scan) -> Iterator[Finding]:
    """Yield groups of records with the same or nearly the same content, and label conflicts."""
    contents = np.ascontiguousarray(scan.rows["content"]).view("S16")
    _, first, inverse = np.unique(contents, return_index=True, return_inverse=True)
    exact = first[inverse.ravel()]  # the first record with the same content
    similar = DisjointSets(len(exact))
    similar.unite(np.stack([np.arange(len(exact)), exact], axis=1))
    for kind, groups in ((IMAGE, scan.images.groups()), (TEXT, scan.groups())):
        members = np.flatnonzero(scan.rows["sketch"] == kind)
        similar.unite(np.stack([members, members[groups]], axis=1))
    for group in _members(similar.groups()):
        yield from _findings_of(scan, group, exact[group])


def _members(groups: npt.NDArray[np.int32]) -> Iterator[Numbers]:
    order = np.argsort(groups, kind="stable")
    _, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
    for start, count in zip(starts[counts > 1], counts[counts > 1], strict=True):
        yield order[start : start + count]


def _findings_of(scan: Scan, group: Numbers, exact: Numbers) -> Iterator[Finding]:
    """Yield the findings of one group of copies."""
    splits = scan.rows["split"][group]
    is_exact = len(set(exact.tolist())) == 1
    how = "the same" if is_exact else "nearly the same"
    if len(set(splits.tolist())) > 1:
        yield _finding(scan, "leakage", group, f"{len(group)} records with {how} content")
    for split in sorted(set(splits.tolist())):
        here = group[splits == split]
        contents = exact[splits == split]
        firsts, counts = np.unique(contents, return_counts=True)
        for first in firsts[counts > 1].tolist():
            same = here[contents == first]
            yield _finding(scan, "duplicates", same, f"{len(same)} records with the same content")
        if len(firsts) > 1:
            detail = f"{len(here)} records with nearly the same content"
            yield _finding(scan, "near_duplicates", here, detail)
    for first in sorted(set(exact.tolist())):
        same = group[exact == first]
        labels = sorted({scan.labels[n] for n in scan.rows["label"][same].tolist() if n >= 0})
        if len(labels) > 1:
            detail = f"the same content is labelled {', '.join(map(repr, labels))}"
            yield _finding(scan, "label_conflict", same, detail)


def _finding(scan: Scan, kind: str, records: Numbers, detail: str) -> Finding:
    splits = np.unique(scan.rows["split"][records])
    return Finding(
        kind=kind,
        splits=tuple(scan.splits[split] for split in splits.tolist()),
        detail=detail,
        count=len(records),
        records=tuple(map(scan.record, records[:_MAX_RECORDS].tolist())),
    )


def _find_missing_classes(scan: Scan) -> Iterator[Finding]:
    """Yield the classes that are missing from a split but present in another."""
    counts = _labels_by_split(scan)
    everywhere = sorted({name for of_split in counts for name in of_split})
    if len(everywhere) * 2 > max(len(scan.rows), 4):
        return  # measured numbers rather than classes, which repeat
    for split, of_split in zip(scan.splits, counts, strict=True):
        for name in sorted({*everywhere} - {*of_split}):
            others = [other for other, has in zip(scan.splits, counts, strict=True) if name in has]
            detail = f"class {name!r} is only in {', '.join(others)}"
            yield Finding(kind="missing_class", splits=(split,), detail=detail)


def _labels_by_split(scan: Scan) -> list[dict[str, int]]:
    labels_by_split: list[dict[str, int]] = []
    for split in range(len(scan.splits)):
        labels = scan.rows["label"][scan.rows["split"] == split]
        counts = np.bincount(labels[labels >= 0], minlength=len(scan.labels)).tolist()
        labels_by_split.append({name: n for name, n in zip(scan.labels, counts, strict=True) if n})
    return labels_by_split


def _find_shifts(scan: Scan, before: Scan | None) -> Iterator[Finding]:
    """Yield splits that differ from the largest one, or from the same split of `before`."""
    sizes = np.bincount(scan.rows["split"], minlength=len(scan.splits))
    largest = int(np.argmax(sizes)) if len(sizes) else 0
    for split in range(len(scan.splits)):
        if split != largest:
            yield from _shifts((scan, split), (scan, largest), "")
    for split, name in enumerate(scan.splits if before else ()):
        if before and name in before.splits:
            other = before, before.splits.index(name)
            yield from _shifts((scan, split), other, " of the dataset before")


def _shifts(
    compared: tuple[Scan, int], reference: tuple[Scan, int], reference_note: str
) -> Iterator[Finding]:
    """Yield the properties that differ significantly between two splits.

    Args:
        compared: a dataset, and the number of its split.
        reference: the dataset and split to compare with.
        reference_note: the end of each finding's sentence, after the name of the reference split.
    """
    sides = compared, reference
    label_counts = [_labels_by_split(scan)[split] for scan, split in sides]
    total_words = collections.Counter[str]()
    for scan, split in sides:
        total_words.update(scan.words[split])
    frequent = sorted(total_words, key=lambda word: (-total_words[word], word))[:_COMPARED_WORDS]
    word_counts = [{word: scan.words[split][word] for word in frequent} for scan, split in sides]
    distances = [  # each 0 unless it is significant
        ("label_shift", "labels", distance_of_counts(*label_counts)),
        ("vocabulary_shift", "words", distance_of_counts(*word_counts)),
    ]
    for kind, field, sketch in (
        ("size_shift", "height", IMAGE),
        ("size_shift", "width", IMAGE),
        ("brightness_shift", "brightness", IMAGE),
        ("length_shift", "words", TEXT),
        ("length_shift", "characters", TEXT),
    ):
        values = []
        for scan, split in sides:
            chosen = (scan.rows["split"] == split) & (scan.rows["sketch"] == sketch)
            values.append(scan.rows[field][chosen])
        distances.append((kind, field, distance_of_numbers(*values)))
    splits = tuple(dict.fromkeys(scan.splits[split] for scan, split in sides))
    for kind, field, distance in distances:
        if distance:
            detail = f"{field}: {splits[0]} is {distance:.2f} from {splits[-1]}{reference_note}"
            yield Finding(kind=kind, splits=splits, detail=detail, measure=round(distance, 6))


def _find_odd_images(scan: Scan) -> Iterator[Finding]:
    """Yield images that are blank, dark, blurred, or of unusual shape or size."""
    images = np.flatnonzero(scan.rows["sketch"] == IMAGE)
    if not len(images):
        return
    rows = scan.rows[images]
    is_blank = rows["contrast"] < _BLANK_CONTRAST
    is_dark = (rows["brightness"] < _DARK_BRIGHTNESS) & ~is_blank
    is_blurred = (rows["sharpness"] < _BLURRED_SHARPNESS * rows["contrast"]) & ~is_blank & ~is_dark
    aspects = np.log(rows["width"] / rows["height"])
    sides = np.log(np.minimum(rows["height"], rows["width"]))
    odd = {
        "blank": is_blank,
        "dark": is_dark,
        "blurred": is_blurred,
        "odd_aspect": np.abs(aspects - np.median(aspects)) > np.log(_ODD_ASPECT),
        "odd_size": np.abs(sides - np.median(sides)) > np.log(_ODD_SIDE),
    }
    for kind, chosen in odd.items():
        for number in images[chosen].tolist():
            row = scan.rows[number]
            detail = (
                f"{image_extent(row['height'], row['width'])} pixels, "
                f"brightness {row['brightness']:.0f}, "
                f"contrast {row['contrast']:.1f}, sharpness {row['sharpness']:.1f}"
            )
            yield _finding(scan, kind, np.array([number]), detail)


def distance_of_numbers(values: npt.ArrayLike, other_values: npt.ArrayLike) -> float:
    """Return the largest difference of the distribution functions; 0 if not significant."""
    sides = (values, other_values)
    first, second = (np.sort(np.asarray(side, np.float64)) for side in sides)
    if not len(first) or not len(second):
        return 0.0
    points = np.concatenate([first, second])
    shares = [np.searchsorted(v, points, side="right") / len(v) for v in (first, second)]
    distance = float(np.abs(shares[0] - shares[1]).max())
    by_chance = _KOLMOGOROV * math.sqrt(1 / len(first) + 1 / len(second))
    return distance if distance > max(by_chance, _MIN_SHIFT) else 0.0


def total_variation(first: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return half the sum of absolute differences of shares, in [0, 1]; 0 without counts."""
    table = _table(first, other)
    totals = table.sum(axis=1, keepdims=True)
    return float(np.abs(np.diff(table / totals, axis=0)).sum() / 2) if totals.all() else 0.0


def distance_of_counts(first: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the total variation, in [0, 1]; 0 if small or not significant at 0.001."""
    distance = total_variation(first, other)
    if distance < _MIN_SHIFT:
        return 0.0
    table = _table(first, other)
    totals = table.sum(axis=1, keepdims=True)
    expected = totals * table.sum(axis=0) / table.sum()
    rare = expected.min(axis=0) < _MIN_EXPECTED
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    expected = np.column_stack([expected[:, ~rare], expected[:, rare].sum(axis=1)])
    filled = expected.min(axis=0) > 0
    squares = ((table - expected) ** 2)[:, filled] / expected[:, filled]
    freedom = int(filled.sum()) - 1
    if freedom < 1:
        return 0.0
    part = 2 / (9 * freedom)
    by_chance = freedom * (1 - part + _NORMAL * math.sqrt(part)) ** 3
    return distance if float(squares.sum()) > by_chance else 0.0


def _table(first: Mapping[str, int], other: Mapping[str, int]) -> npt.NDArray[np.float64]:
    """Return the counts of both by name, `(2, names)`."""
    names = sorted({*first, *other})
    return np.array([[counts.get(name, 0) for name in names] for counts in (first, other)], float)
