"""What lies below some folders, and what of it names records.

datasets, files, unread = survey(["runs/"])
found = search_dataset("runs/examples/5", names)    # its records, rejects, settings and labels
why = why_it_remains("runs/report.html", ["runs/"], names)
"""

import collections
import contextlib
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence

from components.report.records.lookup import encode_name, names_of
from pipelines.tools.forget.names import Names, forgotten_label
from pipelines.tools.verification.metadata_checks import label_features
from trainer_utils.dataset import Dataset, open_dataset, read_shard_blocks
from trainer_utils.dataset.files import read_manifest, read_origin
from trainer_utils.format import DatasetError
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.json_text import JsonObject, json_lines
from trainer_utils.format.manifest import FORGOTTEN_KEY
from trainer_utils.format.naming import LINEAGE_FILE, MANIFEST_FILE, NAME_FEATURES, REJECTS_FILE
from trainer_utils.storage import display_path, exists, join, list_files, open_for_reading

__all__ = [
    "JOURNAL_FOLDER",
    "FoundDataset",
    "decide_labels",
    "rejects_without",
    "search_dataset",
    "survey",
    "why_it_remains",
]

JOURNAL_FOLDER = ".tfx-shards-forget"
"""Where a run writes down what it is about to do, until its certificate is written."""
_BLOCK_BYTES = 8 << 20
_PACKED = (
    *(b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\3\4", b"7z\xbc\xaf"),
    *(b"PAR1", b"ARROW1", b"ORC", b"\x89HDF", b"%PDF"),
)

_Counts = dict[str, dict[str, "collections.Counter[str]"]]  # of labels, by feature and split
_NONE = collections.Counter[str]()


def survey(roots: Sequence[str]) -> tuple[list[str], list[str], dict[str, str]]:
    """Sorts all files below some folders by what they are of. No record is read.

    Returns:
        Datasets with a manifest of ours; all other files; what cannot be looked into, and why.

    Raises:
        OSError: a folder cannot be listed.
    """
    datasets, files, unread = [], [], dict[str, str]()
    for root in roots:
        listed, own = list(list_files(root)), set[str]()
        for path in (file.path for file in listed):
            folder, _, name = path.rpartition("/")
            if name == MANIFEST_FILE:
                uri = join(root, folder) if folder else root
                with contextlib.suppress(ValueError, OSError):  # else it is as any file
                    if (manifest := read_manifest(uri)) is not None:
                        datasets.append(uri)
                        inner = [MANIFEST_FILE, LINEAGE_FILE, *(s.path for s in manifest.shards)]
                        own |= {join(folder, each) for each in [*inner, *manifest.published]}
        for file in listed:
            whole = join(root, file.path)
            if file.path in own or JOURNAL_FOLDER in file.path.split("/"):
                continue
            if file.problem is None:
                files.append(whole)
            elif file.is_folder or not _leads_inside(whole, root):
                unread[whole] = f"it cannot be searched: {file.problem[1]}"
    return datasets, files, unread


def _leads_inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(root)}{os.sep}")


@dataclasses.dataclass(kw_only=True)
class FoundDataset:
    """What of a dataset names records.

    Args:
        dataset: opened.
        records: those of the names: `name`, `split`, `shard`, `number` and `bytes` of each.
        others: how many other records hold a name.
        rejects: the names of its rejected inputs.
        is_told: whether its settings, its lineage or the details of its rejects name one.
        named, kept, lost: its labels that name one; that its other records have; that its records
            of the names have, or that name one.
        labels: ids by feature of labels that go, which `decide_labels` finds.
        label_counts: of the other records, as its manifest has them.
    """

    dataset: Dataset
    records: list[JsonObject] = dataclasses.field(default_factory=list)
    others: int = 0
    rejects: list[str] = dataclasses.field(default_factory=list)
    is_told: bool = False
    named: set[str] = dataclasses.field(default_factory=set)
    kept: set[str] = dataclasses.field(default_factory=set)
    lost: set[str] = dataclasses.field(default_factory=set)
    labels: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
    label_counts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)

    @property
    def is_rewritten(self) -> bool:
        """Whether there is something to be taken out of it."""
        return bool(self.records or self.rejects or self.is_told or self.labels)

    @property
    def remains(self) -> str:
        """What of it names one and stays."""
        what = [f"{self.others} of its other records hold one"] * bool(self.others)
        what += ["one is the name of a class that others have"] * bool(self.named & self.kept)
        return "; ".join(what)


def search_dataset(uri: str, names: Names) -> FoundDataset:
    """Looks at every record and every small file of a dataset of ours; no index is believed.

    Raises:
        DatasetError: it is not whole, or damaged.
        OSError: it cannot be read.
    """
    dataset = open_dataset(uri, inspect=False)
    manifest, files = dataset.manifest, dataset.files
    assert manifest is not None
    assert files is not None
    found = FoundDataset(dataset=dataset)
    counted = {*dataset.vocabularies, *label_features(files, manifest)}
    known = {n: f for n, f in dataset.features.items() if n in counted and not f.is_sequence}
    counted = {name for name, feature in known.items() if feature.type == "int"}
    kept: _Counts = {feature: {} for feature in sorted(counted)}
    gone: _Counts = {feature: {} for feature in kept}
    wanted = {encode_name(name): name for name in names.names}
    for shard in manifest.shards:
        number = 0
        for block in read_shard_blocks(join(uri, shard.path)):
            for record in block.records():
                try:
                    values = decode_example(record, {*NAME_FEATURES, *counted})
                except DatasetError:  # no example, or one with feature lists
                    values = {}
                own = wanted.keys() & names_of(values)
                if own:
                    place = {"split": shard.split, "shard": shard.path, "number": number}
                    name = wanted[min(own)]
                    found.records.append({"name": name, **place, "bytes": len(record)})
                elif any(name in record for name in wanted):
                    found.others += _holds(record, names)
                for feature, by_split in (gone if own else kept).items():
                    of_split = by_split.setdefault(shard.split, collections.Counter())
                    labels = dataset.vocabularies.get(feature, ())
                    for value in values.get(feature, ()):
                        if isinstance(value, int):
                            has_name = 0 <= value < len(labels)
                            of_split[labels[value] if has_name else str(value)] += 1
                number += 1
    _, found.rejects, found.is_told = rejects_without(dataset, names)
    origin = read_origin(uri, manifest)
    steps = [origin.made_by, *(each.made_by for each in origin.ancestors)]
    for given in (manifest.config, *(step.settings for step in steps if step is not None)):
        own_settings = {name: value for name, value in given.items() if name != FORGOTTEN_KEY}
        found.is_told |= names.without(own_settings) != own_settings
    for feature, labels in dataset.vocabularies.items():
        found.named.update(label for label in labels if names.are_told(label))
        found.lost.update(*gone.get(feature, {}).values())
        found.kept.update(*(kept[feature].values() if feature in kept else [labels]))
    found.lost |= found.named
    before = {split: dict(of) for split, of in manifest.label_counts.items() if of}
    for feature, by_split in kept.items():  # of which of them they are is nowhere written
        both = {s: dict(by_split.get(s, _NONE) + of) for s, of in gone[feature].items()}
        if before == {s: of for s, of in ({**by_split, **both}).items() if of}:
            found.label_counts = {s: dict(of) for s, of in by_split.items()}
            break
    return found


def decide_labels(found: Iterable[FoundDataset]) -> None:
    """Which labels go: those that records of the names had and no others have, of any dataset."""
    found = list(found)
    goes = {label for one in found for label in one.lost}
    goes -= {label for one in found for label in one.kept}
    for one in found:
        labels = {
            feature: [n for n, label in enumerate(of) if label in goes - {forgotten_label(n)}]
            for feature, of in one.dataset.vocabularies.items()
        }
        one.labels = {feature: ids for feature, ids in labels.items() if ids}


def _holds(record: bytes, names: Names) -> bool:
    try:
        values = [v for found in decode_example(record).values() for v in found]
    except DatasetError:
        return names.are_in(record)
    return any(names.are_in(bytes(v)) for v in values if isinstance(v, memoryview))


def rejects_without(dataset: Dataset, names: Names) -> tuple[list[JsonObject], list[str], bool]:
    """The rejects of a dataset but for those of some names, with no name in their details.

    Returns:
        These; the names of the others; whether a detail had one.
    """
    if not exists(join(dataset.uri, REJECTS_FILE)):
        return [], [], False
    entries = json_lines(dataset.read_text(REJECTS_FILE), path=join(dataset.uri, REJECTS_FILE))
    sources = {display_path(name): name for name in names.names}
    gone = [sources[e["source"]] for e in entries if e.get("source") in sources]
    kept = [entry for entry in entries if entry.get("source") not in sources]
    told = [{**entry, "detail": names.without(entry.get("detail", ""))} for entry in kept]
    is_told = any(
        one["detail"] != old.get("detail", "") for one, old in zip(told, kept, strict=True)
    )
    return told, gone, is_told


def why_it_remains(path: str, roots: Sequence[str], names: Names) -> str:
    """Why a file of another program is listed; nothing of one that names no record.

    Raises:
        OSError: it cannot be read.
    """
    inner = path[max(len(root) for root in roots if path.startswith(root)) :]
    forms = f"/{inner}/", f"/{os.path.splitext(inner)[0]}/"
    is_called_so = any(f"/{name}/" in form for name in names.names for form in forms)
    if is_called_so or names.are_in(os.fsencode(os.path.basename(inner))):
        return "a file or folder of this name: remove it, or it is converted again"
    tail = b""
    with open_for_reading(path) as stream:
        while chunk := stream.read(_BLOCK_BYTES):
            if not tail and chunk.startswith(_PACKED):
                return "it cannot be searched: it is packed. See whether it names one"
            if names.are_in(tail + chunk):
                return "it names one: remove it, make it again, or take out what it says"
            tail = chunk[-names.longest - 1 :]
    return ""
