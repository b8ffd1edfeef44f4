"""Refuse texts whose lines have a format of their own, such as fastText's, or warn of them.

    __label__pos the film was good     # fastText
    1 3:0.5 7:1                        # LIBSVM
    0 the film was bad                 # a label in front, such as SST's and TREC's
    Paris NNP B-LOC                    # CoNLL: a token with its tags per line
    text,label                         # a table in a .txt file
    train.en, train.de                 # parallel texts: line n of both is a pair

As plain text they would lose their labels or pairs. The error has the command that keeps them, and
the layout to set if the lines are plain text after all.
"""

import collections
import csv
import json
import posixpath
import re
import shlex
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.listing import LayoutInputs
from components.layouts.junk import is_clutter
from trainer_utils.core.errors import InputError
from trainer_utils.format.split_words import split_of_name
from trainer_utils.storage import display_path, is_remote, join

_MAX_FILES = 5  # files to look into
_MAX_PARALLEL = 10_000  # files of a parallel corpus
_HEAD_BYTES, _MIN_LINES = 4096, 3
_MIN_PAIRS = 2  # any two files of one line have as many lines
_CHUNK_BYTES = 1 << 20
_FASTTEXT = re.compile(r"(__label__\S+\s+)+\S")
_LIBSVM = re.compile(r"[-+]?\d+(\.\d+)?(\s+\d+:[-+]?[\d.]+([eE][-+]?\d+)?)+(\s*#.*)?")
_LEADING = re.compile(r"([-+]?\d{1,3}|[A-Z]{2,}(?:[:_]\w+)?)\s+(?=.*[^\W\d])")
_MIN_LABELLED, _PER_LABEL = 8, 3  # lines, and lines per label, of texts with a label in front
_NO_TOKENS = ("#", "-DOCSTART-")  # beginnings of lines of CoNLL files that have no token
_TAG = re.compile(r"O|[BIELSU]-\S+")
_NAME = re.compile(r"[A-Za-z_][\w .-]{0,30}")
_KNOWN_NAMES = frozenset(
    """
    text label labels sentence sentence1 sentence2 content review class category source target
    question answer prompt response instruction output summary premise hypothesis tweet document
    comment sentiment score rating id
    """.split()  # noqa: SIM905  as a list it would be 25 lines
)
_LANGUAGES = frozenset(
    """
    af am ar az be bg bn br bs ca ceb cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi
    hr ht hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lo lt lv mg mk ml mn mr ms mt my ne nl
    no ny or pa pl ps pt ro ru rw sd si sk sl sm sn so sq sr st su sv sw ta te tg th tk tl tr tt ug
    uk ur uz vi xh yi yo zh zu eng deu ger fra fre spa ita rus zho chi jpn kor ara hin por nld ces
    """.split()  # noqa: SIM905
)
_VARIABLE = '"$f"'
_SIDES = frozenset(("src", "tgt", "trg", "source", "target"))

_FASTTEXT_ROW = (
    'import json, re, sys; [print(json.dumps({"label": %s, '
    r'"text": re.sub(r"__label__\S+\s*", "", s).strip()})) for s in sys.stdin if s.strip()]'
)
_ONE_LABEL = r're.search(r"__label__(\S+)", s)[1]'
_SEVERAL_LABELS = r're.findall(r"__label__(\S+)", s)'
_LIBSVM_ROWS = (
    "import json, sys; "
    '[print(json.dumps({"label": float(r[0]), "indices": [int(p.split(":")[0]) for p in r[1:]], '
    '"values": [float(p.split(":")[1]) for p in r[1:]]})) '
    'for s in sys.stdin if (r := s.split("#")[0].split())]'
)
_LEADING_ROW = (
    "import json, sys; "
    '[print(json.dumps({"label": %s, "text": text.strip()})) '
    "for label, text in (s.split(None, 1) for s in sys.stdin if s.strip())]"
)
_NAMED_ROW = (
    "import json, sys; "
    '[print(json.dumps({"label": sys.argv[1].removesuffix(".txt"), "text": s.strip()})) '
    "for s in sys.stdin if s.strip()]"
)
_CONLL_ROWS = (
    "import json, sys; "
    '[print(json.dumps({"tokens": [r[%d] for r in rows], "tags": [r[%d] for r in rows]})) '
    r'for part in sys.stdin.read().replace("\r", "").split("\n\n") if (rows := [s.split(%s) '
    'for s in part.splitlines() if s.strip() and not s.startswith(("#", "-DOCSTART-"))])]'
)


def check_lines(inputs: LayoutInputs, layout: str, paths: Sequence[str]) -> None:
    """Raise an InputError, or log a warning, if the first files of text have another format.

    Args:
        inputs: the inputs.
        layout: the layout that would read them, `lines` or `folder`.
        paths: the files.

    Raises:
        InputError: lines have labels or columns that plain text would lose.
    """
    with_lines = []  # files without blank lines
    for path in sorted(paths)[:_MAX_FILES]:
        if inputs.files[path].problem is not None:
            continue
        head = _unpacked(inputs.head(path, _HEAD_BYTES))
        if b"\0" in head:  # no text in UTF-8, as its reader reports
            continue
        text = head.decode("utf-8", "replace").removeprefix("\ufeff")
        lines = text.splitlines() if len(head) < _HEAD_BYTES else text.split("\n")[:-1]
        filled = [line for line in lines if line.strip()]
        if len(filled) < _MIN_LINES:
            continue
        for pattern, refuse in ((_FASTTEXT, _refuse_fasttext), (_LIBSVM, _refuse_libsvm)):
            if all(map(pattern.match if refuse is _refuse_fasttext else pattern.fullmatch, filled)):
                raise refuse(inputs, layout, path, paths, filled)
        if (labels := _leading_labels(filled)) is not None:
            raise _refuse_labels(inputs, layout, path, paths, filled, labels)
        if (code := _conll_rows(lines)) is not None:
            command = _rewrite(inputs, paths, code)
            raise _refused(inputs, layout, path, "tokens with tags (CoNLL)", filled[0], command)
        _check_columns(inputs, layout, path, filled)
        if len(filled) == len(lines) >= _MIN_LABELLED:
            with_lines.append(path)
    if layout == "folder" and with_lines == sorted(paths):
        _warn_of_lines(inputs, with_lines)


def _warn_of_lines(inputs: LayoutInputs, paths: Sequence[str]) -> None:
    """Log a warning that few files without blank lines become one example each."""
    if len(paths) == 1:
        logging.warning(
            "%r becomes one example. If each of its lines is an example: %s",
            *(display_path(paths[0]), how_to_set(layout="lines")),
        )
        return

    def command(name: str) -> str:
        program = shlex.join(["python3", "-c", _NAMED_ROW])
        return (
            f"{program} {name if name == _VARIABLE else shlex.quote(name)} < {_place(inputs, name)}"
        )

    parts = [inputs.parts_of(path) for path in paths]
    cure = ""
    if not is_remote(inputs.base) and {*map(len, parts)} == {1}:
        cure = _as_json_lines(inputs, [part for (part,) in parts], command, left_out=0)
        cure = f" To keep their names as labels: {cure[0].lower()}{cure[1:].rstrip('. ')}"
    logging.warning(
        "%s become one example each. If each of their lines is an example: %s.%s",
        ", ".join(repr(display_path(path)) for path in paths),
        *(how_to_set(layout="lines"), cure),
    )


def _unpacked(head: bytes) -> bytes:
    """Return the first bytes of a file that may be packed by gzip."""
    if not head.startswith(b"\x1f\x8b"):
        return head
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""


def _leading_labels(lines: Sequence[str]) -> set[str] | None:
    """Return the labels at the beginning of all lines, such as the 0 of "0 bad"; None if not."""
    matches = [*map(_LEADING.match, lines)]
    labels = {match[1] for match in matches if match is not None}
    is_several = 1 < len(labels) <= len(lines) // _PER_LABEL
    return labels if None not in matches and is_several and len(lines) >= _MIN_LABELLED else None


def _refuse_labels(
    inputs: LayoutInputs,
    layout: str,
    path: str,
    paths: Sequence[str],
    lines: Sequence[str],
    labels: set[str],
) -> InputError:
    are_numbers = all(label.lstrip("+-").isdecimal() for label in labels)
    code = _LEADING_ROW % ("int(label)" if are_numbers else "label")
    noun = "a label at the beginning of each line"
    return _refused(inputs, layout, path, noun, lines[0], _rewrite(inputs, paths, code))


def _conll_rows(lines: Sequence[str]) -> str | None:
    """Return the program that writes sentences of CoNLL or CoNLL-U as JSON lines; None if not."""
    tokens = [line for line in lines if line.strip() and not line.startswith(_NO_TOKENS)]
    if len(tokens) < _MIN_LINES or all(map(str.strip, lines)):
        return None
    if all(line.count("\t") == 9 and line[0].isdecimal() for line in tokens):
        return _CONLL_ROWS % (1, 3, json.dumps("\t"))  # CoNLL-U: the word and its UPOS
    rows = [line.split() for line in tokens]
    if len({*map(len, rows)}) > 1 or len(rows[0]) < 2:
        return None
    are_tags = all(_TAG.fullmatch(row[-1]) for row in rows)
    return _CONLL_ROWS % (0, -1, "") if are_tags or len(rows[0]) in (3, 4) else None


def _refuse_fasttext(
    inputs: LayoutInputs, layout: str, path: str, paths: Sequence[str], lines: Sequence[str]
) -> InputError:
    has_several = any(line.count("__label__") > 1 for line in lines)
    code = _FASTTEXT_ROW % (_SEVERAL_LABELS if has_several else _ONE_LABEL)
    return _refused(
        inputs, layout, path, "labels of fastText", lines[0], _rewrite(inputs, paths, code)
    )


def _refuse_libsvm(
    inputs: LayoutInputs, layout: str, path: str, paths: Sequence[str], lines: Sequence[str]
) -> InputError:
    command = _rewrite(inputs, paths, _LIBSVM_ROWS)
    return _refused(inputs, layout, path, "LIBSVM's labels and features", lines[0], command)


def _refused(
    inputs: LayoutInputs, layout: str, path: str, noun: str, line: str, cure: str
) -> InputError:
    return InputError(
        f"{display_path(path)!r}: expected plain text, got {noun}: {line[:60]!r} (line 1). {cure}"
        f"If it is plain text: {how_to_set(layout=layout)}.",
        path=path,
    )


def _rewrite(inputs: LayoutInputs, paths: Sequence[str], code: str) -> str:
    """Return the command that writes each file as JSON lines, and converts these."""
    names = [inputs.parts_of(path) for path in sorted(paths)]
    if is_remote(inputs.base):
        return "Write JSON lines instead. "
    if inputs.root in inputs.files:
        file = display_path(join(inputs.base, inputs.root))
        write = _program(code, shlex.quote(file), paths)
        convert = shlex.join(["tfx-shards", "convert", f"{file}.jsonl", "OUT"])
        return f"Write JSON lines instead: {write} > {shlex.quote(f'{file}.jsonl')} && {convert}. "
    return _as_json_lines(
        inputs,
        ["/".join(parts) for parts in names if len(parts) == 1],
        lambda name: _program(code, _place(inputs, name), paths),
        left_out=sum(len(parts) > 1 for parts in names),
    )


def _program(code: str, place: str, paths: Sequence[str]) -> str:
    """Return the command that runs a program of Python on a file."""
    program = shlex.join(["python3", "-c", code])
    is_packed = all(path.lower().endswith(".gz") for path in paths)
    return f"gzip -dc < {place} | {program}" if is_packed else f"{program} < {place}"


def _as_json_lines(
    inputs: LayoutInputs, names: Sequence[str], command: Callable[[str], str], *, left_out: int
) -> str:
    """Return a sentence with the command that writes JSON lines into a new folder.

    Args:
        inputs: the inputs.
        names: the start of each output's name.
        command: returns the command whose output is written, for a name or for `"$f"`.
        left_out: the number of files that these commands do not read.
    """
    folder = f"{inputs.base.rstrip('/')}-jsonl"
    words = " ".join(map(shlex.quote, names))
    write = (
        f"for f in {words}; do {command(_VARIABLE)} > {shlex.quote(folder)}/{_VARIABLE}.jsonl; done"
    )
    if len(names) == 1:
        write = f"{command(names[0])} > {shlex.quote(f'{folder}/{names[0]}.jsonl')}"
    convert = shlex.join(["tfx-shards", "convert", folder, "OUT"])
    others = f" (without {left_out:,} other files)" if left_out else ""
    make = shlex.join(["mkdir", folder])
    return f"Write JSON lines instead{others}: {make} && {write} && {convert}. "


def _place(inputs: LayoutInputs, name: str) -> str:
    """Return the path of a file for a shell, where its name may have the variable."""
    before, variable, after = name.partition(_VARIABLE)
    place = shlex.quote(join(inputs.base, before) if before else f"{inputs.base.rstrip('/')}/")
    return place + variable + (shlex.quote(after) if after else "")


# Tables -------------------------------------------------------------------------------------------


def _check_columns(inputs: LayoutInputs, layout: str, path: str, lines: Sequence[str]) -> None:
    """Refuse a table with a header, and warn if each line has the same number of delimiters."""
    for delimiter in ("\t", ",", ";", "|"):
        rows = [*csv.reader(lines, delimiter=delimiter)]
        names = [name.strip() for name in rows[0]]
        widths = {len(row) for row in rows}
        if len(widths) > 1 or len(names) < 2:
            continue
        has_header = all(map(_NAME.fullmatch, names)) and not _KNOWN_NAMES.isdisjoint(
            name.lower() for name in names
        )
        settings: dict[str, object] = {"layout": "tsv" if delimiter == "\t" else "csv"}
        if delimiter in ";|":
            settings["delimiter"] = delimiter
        if has_header and all(map({*names}.isdisjoint, rows[1:])):
            raise _refused(
                inputs,
                layout,
                path,
                "a table with a header",
                lines[0],
                f"To read its columns: {how_to_set(**settings)}. ",
            )
        if delimiter == ",":
            continue  # sentences may have as many commas
        if not has_header and delimiter != "\t":
            settings["column_names"] = _column_names(rows)
        word = "tabs" if delimiter == "\t" else repr(delimiter)
        advice = f"If they are rows of a table: {how_to_set(**settings)}"
        logging.warning("%r: each line has %s. %s", display_path(path), word, advice)
        return


def _column_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return names for columns without a header: `text` for the longest, `label` for one other."""
    lengths = [sum(map(len, column)) for column in zip(*rows, strict=True)]
    longest = lengths.index(max(lengths))
    others = ["label"] if len(lengths) == 2 else [f"column_{n}" for n in range(1, len(lengths))]
    return [*others[:longest], "text", *others[longest:]]


# Parallel texts -----------------------------------------------------------------------------------


def refuse_parallel(inputs: LayoutInputs, layout: str) -> None:
    """Raise an InputError if files of text differ only in a language, and have as many lines.

    Args:
        inputs: the inputs.
        layout: the layout that would read them, `lines` or `folder`.
    """
    if len(inputs.files) > _MAX_PARALLEL or inputs.root in inputs.files:
        return
    paths = [file.path for parts, file in inputs.below_root() if not is_clutter(parts)]
    groups: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for path in sorted(paths):
        for key, side in _sides("/".join(inputs.parts_of(path))):
            groups[key][side] = path
    pairs = {
        key: sides
        for key, sides in groups.items()
        if len(sides) > 1 and len({*sides} & _SIDES) in (0, len(sides))
    }
    paired = {path for sides in pairs.values() for path in sides.values()}
    if 2 * len(paired) < len(paths):
        return
    counts = {key: {_num_lines(inputs, path) for path in pairs[key].values()} for key in pairs}
    pairs = {key: sides for key, sides in pairs.items() if len(counts[key]) == 1}
    if max((max(counts[key]) for key in pairs), default=0) < _MIN_PAIRS:
        return
    first = next(iter(pairs.values()))
    left_out = len(paths) - len({path for sides in pairs.values() for path in sides.values()})
    names = " and ".join(repr(display_path(path)) for path in first.values())
    raise InputError(
        f"input_base {inputs.base!r}: {names} have names and numbers of lines like "
        "translations, whose pairs would be lost. "
        f"{_pair(inputs, pairs, left_out)}If they are not pairs: {how_to_set(layout=layout)}.",
        path=inputs.base,
    )


def _sides(path: str) -> Iterator[tuple[str, str]]:
    """Yield each language in the path of a file, and the rest of the path."""
    folder, name = posixpath.split(path)
    parts = re.split(r"([._-])", name)
    for place in range(0, len(parts), 2):
        if len(parts) > 1 and _is_side(parts[place]):
            rest = "".join((*parts[:place], "*", *parts[place + 1 :]))
            yield posixpath.join(folder, rest), parts[place]
    folders = folder.split("/")
    if folder and _is_side(folders[-1]) and split_of_name(name):
        yield posixpath.join(*folders[:-1], "*", name), folders[-1]


def _is_side(word: str) -> bool:
    return word.lower() in _LANGUAGES or word.lower() in _SIDES


def _num_lines(inputs: LayoutInputs, path: str) -> int:
    """Return the number of lines of a file; 0 if it cannot be read."""
    count, last = 0, b"\n"
    try:
        with inputs.open(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                count, last = count + chunk.count(b"\n"), chunk[-1:]
    except OSError:
        return 0
    return count + (last != b"\n")


def _pair(inputs: LayoutInputs, pairs: Mapping[str, Mapping[str, str]], left_out: int) -> str:
    """Return the command that writes the pairs as JSON lines, and converts these."""
    sides = next(iter(pairs.values()))
    start, end = _shared_ends([*pairs])
    same = [key for key, others in pairs.items() if others.keys() == sides.keys()]
    names = [key[len(start) : len(key) - len(end)] for key in same]
    if is_remote(inputs.base) or any(not name or "*" in name or "/" in name for name in names):
        return "Write each pair as one JSON line. "
    row = ", ".join(f"{json.dumps(side)}: r[{n}].strip()" for n, side in enumerate(sides))
    code = (
        f"import json, sys; [print(json.dumps({{{row}}})) for r in "
        'zip(*(open(name, encoding="utf-8") for name in sys.argv[1:]), strict=True)]'
    )

    def command(name: str) -> str:
        files = (_place(inputs, f"{start}{name}{end}".replace("*", side)) for side in sides)
        return f"{shlex.join(['python3', '-c', code])} {' '.join(files)}"

    left_out += sum(len(others) for key, others in pairs.items() if key not in same)
    return _as_json_lines(inputs, names, command, left_out=left_out)


def _shared_ends(keys: Sequence[str]) -> tuple[str, str]:
    """Return the shared beginning and end of all keys. One of them has the language.

    The rest names each pair. A single key is named by all but its language.
    """
    if len(keys) == 1:
        before, _, after = keys[0].partition("*")
        if before.strip("._-/"):
            name = before.rstrip("._-")
            return "", keys[0][len(name) :]
        name = posixpath.splitext(after.lstrip("._-/"))[0]
        place = len(before) + 1 + after.index(name)
        return keys[0][:place], keys[0][place + len(name) :]
    start = posixpath.commonprefix([*keys])
    rest = [key[len(start) :][::-1] for key in keys]
    return start, posixpath.commonprefix(rest)[::-1]
