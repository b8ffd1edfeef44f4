"""Write examples from Python as a complete dataset, without TFX, Beam or TensorFlow.

with DatasetWriter("out/", num_shards={"train": 4}) as writer:
    writer.write("train", {"image": data, "label": 3})

The files are written to a folder next to `uri`, which is renamed at the end. Until then, and after
an exception, there is nothing at `uri`.
"""

import collections
import dataclasses
import hashlib
import logging
import os
import tempfile
import threading
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, DatasetError, InputError, did_you_mean
from trainer_utils.core.extras import installed_version
from trainer_utils.core.settings import (
    NumberRule,
    Settings,
    check_names,
    one_of,
    setting,
    settings_of,
)
from trainer_utils.format import Accounting, Manifest, Shard, ShardName, ShardWriter
from trainer_utils.format.example import encode_example, encode_sequence_example
from trainer_utils.format.index import name_of
from trainer_utils.format.naming import check_feature_names, check_split_name
from trainer_utils.writing import publishing, uploading
from trainer_utils.writing.plain_rows import PlainEncoder
from trainer_utils.writing.shards import finish_shard, verify_shard
from trainer_utils.writing.values import FeatureRecord, Plain, Stored, check_image, stored_value
from trainer_utils.writing.working_folder import working_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainer_utils.writing.keywords import WriterKeywords

_logger = logging.getLogger(__name__)

_PRODUCER = "DatasetWriter"
_LABEL = "label"
_MAX_CLASSES = 1 << 16  # with more distinct labels, they are not counted as classes
_MAX_WAITING = 1 << 12  # examples of a shard that are written together
_MAX_ENCODERS = 64  # sets of features for which a fast encoder is tried
_BUFFER_BYTES = 64 << 20  # for all shards of a split together


def _bytes_of(label: str | bytes) -> bytes:
    return label.encode() if isinstance(label, str) else label


def _shards(name: str, value: Any) -> Any:
    """Check numbers of shards, one for all splits or one per split; raise ConfigError."""
    if not isinstance(value, Mapping):
        return NumberRule(1)(name, value)
    for split, shards in value.items():
        check_split_name(str(split))
        NumberRule(1)(f"{name}[{split!r}]", shards)
    return dict(value)


def _texts(name: str, value: Any) -> Any:
    if isinstance(value, str) or not all(isinstance(text, str) for text in value):
        raise ConfigError.of(name, value, allowed="a list of strings")
    return tuple(value)


def _vocabularies(name: str, value: Any) -> Any:
    labels_by_feature = value if isinstance(value, Mapping) else {_LABEL: value} if value else {}
    for feature, labels in labels_by_feature.items():
        _texts(f"{name}[{feature!r}]", labels)
        if not labels or len(set(labels)) < len(labels) or any("\n" in label for label in labels):
            rule = "different labels of one line each"
            raise ConfigError.of(f"{name}[{feature!r}]", labels, allowed=rule)
    return {feature: tuple(labels) for feature, labels in labels_by_feature.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriterSettings(Settings):
    """The settings of a dataset that `DatasetWriter` writes."""

    num_shards: int | Mapping[str, int] | None = setting(
        None,
        _shards,
        'number of shards of every split, or by split: `{"train": 8, "eval": 2}`. Examples are '
        "distributed in turn. A split with fewer examples has fewer shards. Default: fill each "
        "shard up to `target_shard_bytes`, then start the next.",
    )
    target_shard_bytes: int = setting(128 << 20, NumberRule(1), "target size of a shard in bytes.")
    compression: str = setting(
        "none",
        one_of("none", "gzip"),
        "`none`, or `gzip` (slower to read, and Datum cannot read it).",
    )
    images: Sequence[str] = setting(
        ("image",), _texts, "image features: bytes are stored unchanged, pixels as PNG files."
    )
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] = setting(
        {},
        _vocabularies,
        "labels in the order of their ids: a list for the feature `label`, or lists by feature. "
        "Strings of these features become ids.",
    )


class DatasetWriter:
    """A writer of one dataset, example by example, with bounded memory.

    The same examples in the same order give the same bytes. Several threads may write.

    Args:
        uri: the uri of the new dataset. An existing folder must be empty. An object store gets
            all files at the end, `manifest.json` last.
        settings: fields of `WriterSettings`.

    Raises:
        ConfigError: a setting is not allowed, or there is something at `uri`.
    """

    def __init__(self, uri: str | os.PathLike[str], **settings: "Unpack[WriterKeywords]") -> None:
        check_names(_PRODUCER, settings, [*settings_of(WriterSettings)], alternatives=["uri"])
        self._settings = WriterSettings(**settings)
        self.uri = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
        if not isinstance(self.uri, str) or not self.uri or "\0" in self.uri:
            raise ConfigError.of("uri", uri, allowed="a path or url")
        self.uri = storage.local_path(self.uri)
        uploading.check_is_free(self.uri)
        self._folder = self._make_folder()
        self._vocabularies: Mapping[str, Sequence[str]] = dict(self._settings.vocabulary)  # type: ignore[arg-type]
        self._splits: dict[str, _OpenShards] = {}
        self._record = FeatureRecord()
        self._labels = collections.defaultdict[str, collections.Counter[int]](collections.Counter)
        self._ids = {
            feature: {label.encode(): number for number, label in enumerate(labels)}
            for feature, labels in self._vocabularies.items()
        }
        self._encoders: dict[tuple[str, ...], PlainEncoder] = {}
        self._left_to_prepare = _MAX_ENCODERS
        self._lock = threading.RLock()
        self._is_open = True

    def _make_folder(self) -> str:
        """Create the folder for unfinished files, next to `uri` so that a rename completes it."""
        if storage.is_remote(self.uri):
            return tempfile.mkdtemp(prefix="tfx-shards-")
        above, name = os.path.split(os.path.abspath(self.uri))
        folder = os.path.join(above, f".{name[:100]}.{uuid.uuid4().hex}")
        try:
            storage.make_folder(folder)
        except OSError as error:
            rule = f"a folder that can be made ({error.strerror or error})"
            raise ConfigError.of("uri", self.uri, allowed=rule) from error
        return folder

    def __enter__(self) -> "DatasetWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        (self.close if kind is None else self.discard)()

    def write(self, split: str, example: Mapping[str, Any]) -> None:
        """Append an example to a split.

        Args:
            split: the name of the split, such as `train`.
            example: the values by feature, stored according to the table of
                `trainer_utils.writing.values`. None is a missing value.

        Raises:
            InputError: a value cannot be stored, or has another type than earlier ones. The example
                is then not written, and writing may continue.
            ConfigError: the split's name is not allowed.
        """
        with self._lock:
            if not self._is_open:
                raise DatasetError("writer: expected an open one, got one that was closed")
            if type(example) is dict and self._write_plainly(split, example):
                return
            shards = self._splits.get(check_split_name(split))
            number = 0 if shards is None else shards.records
            try:
                values, lists = self._record.take(self._stored(example))
            except InputError as error:
                place = f"split {split!r}, record {number}"
                raise InputError(f"{error} ({place}).", path=self.uri, record=number) from error
            if shards is None:
                shards = self._splits[split] = _OpenShards(self._folder, split, self._settings)
            parts = encode_sequence_example(values, lists) if lists else encode_example(values)
            shards.append(parts, name=name_of(values))
            labels, counter = values.get(_LABEL), self._labels[split]
            is_label = isinstance(labels, tuple) and all(isinstance(label, int) for label in labels)
            if is_label and len(counter) <= _MAX_CLASSES:
                counter.update(labels)
            self._prepare_encoder(example)

    def _write_plainly(self, split: str, example: dict[str, Any]) -> bool:
        """Write an example of single numbers and strings by a prepared encoder, if it fits one."""
        try:
            encoder, shards = self._encoders.get(tuple(example)), self._splits.get(split)
        except TypeError:  # a split that is not a string
            return False
        if encoder is None or shards is None or (frame := encoder.encode(example)) is None:
            return False
        shards.append_whole(*frame)
        if encoder.has_label:
            counter = self._labels[split]
            if len(counter) <= _MAX_CLASSES:
                label = example[_LABEL]
                counter[label if type(label) is int else self._ids[_LABEL][_bytes_of(label)]] += 1
        return True

    def _prepare_encoder(self, example: Mapping[str, Any]) -> None:
        """Create a fast encoder for further examples with these features, if possible."""
        if type(example) is not dict or self._left_to_prepare <= 0:
            return
        keys = tuple(example)
        if keys in self._encoders:
            return
        self._left_to_prepare -= 1
        plain = self._record.plain_kinds(exclude=self._settings.images)
        encoder = PlainEncoder.of(example, kinds=plain, ids=self._ids)
        if encoder is not None:
            self._encoders[keys] = encoder

    def _stored(self, example: Mapping[str, Any]) -> dict[str, Stored]:
        """Return the values of an example to store; raise InputError with the feature's name."""
        if not isinstance(example, Mapping):
            raise InputError(f"example: expected a dict, got {type(example).__name__}")
        if not all(isinstance(name, str) for name in example):
            raise InputError(f"example: expected names of features, got {[*example]!r}")
        check_feature_names(example)
        stored = {}
        for name, value in example.items():
            try:
                stored[name] = self._stored_feature(name, value)
            except InputError as error:
                raise InputError(f"feature {name!r}: {error}".removesuffix(".")) from error
        if all(value is None for value in stored.values()):
            raise InputError("example: expected a feature with a value, got none")
        return stored

    def _stored_feature(self, name: str, value: Any) -> Stored:
        """Return a value to store, with labels as the ids of their vocabulary."""
        is_image, ids = name in self._settings.images, self._ids.get(name)
        stored = stored_value(value, is_image=is_image)
        if not isinstance(stored, Plain):
            return stored
        values: tuple[Any, ...] = stored.values
        if is_image:
            check_image(values[0])
        if ids and stored.kind == "int" and (wrong := [n for n in values if n >= len(ids)]):
            raise InputError(f"expected ids of its vocabulary, 0 to {len(ids) - 1}, got {wrong[0]}")
        if ids is None or stored.kind != "string":
            return stored
        if unknown := [label for label in values if label not in ids]:
            text, labels = unknown[0].decode("utf-8", "replace"), self._vocabularies[name]
            raise InputError(
                f"expected one of its vocabulary, {len(labels)} labels such as {labels[0]!r}, got "
                f"{text!r}.{did_you_mean(text, labels)}"
            )
        return Plain("int", tuple(ids[label] for label in values), is_list=stored.is_list)

    def close(self) -> None:
        """Complete the dataset; raise InputError if there are no examples."""
        with self._lock:
            if not self._is_open:
                return
            try:
                if not self._splits:
                    advice = "Write at least one."
                    raise InputError.at(self.uri, expected="examples", got="none", advice=advice)
                self._write_files()
                self._publish()
            finally:
                self.discard()

    def discard(self) -> None:
        """Remove everything written. Do nothing after `close`."""
        with self._lock:
            self._is_open = False
            self._splits.clear()
            storage.remove_tree(self._folder)

    def _write_files(self) -> None:
        shards = [shard for split in self._splits.values() for shard in split.finish()]
        for encoder in self._encoders.values():
            self._record.add_plain([field.name for field in encoder.fields], encoder.count)
        features = self._record.features()
        self._warn_of_unused(features)
        vocabularies = {n: labels for n, labels in self._vocabularies.items() if n in features}
        for name, labels in vocabularies.items():
            extra = {**features[name].extra, "num_classes": len(labels)}
            features[name] = dataclasses.replace(features[name], extra=extra)
        manifest = self._manifest(shards)
        publishing.publish(self._folder, manifest, features, vocabularies=vocabularies)

    def _warn_of_unused(self, features: Collection[str]) -> None:
        """Log a warning for splits and features in the settings that no example had."""
        settings = self._settings
        splits = settings.num_shards if isinstance(settings.num_shards, Mapping) else ()
        images = settings.images if settings.images != WriterSettings.images else ()
        for option, names, kind, written in (
            ("num_shards", splits, "split", self._splits),
            ("vocabulary", self._vocabularies, "feature", features),
            ("images", images, "feature", features),
        ):
            for name in names:
                if name not in written:
                    said = "%s names %r, and no example has such a %s: it changed nothing.%s"
                    _logger.warning(said, option, name, kind, did_you_mean(name, written))

    def _manifest(self, shards: Sequence[Shard]) -> Manifest:
        """Return the manifest of the shards, without its metadata files."""
        records = {split: opened.records for split, opened in self._splits.items()}
        settings = dataclasses.asdict(self._settings)
        settings["images"] = list(self._settings.images)
        settings["vocabulary"] = {n: len(labels) for n, labels in self._vocabularies.items()}
        names = dict(enumerate(self._vocabularies.get(_LABEL, ())))
        contents = sorted((shard.split, f"{shard.content:016x}") for shard in shards)
        return Manifest(
            shards=tuple(shards),
            accounting={s: Accounting(found=n, written=n) for s, n in records.items()},
            producer=_PRODUCER,
            config=settings,
            input_fingerprint=hashlib.blake2b(repr(contents).encode(), digest_size=16).hexdigest(),
            label_counts={
                split: {names.get(label, str(label)): n for label, n in counter.items()}
                for split, counter in self._labels.items()
                if 0 < len(counter) <= _MAX_CLASSES
            },
            versions={"tfx-shards": installed_version("tfx-shards")},
        )

    def _publish(self) -> None:
        if storage.is_remote(self.uri):
            uploading.upload_dataset(self._folder, self.uri)
            return
        whole = os.path.abspath(self.uri)
        try:
            storage.rename(self._folder, whole)
        except OSError:
            uploading.check_is_free(self.uri)  # maybe another writer created it in the meantime
            raise
        storage.sync_folder(os.path.dirname(whole))


@dataclasses.dataclass
class _AppendedFile:
    """A file that is open only during writes, so that there may be many shards."""

    path: str

    def write(self, block: bytes | memoryview) -> int:
        with storage.naming_file(self.path), open(self.path, "ab") as stream:
            return stream.write(block)


@dataclasses.dataclass
class _Waiting:
    """Examples of a shard to be written together."""

    messages: list[bytes] = dataclasses.field(default_factory=list)
    names: list[bytes | None] = dataclasses.field(default_factory=list)
    bytes: int = 0


class _OpenShards:
    """The unfinished shards of a split, in a local folder.

    With `num_shards`, the n-th example goes into shard n modulo that number. Without, each shard is
    filled up to `target_shard_bytes` before the next one starts. The number of shards is known only
    at the end, so shards have temporary names. Each may buffer `buffer_bytes`.
    """

    def __init__(self, folder: str, split: str, settings: WriterSettings) -> None:
        self._folder, self._split, self._target = folder, split, settings.target_shard_bytes
        count = settings.num_shards
        self._num_shards = count.get(split) if isinstance(count, Mapping) else count
        self._buffer = min(1 << 20, max(1 << 12, _BUFFER_BYTES // (self._num_shards or 1)))
        self._gzip = settings.compression == "gzip"
        self._opened: list[tuple[ShardWriter, str]] = []
        self._waiting: list[_Waiting] = []  # by shard
        self._filled = 0  # bytes of the current shard
        self.records = 0

    def append(self, parts: list[bytes], *, name: bytes | None = None) -> None:
        """Append an example in parts, with the `name` that `ShardWriter.write` takes."""
        place = self._next_place()
        self._flush(place)
        self._opened[place][0].write(parts, name=name)
        self._filled += sum(map(len, parts))
        self.records += 1

    def append_whole(self, message: bytes, name: bytes | None) -> None:
        """Append an example that is written later, together with others."""
        place = self._next_place()
        waiting = self._waiting[place]
        waiting.messages.append(message)
        waiting.names.append(name)
        waiting.bytes += len(message)
        if waiting.bytes >= self._buffer or len(waiting.messages) >= _MAX_WAITING:
            self._flush(place)
        self._filled += len(message)
        self.records += 1

    def _flush(self, place: int) -> None:
        """Write the waiting examples of a shard."""
        waiting = self._waiting[place]
        if waiting.messages:
            self._opened[place][0].write_many(waiting.messages, waiting.names)
            self._waiting[place] = _Waiting()

    def _next_place(self) -> int:
        """Return the index of the shard for the next example, which may be a new shard."""
        if self._num_shards is not None:
            place = self.records % self._num_shards
        else:
            place = len(self._opened) - (bool(self._opened) and self._filled < self._target)
        if place == len(self._opened):
            folder = working_folder(self._folder)
            path = storage.join(folder, f"{self._split}-{place}")
            storage.make_folder(folder)
            stream: BinaryIO = _AppendedFile(path)  # type: ignore[assignment]
            writer = ShardWriter(stream, gzip=self._gzip, buffer_bytes=self._buffer)
            self._opened.append((writer, path))
            self._waiting.append(_Waiting())
            self._filled = 0
        return place

    def finish(self) -> list[Shard]:
        """Give all shards their final names and indices, and verify them."""
        shards, count = [], len(self._opened)
        for place, (writer, path) in enumerate(self._opened):
            self._flush(place)
            digest = writer.finish()
            name = ShardName(
                split=self._split, shard_index=place, num_shards=count, gzip=self._gzip
            )
            final = storage.join(self._folder, name.path)
            storage.make_folder(os.path.dirname(final))
            storage.rename(path, final)
            shards.append(finish_shard(name, digest, writer, uri=self._folder))
            verify_shard(shards[-1], uri=self._folder)
        return shards
