"""The files that the rows of a list mean: by their paths, or in the list itself.

A row whose file cannot be had is a `RejectedInputError` in its place.
"""

import collections
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from components.common.entry import Blob
from components.common.layout_inputs import LayoutInputs
from components.common.rejects import RejectedInputError
from components.example_gen.file_kinds import kind_of_heads, kind_of_name
from components.example_gen.list_table import Embedded, ListTable
from components.example_gen.settings import MEDIA
from trainer_utils.format import InputError, canonical_split

WORDS = {"image": "image", "audio": "sound"}
_SPLIT = "{split}"  # in the settings of names
_SAMPLE = 8  # files that are looked for

_Source = tuple[str, Blob] | RejectedInputError
_Sources = tuple[str, tuple[Blob, ...]] | RejectedInputError


def split_of_name(inputs: LayoutInputs, path: str) -> str | None:
    """The split that a list is called after, if any."""
    return canonical_split(_word_of(inputs, path))


def _word_of(inputs: LayoutInputs, path: str) -> str:
    """What a list is called: what `{split}` stands for in `csv_path`, or its name."""
    pattern = inputs.names.get("csv_path", "")
    if _SPLIT in pattern:
        start, end = posixpath.join(inputs.root, pattern).split(_SPLIT, 1)
        return path.removeprefix(start).removesuffix(end)
    return posixpath.basename(path).split(".")[0]


def is_own_list(inputs: LayoutInputs, path: str) -> bool:
    """Whether a file is what `csv_path` names."""
    wanted = posixpath.join(inputs.root, inputs.names["csv_path"])
    return wanted.replace(_SPLIT, _word_of(inputs, path), 1) == path and (
        _SPLIT not in wanted or split_of_name(inputs, path) is not None
    )


def _own_folder(inputs: LayoutInputs, path: str) -> str | None:
    """The folder of a list's files, where they are below one that the list does not name."""
    if folder := inputs.names.get("image_dir"):
        return posixpath.join(inputs.root, folder.replace(_SPLIT, _word_of(inputs, path)))
    if split_of_name(inputs, path) is None:
        return None
    if "csv_path" in inputs.names:
        return posixpath.join(inputs.root, _word_of(inputs, path))
    return posixpath.splitext(path)[0]


def feature_names(media: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """What columns of files are called as features: one is its kind; `filename` is taken."""
    if len(media) == 1:
        return [*kinds]
    return [
        name if name != "filename" else kind if kind not in media else f"{kind}_file"
        for name, kind in zip(media, kinds, strict=True)
    ]


def joined_sources(
    positions: Sequence[int], sources_of: Sequence[Iterator[_Source]]
) -> Iterator[_Sources]:
    """The name and all files of each row; the name is its first file's, made different."""
    names: set[str] = set()
    for position, *sources in zip(positions, *sources_of, strict=True):
        if error := next((s for s in sources if isinstance(s, RejectedInputError)), None):
            yield error
            continue
        files = cast(list[tuple[str, Blob]], sources)
        name = files[0][0]
        while name in names:
            name += f"#{position}"
        names.add(name)
        yield name, tuple(blob for _, blob in files)


def files_by_inspection(
    inputs: LayoutInputs, table: ListTable, roles: Mapping[str, str | None]
) -> dict[str, str | None]:
    """What columns hold files, and of which kind, where the user does not say it.

    A column that is called after files holds some, of the kind that most of their names' endings
    say. Of any other one every value must end as an image or a sound does, and one of the first
    must be there. Columns of bytes are what their bytes are.
    """
    found: dict[str, str | None] = {}
    nameless: list[str] = []
    for name in table.columns:
        by_name = roles[name] in MEDIA
        if name in inputs.columns or (roles[name] is not None and not by_name):
            continue
        uris = [
            (position, value.strip() if isinstance(value, str) else value)
            for position, value in zip(table.positions, table.values(name), strict=True)
            if value not in (None, "")
        ]
        if not uris or not all(isinstance(uri, str) for _, uri in uris):
            continue
        kinds = collections.Counter(kind_of_name(uri) for _, uri in uris)
        is_named = any(kinds) if by_name else all(kinds)
        sample = file_sources(inputs, table, uris[:_SAMPLE], are_alone=False)
        is_there = any(not isinstance(one, RejectedInputError) for one in sample)
        if is_named and (by_name or is_there):
            found[name] = next(kind for kind, _ in kinds.most_common() if kind is not None)
        elif by_name and not is_named and not is_there:
            nameless.append(name)
    for name, embedded in table.embedded.items():
        if name not in inputs.columns and (heads := embedded.heads):
            found[name] = kind_of_heads(heads) or roles[name]
            if found[name] is None:
                raise InputError(
                    f"{table.path!r}, column {name!r}: expected the bytes of images or sounds, got "
                    f"{heads[0][:8]!r}. Say what they are, or leave them out: "
                    f"columns={{{name!r}: 'ignore'}}."
                )
    return found | dict.fromkeys(nameless if found else ())


def file_sources(
    inputs: LayoutInputs, table: ListTable, uris: Sequence[tuple[int, str]], *, are_alone: bool
) -> Iterator[_Source]:
    """The name and the file of each row; of a list named after a split also as Datum has them."""
    folder, own_folder = posixpath.dirname(table.path), _own_folder(inputs, table.path)
    stems: dict[str, list[str]] = collections.defaultdict(list)
    if own_folder is not None:
        for path in inputs.files:
            if path.startswith(f"{own_folder}/"):
                stems[posixpath.splitext(path)[0]].append(path)
    place_of: dict[str, str] = {}  # by where the file lies
    names: set[str] = set()
    for position, uri in uris:
        place = table.place(position)
        if own_folder is not None:
            uri = _datum_path(table, place, uri, own_folder, stems, inputs)
        try:
            name, blob = inputs.resolve(uri, folder=folder)
        except RejectedInputError as error:
            error.name = uri
            yield error
            continue
        if blob.path in place_of and are_alone:
            unit, first = place_of[blob.path].split()
            raise InputError.at(
                table.path,
                expected=f"each {WORDS[inputs.media]} once",
                got=f"{uri!r} in {unit}s {first} and {position}",
                advice="Remove one of them.",
            )
        if blob.path not in place_of:
            name = _made_different(name, blob.path, names)
            names.add(name)
        place_of[blob.path] = place
        yield name, blob


def _made_different(name: str, path: str, names: Collection[str]) -> str:
    """A name that no file below another root has: with as many folders before it as that takes."""
    parts = path.replace("://", "/").strip("/").split("/")
    count = name.count("/") + 1
    while name in names and count < len(parts):
        count += 1
        name = "/".join(parts[-count:])
    return name


def _datum_path(
    table: ListTable,
    place: str,
    uri: str,
    own_folder: str,
    stems: Mapping[str, Sequence[str]],
    inputs: LayoutInputs,
) -> str:
    """`uri` as a path from the list's folder, where it is Datum's: below the split's folder."""
    path = posixpath.normpath(posixpath.join(own_folder, uri))
    found = [path] if path in inputs.files else stems.get(path, [])
    if len(found) > 1:
        expected = f"one {WORDS[inputs.media]} called {uri!r}"
        raise InputError.at(table.path, expected=expected, got=f"{', '.join(found)} ({place})")
    return posixpath.relpath(found[0], posixpath.dirname(table.path) or ".") if found else uri


def embedded_sources(table: ListTable, embedded: Embedded) -> Iterator[_Source]:
    """The name and the place of each row's bytes: its own path where all have one, and another."""
    paths = embedded.paths
    are_names = all(paths) and len(set(paths)) == len(paths)
    for row, path in enumerate(paths):
        name = path if are_names and path else f"{table.path}/{row:08d}"
        column = embedded.bytes_column
        yield name, Blob(table.path, embedded.bytes_per_row, row=row, column=column)
