"""The identity of a dataset by its inputs, before any of them is read: `listing.json`.

A folder of raw files that is read as a dataset, and the dataset that a conversion makes of it, have
the same `InputListing`, so a token of one is valid for the other. The listing has no contents: only
names, sizes and versions of files, the settings, and the order of the records.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence

from trainer_utils.core.decoding import decode
from trainer_utils.core.json_text import Json, parse_json_object, render_json
from trainer_utils.format.sealing import NO_CHECKSUM, is_sealed, seal

_FORMAT_VERSION = 1
_MAX_REJECTS = 10
# Settings that change neither a record nor the place of one in its split.
_FREE = (
    *("num_shards", "target_shard_bytes", "shard_multiple", "compression"),
    *("max_reject_fraction", "shuffled", "update", "vocabulary"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputListing:
    """The inputs of a dataset, their settings, and the order of the records.

    Args:
        fingerprint: a hash of the names, sizes and versions of all listed files.
        settings: a hash of the settings and label names that shape the records.
        orders: by split, a hash of the names of its planned records in order.
        planned: by split, the number of planned records.
        files: the number of listed files.
        newest: the newest version of a listed local file, in nanoseconds; None for remote files.
        rejected: the number of inputs that were rejected when they were read.
        rejects: the first of these, each as a name and a reject code.
    """

    fingerprint: str
    settings: str
    orders: Mapping[str, str]
    planned: Mapping[str, int]
    files: int
    newest: int | None = None
    rejected: int = 0
    rejects: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of everything that must agree for a record number to mean the same record."""
        known = (self.fingerprint, self.settings, sorted(self.orders.items()))
        return hashlib.blake2b(repr(known).encode(), digest_size=16).hexdigest()

    def with_rejects(self, rejects: Sequence[str]) -> "InputListing":
        """Return the listing of a dataset that lacks some of the planned records."""
        first = tuple(
            name.encode("utf-8", "backslashreplace").decode() for name in rejects[:_MAX_REJECTS]
        )
        return dataclasses.replace(self, rejected=len(rejects), rejects=first)

    def with_permutation(self, seeds: Mapping[str, int]) -> "InputListing":
        """Return the listing of a dataset whose splits were permuted by these seeds."""
        orders = {
            split: order_digest(f"{order} {seeds[split]}".encode()) if split in seeds else order
            for split, order in self.orders.items()
        }
        return dataclasses.replace(self, orders=orders)

    def to_json(self, contents: Mapping[str, str]) -> str:
        """Return the content of `listing.json`.

        Args:
            contents: by split, the checksum of the written records. A dataset whose records have
                changed since no longer has this listing.
        """
        value = dataclasses.asdict(self) | {
            "rejects": list(self.rejects),
            "contents": dict(contents),
            "format_version": _FORMAT_VERSION,
            "checksum": NO_CHECKSUM,
        }
        return seal(render_json(value))

    @classmethod
    def from_json(
        cls, text: str, *, path: str, contents: Mapping[str, str]
    ) -> "InputListing | None":
        """Parse `listing.json`; return None if it is not that of records with these checksums."""
        if not is_sealed(text):
            return None
        value = parse_json_object(text, path=path)
        if value.pop("format_version") != _FORMAT_VERSION or value.pop("contents") != {**contents}:
            return None
        del value["checksum"]
        listing: InputListing = decode(cls, value, takes_unknown=True)
        return listing


def merge_listings(listings: Sequence[InputListing], splits: Sequence[str]) -> InputListing:
    """Return the listing of several datasets that are read together, each with its slices."""
    newest = [listing.newest for listing in listings if listing.newest is not None]
    return InputListing(
        fingerprint=order_digest(repr([listing.fingerprint for listing in listings]).encode()),
        settings=order_digest(repr([listing.settings for listing in listings]).encode()),
        orders={
            f"{place}: {split}": order_digest(repr(sorted(listing.orders.items())).encode())
            for place, (listing, split) in enumerate(zip(listings, splits, strict=True))
        },
        planned={
            str(place): sum(listing.planned.values()) for place, listing in enumerate(listings)
        },
        files=sum(listing.files for listing in listings),
        newest=max(newest) if len(newest) == len(listings) else None,
        rejected=sum(listing.rejected for listing in listings),
        rejects=tuple(name for listing in listings for name in listing.rejects),
    )


def order_digest(names: bytes) -> str:
    """Return the hash of the names of records in order."""
    return hashlib.blake2b(names, digest_size=16).hexdigest()


def settings_digest(config: Mapping[str, Json], vocabularies: Mapping[str, Sequence[str]]) -> str:
    """Return a hash of the settings that shape records, given as in a manifest.

    Args:
        config: the settings of the ExampleGen.
        vocabularies: values by feature, in the order of their ids.
    """
    known = {name: value for name, value in config.items() if name not in _FREE}
    names = {name: list(values) for name, values in vocabularies.items()}
    text = json.dumps([known, names], sort_keys=True, default=list)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
