"""The small files of a dataset, and its manifest last of all: whoever writes one ends here."""

import contextlib
import os
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from trainer_utils import storage
from trainer_utils.format import ConfigError, Feature, Manifest, naming
from trainer_utils.format.croissant import render_croissant
from trainer_utils.format.datum import render_features, render_shard_info
from trainer_utils.format.manifest import FileDigest


def working_folder(uri: str) -> str:
    """Where a run keeps temporary files and summaries; removed when the dataset is published."""
    return storage.join(uri, naming.WORKING_FOLDER)


def describing_texts(
    features: Mapping[str, Feature],
    records_by_shard: Mapping[str, Mapping[str, int]],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    schema: str,
) -> dict[str, str]:
    """Vocabularies, Datum's two JSON files and `schema.pbtxt`, by path relative to the dataset.

    `records_by_shard` are, for each split, records by such a path; `vocabularies` the values of
    features in the order of their ids.
    """
    texts = {
        naming.vocabulary_file(feature): "".join(f"{value}\n" for value in values)
        for feature, values in vocabularies.items()
    }
    texts[naming.SCHEMA_FILE] = schema
    texts[naming.DATUM_TYPES_FILE] = render_features(features)
    texts[naming.DATUM_SHARDS_FILE] = render_shard_info(records_by_shard)
    return texts


def texts_of_dataset(
    manifest: Manifest,
    features: Mapping[str, Feature],
    *,
    vocabularies: Mapping[str, Sequence[str]],
    schema: str,
    others: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All that stands beside the shards but the manifest, by path relative to the dataset, with
    `others` such as the list of rejects."""
    records_by_shard = {
        split: {shard.path: shard.records for shard in manifest.shards_of(split)}
        for split in manifest.splits
    }
    texts = describing_texts(features, records_by_shard, vocabularies=vocabularies, schema=schema)
    texts |= dict(others or {})
    texts[naming.CROISSANT_FILE] = render_croissant(
        features,
        {split: sum(records.values()) for split, records in records_by_shard.items()},
        vocabularies=vocabularies,
        files=texts,
        producer=manifest.producer,
        fingerprint=manifest.input_fingerprint,
    )
    return texts


def write_texts(uri: str, texts: Mapping[str, str]) -> dict[str, FileDigest]:
    """Writes below `uri`, and returns digests by path relative to it."""
    storage.make_folder(working_folder(uri))
    for path in texts:
        naming.check_inner_path(path)
    for path, text in texts.items():
        storage.write_text(storage.join(uri, path), text, temporary_folder=working_folder(uri))
    return {path: FileDigest.of(text.encode()) for path, text in texts.items()}


def publish_manifest(
    uri: str,
    manifest: Manifest,
    *,
    beside: Iterable[str] = (),
    check: Callable[[], None] = lambda: None,
) -> None:
    """Makes a dataset of what is at `uri`, and `beside`s that the manifest does not name, once all
    of it is on the disk.

    `check` raises where somebody else writes there; it is called before the manifest is written,
    and again before the working folder, which may be theirs by then, is removed.
    """
    shards = [shard.path for shard in manifest.shards]
    storage.sync_files(uri, [*shards, *manifest.published, *beside])
    check()
    path, text = storage.join(uri, naming.MANIFEST_FILE), manifest.to_json()
    storage.write_text(path, text, temporary_folder=working_folder(uri), is_durable=True)
    storage.sync_folder(uri)
    check()
    # Last of all: what lies here without a manifest is known for unfinished by this folder.
    remove_working_folder(uri)


def remove_working_folder(uri: str) -> None:
    """Removes what a run keeps while it writes, and first the file that says what it is of.

    If the process is killed meanwhile, nobody takes the rest for what can be gone on from.
    """
    if storage.exists(run := storage.join(working_folder(uri), naming.RUN_FILE)):
        storage.remove_file(run)
    storage.remove_tree(working_folder(uri))


def check_is_free(uri: str) -> None:
    """Refuses a place where something is, by a ConfigError; a claim is named with its owner."""
    with contextlib.suppress(FileNotFoundError):  # a claim, which went between two of the questions
        if not _is_free(uri):
            advice = "Remove what is there, or name another"
            raise ConfigError.of("uri", uri, allowed="a place where nothing is", advice=advice)


def _is_free(uri: str) -> bool:
    if not storage.is_folder(uri):
        return not storage.exists(uri)
    names = storage.list_names(uri)
    if names == [naming.WORKING_FOLDER] and storage.is_remote(uri):
        if claims := _claims_at(uri):
            raise _refusal(uri, claims[0])
        return not storage.list_files(uri)  # what a failed upload leaves where folders are real
    return not names


def upload_dataset(folder: str, uri: str) -> None:
    """Copies all files of a local folder, the manifest last; nothing of them stays if one fails.

    Whoever lists a store sees all that was put before. So a writer puts a claim, an object of its
    own name, and lists then: where it sees another, it leaves. Of two that come at the same moment,
    both may leave.

    Raises:
        ConfigError: something is there, or another writer is writing there.
    """
    check_is_free(uri)
    claim, working = _claim(uri), working_folder(uri)
    paths = (file.path for file in storage.list_files(folder))
    try:
        for path in sorted(paths, key=lambda path: (path == naming.MANIFEST_FILE, path)):
            target = storage.join(uri, path)
            storage.make_folder(target.rpartition("/")[0])
            storage.copy_file(storage.join(folder, path), target, temporary_folder=working)
    except BaseException:
        for entry in storage.list_folder(uri):
            if entry.name != naming.WORKING_FOLDER:
                remove = storage.remove_tree if entry.is_folder else storage.remove_file
                remove(storage.join(uri, entry.name))
        storage.remove_file(claim)  # last: whoever comes may begin now
        raise
    storage.remove_tree(working)


def _claim(uri: str) -> str:
    """Puts a claim there, and returns its path when it is the only thing there is."""
    folder, own = _claims_folder(uri), uuid.uuid4().hex
    claim = storage.join(folder, own)
    storage.make_folder(folder)
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    try:
        storage.write_text(claim, owner, temporary_folder=folder)
        others = [name for name in _claims_at(uri) if name != own]
        if others or storage.list_names(uri) != [naming.WORKING_FOLDER]:
            raise _refusal(uri, others[0] if others else "")
    except BaseException:
        with contextlib.suppress(OSError):  # whoever is through has removed all claims
            storage.remove_file(claim)
        raise
    return claim


def _claims_folder(uri: str) -> str:
    return storage.join(working_folder(uri), "writers")


def _claims_at(uri: str) -> list[str]:
    return sorted(storage.list_names(_claims_folder(uri), may_lack=True))


def _refusal(uri: str, claim: str) -> ConfigError:
    owner = ""
    with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
        owner = f" ({storage.read_text(storage.join(_claims_folder(uri), claim))})" if claim else ""
    advice = "Name another place; if that writer was killed, remove what it left there first"
    rule = f"a place where no other writer is{owner}"
    return ConfigError.of("uri", uri, allowed=rule, advice=advice)
