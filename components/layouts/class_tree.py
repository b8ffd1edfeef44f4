"""Infer the meaning of a tree's folders: splits, classes or wrappers. Refuse unclear trees.

    read_tree([("train", "cat"), ("train", "dog"), ("val", "cat"), ("val", "dog")])
    # [Role('train', 'cat'), Role('train', 'dog'), Role('eval', 'cat'), Role('eval', 'dog')]

A folder name becomes a class only if the tree looks like classes. A wrapper contains nothing but
one folder, and is skipped.
"""

import collections
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from absl import logging

from components.inputs.advice import how_to_set
from trainer_utils.core.errors import InputError
from trainer_utils.format import canonical_split, split_of_name
from trainer_utils.format.split_words import words_of
from trainer_utils.storage import display_path, is_remote, join

Parts = tuple[str, ...]
OBEY = (
    "If the folders at the top, or below those of the splits, are the classes: "
    f"{how_to_set(layout='folder')}."
)
# Words in folder names that mean a kind of files, not a class.
_KINDS_OF_FILES = frozenset(
    """
    image images img imgs photo photos picture pictures pic pics jpeg jpegs jpg jpgs png pngs
    jpegimages pngimages jpgimages rgb mask masks label labels annotation annotations annot annots
    segmentation segmentations segmentationclass segmentationobject segm gt groundtruth bbox bboxes
    box boxes data dataset datasets file files frame frames depth depths disparity heatmap heatmaps
    thumbnail thumbnails thumbs audio audios wav wavs flac clips recordings set split
    """.split()  # noqa: SIM905  as a list it would be 70 lines
)
# Names of folders with paired files.
_PAIRED = frozenset(
    """
    left right before after input inputs target targets source hr lr high low clean noisy blur
    blurred sharp x y
    """.split()  # noqa: SIM905
)
_NUMBER = re.compile(r"\d+")
_UNLABELLED = frozenset(("unsup", "unsupervised", "unlabeled", "unlabelled"))
_BACKGROUND = "_background_noise_"  # Speech Commands' recordings to mix into the clips
# Folders that divide a dataset without naming classes: by folds, by date, or into parts.
_FOLD = re.compile(r"(.*[^a-z])?k?folds?[ _.-]?\d+", re.IGNORECASE)
_DATE = re.compile(r"(19|20)\d\d(([-_.]?)(0[1-9]|1[0-2])(\3([0-2]\d|3[01]))?)?")
_YEAR = re.compile(r"(19|20)\d\d")
_MONTH_OR_DAY = re.compile(r"0?[1-9]|[12]\d|3[01]")
_GROUP = re.compile(
    r"(actor|patient|subject|speaker|participant|video|clip|scene|sequence|session|case|study|slide|"
    r"user|camera|cam|trial|site|recording|episode|run|visit|sample)[ _.-]?\d+",
    re.IGNORECASE,
)
_PART = re.compile(r"(.*[^a-z])?(part|batch|chunk|shard)[ _.-]?\d+", re.IGNORECASE)
_SAME = 0.9  # if two folders share this fraction of the smaller one's names, their files are pairs
_LETTER = 1  # folders named by a letter may sort the classes: a/abbey, b/bakery
_MIN_NUMBERED = 3  # with fewer files, equal numbers in two folders mean nothing


class Role(NamedTuple):
    """The split and the class of the files in a folder; None if the folder does not name them."""

    split: str | None
    label: str | None


class _Node:
    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.has_files = False

    def add(self, parts: Parts) -> None:
        node = self
        for part in parts:
            node = node.children.setdefault(part, _Node())
        node.has_files = True

    def folders(self, above: Parts = ()) -> list[Parts]:
        folders = [above] if self.has_files else []
        for name, child in self.children.items():
            folders += child.folders((*above, name))
        return folders


def read_obeyed(folders: Sequence[Parts], *, base: str) -> list[Role]:
    """Return the roles of folders that the user declares to be class folders.

    The top folders are splits if all of them are named after splits, else classes. A single folder
    with nothing but folders is a wrapper, not a class.

    Args:
        folders: the folders, in parts from the root.
        base: the input base, for messages.

    Raises:
        InputError: folders of several splits are next to other folders.
    """
    depth = _depth_of_wrappers(folders)
    folders = [parts[depth:] for parts in folders]
    tops = sorted({parts[0] for parts in folders if parts})
    others = [top for top in tops if split_of_name(top) is None]
    exact = {canonical_split(top): top for top in tops if canonical_split(top)}
    if others and len(exact) > 1:
        raise refuse_mixed(base, sorted(exact.values()), others)
    depth = 1 if tops and not others else 0
    return [
        Role(
            split_of_name(parts[0]) if depth and parts else None,
            parts[depth] if len(parts) > depth else None,
        )
        for parts in folders
    ]


def _depth_of_wrappers(folders: Sequence[Parts]) -> int:
    """Return the number of nested folders that contain all files, but none directly.

    The innermost may contain files next to folders of splits, such as a `README`.
    """
    depth = 0
    while folders and all(len(parts) > depth for parts in folders):
        tops = {parts[depth] for parts in folders}
        if len(tops) > 1 or split_of_name(tops.pop()) is not None:
            break
        inner = {parts[depth + 1] for parts in folders if len(parts) > depth + 1}
        if any(len(parts) == depth + 1 for parts in folders):
            return depth + 1 if inner and all(map(split_of_name, inner)) else depth
        depth += 1
    return depth


def read_tree(
    folders: Iterable[Parts], *, base: str, named: str | None = None
) -> dict[Parts, Role]:
    """Return the role of each folder that has files.

    Args:
        folders: the folders that contain files, in parts from the root.
        base: the input base, for messages.
        named: the split of all files, if the user gives it.

    Raises:
        InputError: the tree does not look like classes and splits.
    """
    root = _Node()
    for parts in folders:
        root.add(parts)
    # The only folder in a split is a class if other splits have a class of this name. So a first
    # visit collects the classes.
    roles: dict[Parts, Role] = {}
    _visit(root, (), named, roles, base, known=None)
    labels: dict[str | None, set[str]] = collections.defaultdict(set)
    for role in roles.values():
        if role.label is not None:
            labels[role.split].add(role.label)
    several = (names for names in labels.values() if len(names) > 1)
    known, roles = frozenset[str]().union(*several), {}
    _visit(root, (), named, roles, base, known=known)
    return roles


def _visit(
    node: _Node,
    above: Parts,
    split: str | None,
    roles: dict[Parts, Role],
    base: str,
    *,
    known: frozenset[str] | None,
) -> None:
    """Add the roles of all folders below a node that may still contain splits or wrappers.

    `known` are the classes that a first visit found, or None for that visit.
    """
    names = [*node.children]
    words = {name: split_of_name(name) for name in names}
    named = [name for name in names if words[name] is not None]
    if len(names) == 1 and not node.has_files:
        (name,) = names
        child, named_split = node.children[name], words[name]
        if named_split is not None and split is not None and named_split != split:
            raise _refuse_two_splits(base, (*above, name), split, named_split)
        # A folder with nothing but files is a class, unless it is named after a split or a date. A
        # wrapper may have files next to the folders of splits.
        has_splits = bool(child.children) and all(map(split_of_name, child.children))
        is_class = child.has_files and not has_splits and not _is_date(above, name)
        is_class |= split is not None and name in (known or ())
        if named_split is not None or not is_class:
            _visit(child, (*above, name), named_split or split, roles, base, known=known)
            return
    elif named and split is None:
        if len(named) < len(names):
            others = [name for name in names if words[name] is None]
            raise refuse_mixed(base, named, others, above=above)
        _check_one_folder_per_split(names, words, above, base)
        for name in names:
            _visit(node.children[name], (*above, name), words[name], roles, base, known=known)
        if node.has_files:
            roles[above] = Role(None, None)
        return
    elif any(words[name] not in (None, split) for name in names):
        name = next(name for name in names if words[name] not in (None, split))
        raise _refuse_two_splits(base, (*above, name), str(split), str(words[name]))
    if node.has_files:
        roles[above] = Role(split, None)
    elif _divide_the_data(node, above, split, base):
        if known is not None:
            logging.warning(
                "the folders %s are read as parts of one dataset, not as classes. If they are "
                "classes: %s",
                *(_shown(sorted(names)), how_to_set(layout="folder")),
            )
        for name in names:
            _visit(node.children[name], (*above, name), split, roles, base, known=known)
        return
    has_inner_splits = split is None and all(map(_has_splits_alone, node.children.values()))
    for name, child in node.children.items():
        for parts in child.folders((*above, name)):
            inner = split_of_name(parts[len(above) + 1]) if has_inner_splits else split
            roles[parts] = Role(inner, name)


def _divide_the_data(node: _Node, above: Parts, split: str | None, base: str) -> bool:
    """Return whether the folders below a node are dates or parts of one dataset, and no classes.

    Raises:
        InputError: they are folds, and no folder above says which of them are for training.
    """
    names = sorted(node.children)
    if len(names) < 2:
        return False
    if all(map(_FOLD.fullmatch, names)):
        if split is None:
            places = [join(base, "/".join((*above, name))) for name in names]
            train, test = (join(base, "/".join((*above, name))) for name in ("train", "eval"))
            commands = (
                shlex.join(["mv", places[0], test]),
                shlex.join(["mkdir", train]),
                shlex.join(["mv", *places[1:], train]),
            )
            raise InputError(
                f"input_base {base!r}: expected folders that are splits or classes, got the folds "
                f"{_shown(names)}. To hold out the first: {' && '.join(commands)}. {OBEY}",
                path=base,
            )
        return True
    are_parts = all(map(_PART.fullmatch, names)) and not any(
        child.has_files for child in node.children.values()
    )
    return are_parts or all(_is_date(above, name) for name in names)


def _is_date(above: Parts, name: str) -> bool:
    """Return whether a folder's name is a date, or a month or day in the folder of a year."""
    has_year = any(map(_YEAR.fullmatch, above[-2:]))
    return bool(_DATE.fullmatch(name) or (has_year and _MONTH_OR_DAY.fullmatch(name)))


def _has_splits_alone(node: _Node) -> bool:
    """Return whether a folder has nothing but folders of files that are named after splits."""
    return (
        bool(node.children)
        and not node.has_files
        and all(split_of_name(name) for name in node.children)
        and not any(child.children for child in node.children.values())
    )


def _check_one_folder_per_split(
    names: Sequence[str], words: Mapping[str, str | None], above: Parts, base: str
) -> None:
    """Raise an InputError if folders of a split have different kinds of files, such as masks."""
    for name in names:
        same = [other for other in names if other != name and words[other] == words[name]]
        if same and is_kind_of_files(name) and words_of(name) != words_of(same[0]):
            folder = "/".join((*above, name))
            raise InputError(
                f"input_base {base!r}: expected one kind of file in each split, got {name!r} next "
                f"to {same[0]!r}. To read masks, give both files of a pair the same name. To leave "
                f"{name!r} out: {how_to_set(ignore=[f'{folder}/*'])}.",
                path=base,
            )


def refuse_mixed(
    base: str, named: Sequence[str], others: Sequence[str], *, above: Parts = ()
) -> InputError:
    """Return the error for folders if only some are named after splits.

    Args:
        base: the input base.
        named: the folders that are named after splits.
        others: the other folders.
        above: the folder that contains them, in parts from the root.
    """
    has_train = any(split_of_name(name) == "train" for name in named)
    fewer = others if has_train and len(named) >= len(others) else named
    rename = ""
    if not has_train and len(others) == 1 and not is_remote(base):
        source, target = (join(base, "/".join((*above, n))) for n in (others[0], "train"))
        rename = f"If {others[0]!r} is for training: {shlex.join(['mv', source, target])}. "
    return InputError(
        f"input_base {base!r}: expected folders that are all splits or all classes, got "
        f"{_shown(named)} (named after splits) next to {_shown(others)}. {rename}To leave out all "
        f"files in {_shown(fewer)}: "
        f"{how_to_set(ignore=['/'.join((*above, name, '*')) for name in fewer])}. {OBEY}",
        path=base,
    )


def _refuse_two_splits(base: str, parts: Parts, split: str, named_split: str) -> InputError:
    return InputError(
        f"input_base {base!r}: expected folders that name one split each, got "
        f"{'/'.join(parts)!r} ({split} and {named_split}). Rename one of them. {OBEY}",
        path=base,
    )


def check_classes(roles: Mapping[Parts, Role], *, base: str, named: str | None = None) -> None:
    """Raise an InputError if the names that would be classes do not look like classes.

    Args:
        roles: the roles of all folders.
        base: the input base joined with the root of the folders.
        named: the split of all files, if the user gives it. Other splits may then have more
            classes.
    """
    _warn_of_joined_splits(roles)
    by_split: dict[str | None, set[str]] = collections.defaultdict(set)
    for role in roles.values():
        if role.label is not None:
            by_split[role.split].add(role.label)
    classes = sorted(set().union(*by_split.values())) if by_split else []
    if not classes:
        return

    def refuse(expected: str, got: str, more: str = "") -> InputError:
        return InputError(
            f"input_base {base!r}: expected {expected}, got {got}. {more}{OBEY}", path=base
        )

    kinds = [name for name in classes if is_kind_of_files(name)]
    if kinds:
        others = _shown(classes, kinds)
        raise refuse(
            "folders named after classes",
            f"{_shown(kinds)} next to {others}" if others else _shown(kinds),
            "If its files have no class, name the folder itself: "
            f"{join(base, _folder_of(roles, kinds[0]))!r}. "
            f"{_how_to_leave_out(roles, kinds) if others else ''}"
            "`tfx-shards layouts` draws the layouts that read annotations. ",
        )
    if missing := [
        name
        for name in classes
        if name == _BACKGROUND or not _UNLABELLED.isdisjoint(words_of(name))
    ]:
        raise refuse(
            "folders named after classes",
            f"{_shown(missing)}, whose files have no class",
            _how_to_leave_out(roles, missing),
        )
    if len(classes) == 1 and named is None:
        raise refuse(
            "at least two classes",
            f"only the folder {classes[0]!r}",
            "If its files have no class, name the folder itself: "
            f"{join(base, _folder_of(roles, classes[0]))!r}. ",
        )
    if (alike := _same_folders(roles)) is not None:
        first, other, shared = alike
        are_of_files = [_has_word_for_files(name) for name in (first, other)]
        few = first if are_of_files[0] else other
        inner = "" if any(are_of_files) else _how_to_read_inner(roles, "[^/]+/(?P<label>[^/]+)")
        raise refuse(
            "classes whose folders differ",
            f"{first!r} and {other!r}, which both contain {_shown(shared)}",
            f"To leave one of them out: {how_to_set(ignore=[f'{_folder_of(roles, few)}/*'])}. "
            f"{inner}",
        )
    if (nested := _folders_in_classes(roles)) is not None:
        label, inner_names = nested
        raise refuse(
            "class folders that contain files",
            f"{label!r}, which contains the folders {_shown(inner_names)}",
            _how_to_read_inner(roles, "(?P<label>.+)"),
        )
    _warn_of_classes(classes)
    labelled = {split for split, names in by_split.items() if split is not None}
    if "train" in labelled:
        for split in sorted(labelled - {"train"}):
            if strange := sorted(by_split[split] - by_split["train"]):
                raise refuse(
                    f"every class of the split {split!r} to be in 'train' too",
                    f"{_shown(strange)}, only in {split!r}",
                )


def _warn_of_classes(classes: Sequence[str]) -> None:
    """Log a warning if folders that become classes may be groups of one source, or pairs."""
    if all(map(_GROUP.fullmatch, classes)):
        logging.warning(
            "the folders %s become classes. If each is a source whose files belong in one split, "
            "write labels.csv at the top with the columns filename, label and source: %s",
            *(_shown(classes), how_to_set(csv_path="labels.csv", group_by="source")),
        )
    elif {name.lower() for name in classes} <= _PAIRED:
        logging.warning(
            "the folders %s become classes. If their files are pairs, such as an input and its "
            "target, list each pair in a row of a table with two columns of paths: csv_path=…",
            _shown(classes),
        )


def is_kind_of_files(name: str) -> bool:
    """Return whether all words of a name, apart from splits, mean a kind of files."""
    words = [word for word in words_of(name) if canonical_split(word) is None]
    whole = re.sub(r"[\W\d_]+", "", name.lower())
    return bool(words) and (whole in _KINDS_OF_FILES or all(w in _KINDS_OF_FILES for w in words))


def _how_to_leave_out(roles: Mapping[Parts, Role], labels: Sequence[str]) -> str:
    """Return the advice to leave out the folders that would be these classes."""
    folders = {
        "/".join(parts[: parts.index(role.label) + 1])
        for parts, role in roles.items()
        if role.label in labels and role.label in parts
    }
    patterns = [f"{folder}/*" for folder in sorted(folders)]
    return f"To leave them out: {how_to_set(ignore=patterns)}. "


def _folder_of(roles: Mapping[Parts, Role], label: str) -> str:
    """Return the path of the first folder of a class."""
    parts = min(parts for parts, role in roles.items() if role.label == label)
    return "/".join(parts[: parts.index(label) + 1])


def _warn_of_joined_splits(roles: Mapping[Parts, Role]) -> None:
    """Log a warning if folders next to each other, such as test and test2, become one split."""
    folders: dict[tuple[str, Parts], set[str]] = collections.defaultdict(set)
    for parts, role in roles.items():
        for place, name in enumerate(parts):
            if role.split is not None and split_of_name(name) == role.split:
                folders[role.split, parts[:place]].add(name)
                break
    for (split, _), names in folders.items():
        if len(names) > 1:
            logging.warning("the folders %s all become the split %r", _shown(sorted(names)), split)


def _has_word_for_files(name: str) -> bool:
    words = re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return not _KINDS_OF_FILES.isdisjoint(words)


def _same_folders(roles: Mapping[Parts, Role]) -> tuple[str, str, list[str]] | None:
    """Return two classes that contain the same folders, and these folders; else None."""
    inner: dict[str, set[str]] = collections.defaultdict(set)
    for parts, role in roles.items():
        if role.label is not None:
            place = parts.index(role.label)
            if role.split is None or role.split in map(split_of_name, parts[:place]):
                inner[role.label].update(parts[place + 1 : place + 2])
    # A single folder in a class, such as `images`, is a wrapper.
    several = {label: names for label, names in inner.items() if len(names) > 1}
    owners: dict[str, str] = {}
    for label, names in several.items():
        for name in sorted(names):
            other = owners.setdefault(name, label)
            shared = several[other] & names
            if other != label and 2 * len(shared) >= min(len(several[other]), len(names)):
                return other, label, sorted(shared)
    return None


def _folders_in_classes(roles: Mapping[Parts, Role]) -> tuple[str, list[str]] | None:
    """Return a class whose folders may be the classes, and these folders; else None.

    All files are in folders of classes, and one class has several: `a/abbey/`, `a/airport/`.
    A folder with a number, a date or the name of its class, as frames of a video have it, is no
    class.
    """
    inner: dict[str, set[str]] = collections.defaultdict(set)
    for parts, role in roles.items():
        if role.label is None:
            continue
        below = parts[parts.index(role.label) + 1 :]
        if not below:
            return None
        inner[role.label].add(below[0])
    several = {label: sorted(names) for label, names in inner.items() if len(names) > 1}
    if len(inner) < 2 or not several:
        return None
    for label, names in several.items():
        if not all(_belongs_to_class(name, label) for name in names):
            return label, names
    return None


def _belongs_to_class(folder: str, label: str) -> bool:
    """Return whether the name of a folder in a class shows that it is no class itself."""
    is_counted = any(p.fullmatch(folder) for p in (_NUMBER, _DATE, _PART, _FOLD))
    has_label = len(label) > _LETTER and label.lower() in folder.lower()
    return is_counted or has_label or split_of_name(folder) is not None


def _how_to_read_inner(roles: Mapping[Parts, Role], pattern: str) -> str:
    """Return the advice to take labels from the folders in class folders.

    Args:
        roles: the roles of all folders.
        pattern: a pattern of the path from the folder that would be the class on.
    """
    above = {
        (parts[: parts.index(role.label)], role.split)
        for parts, role in roles.items()
        if role.label in parts
    }
    depth = min(len(parts) for parts, _ in above)
    prefix = ""
    for place in range(depth):
        is_split = any(split and split_of_name(parts[place]) == split for parts, split in above)
        prefix += "(?P<split>[^/]+)/" if is_split and "split" not in prefix else "[^/]+/"
    how = how_to_set(name_pattern=f"{prefix}{pattern}/")
    return f"If the folders inside them are the classes: {how}. "


def same_stems(
    names: Mapping[str, Collection[str]],
    *,
    are_pairs: Callable[[str, str, Collection[str]], bool] = lambda *_: True,
    needs_pairs: bool = False,
) -> tuple[str, str] | None:
    """Return two classes whose files have the same stems (names without suffix), or None.

    Stems that are only numbers are weak evidence, since every class may be numbered. They must be
    exactly the same in both classes.

    Args:
        names: the stems of the files of each class.
        are_pairs: returns whether the files of two classes are pairs, given the shared stems. It
            is called if these stems are the same word with different numbers.
        needs_pairs: call `are_pairs` for any stems.
    """
    by_name: dict[str, str] = {}
    seen: dict[str, set[str]] = {}
    for label, stems in names.items():
        stem_set = {*stems}
        candidates = {by_name[stem] for stem in stem_set if stem in by_name}
        for other in sorted(candidates):
            shared = stem_set & seen[other]
            are_numbers = all(map(_NUMBER.fullmatch, shared))
            if are_numbers and (stem_set != seen[other] or len(stem_set) < _MIN_NUMBERED):
                continue
            if len(shared) > 1 and len(shared) >= _SAME * min(len(stem_set), len(seen[other])):
                are_counted = len({_NUMBER.sub("0", stem) for stem in shared}) == 1
                are_named = {other.lower(), label.lower()} <= _PAIRED
                is_certain = (not are_counted or are_named) and not needs_pairs
                if is_certain or are_pairs(other, label, shared):
                    return other, label
        seen[label] = stem_set
        for stem in stem_set:
            by_name.setdefault(stem, label)
    return None


def _shown(names: Sequence[str], without: Collection[str] = ()) -> str:
    names = [name for name in names if name not in without]
    return ", ".join(map(repr, map(display_path, names[:5]))) + (", …" if len(names) > 5 else "")
