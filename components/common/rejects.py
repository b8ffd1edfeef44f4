"""Rejected inputs: each is counted, and a line of `rejects.jsonl` says why."""

import collections
import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NamedTuple

from trainer_utils.format import InputError
from trainer_utils.format.printable import printable_json
from trainer_utils.storage import display_path, is_fault

_SHOWN = 10
_MOST_SHOWN = 200  # characters of what a library says
# What is missing on the machine is no input's doing either.
_PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit, ImportError)


class RejectedInputError(Exception):
    """One input cannot become an example; `code` is a fixed upper-case word.

    Not of the family of `DatasetError`, which ends a run: this one is counted, and the run goes on.
    """

    def __init__(self, code: str, detail: str, *, name: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.name = name

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


@dataclasses.dataclass(frozen=True, order=True)
class Reject:
    """One rejected input: its split, where it is from, a fixed upper-case code, and a sentence."""

    split: str
    source: str
    code: str
    detail: str


def render_rejects(rejects: Iterable[Reject]) -> str:
    """`rejects.jsonl` as text, sorted, with escapes for what a reader may take for more lines."""
    return "".join(
        printable_json(
            json.dumps(
                {**dataclasses.asdict(reject), "source": display_path(reject.source)},
                ensure_ascii=False,
                sort_keys=True,
            )
        )
        + "\n"
        for reject in sorted(rejects)
    )


def check_reject_fraction(
    rejects: Sequence[Reject], *, found: int, max_reject_fraction: float, listed_in: str
) -> None:
    """Raise InputError if more than `max_reject_fraction` of the inputs were rejected."""
    if len(rejects) <= max_reject_fraction * found:
        return
    raise too_many_rejects(
        rejects, found=found, max_reject_fraction=max_reject_fraction, listed_in=listed_in
    )


def too_many_rejects(
    rejects: Sequence[Reject], *, found: int, max_reject_fraction: float, listed_in: str = ""
) -> InputError:
    """Return the error of a run with too many rejects: one line per input and per remedy."""
    codes = collections.Counter(reject.code for reject in rejects)
    counts = ", ".join(f"{count:,} {code}" for code, count in sorted(codes.items()))
    lines = [
        f"  {display_path(reject.source)}: {reject.code} ({reject.detail})"
        for reject in sorted(rejects, key=lambda reject: reject.source)[:_SHOWN]
    ]
    if len(rejects) > _SHOWN:
        lines.append(f"  and {len(rejects) - _SHOWN:,} more")
    if listed_in:
        lines.append(f"All are listed in {listed_in}.")
    lines += [f"{code}: {remedy(code)}." for code in sorted(codes) if code in REJECT_CODES]
    if len(rejects) < found:
        share = math.ceil(100 * len(rejects) / found) / 100
        lines.append(
            f"To leave them out: --max-reject-fraction {share:g} (max_reject_fraction={share:g})."
        )
    return InputError(
        f"{len(rejects):,} of {found:,} inputs were rejected ({counts}), more than "
        f"max_reject_fraction={max_reject_fraction:g} allows:",
        details=lines,
    )


def remedy(code: str) -> str:
    """Return how to fix the inputs that were rejected with a code, as plain text."""
    return REJECT_CODES[code].cure.replace("`", "")


class reject_errors:
    """Turns every error but `RejectedInputError` into one, of the code INTERNAL.

    It names the exception. Those by which a user or the system ends the process pass, a library
    that is not installed, and faults of the machine, for which `persist` within makes the call
    again. A class, since a generator would take three times as long, and cannot take StopIteration.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, (RejectedInputError, *_PASSING)) or is_fault(error):
            return
        raise RejectedInputError("INTERNAL", _shown(error)) from error


def _shown(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())[:_MOST_SHOWN]
    except Exception:  # it cannot even say what it is
        return name
    return f"{name}: {text}" if text else name


class RejectCode(NamedTuple):
    """Why an input is left out, and what to do about it; its line has the detail."""

    cause: str
    cure: str


REJECT_CODES = {
    "ANIMATION": RejectCode(
        'an image of several frames, with `frames="reject"`', 'set `frames="first"`'
    ),
    "BAD_ANNOTATION": RejectCode(
        "an annotation that cannot be read, boxes that are none, or the size of another image",
        "mend the annotation",
    ),
    "BAD_JSON": RejectCode("a line or an entry that is no JSON object", "mend it"),
    "CHANGED_FILE": RejectCode(
        "the file has another size than when it was listed",
        "run again when nobody writes to the folder",
    ),
    "DAMAGED_AUDIO": RejectCode("a sound that does not decode", "restore or remove it"),
    "DAMAGED_IMAGE": RejectCode(
        "an image whose structure, checksums or tables are wrong", "restore or remove it"
    ),
    "EMPTY_FILE": RejectCode("no bytes, or no text", "restore or remove it"),
    "FILE_NOT_FOUND": RejectCode(
        "a list or annotation names a file that is not there",
        "bring the file; or name the folder that the paths are relative to, `file_roots=`",
    ),
    "INTERNAL": RejectCode(
        "a library raised an error that nobody expected, which is named",
        "report it, with the file if you can",
    ),
    "LABEL_MAP_SIZE": RejectCode(
        "a label map has another size than its image", "make both of one size"
    ),
    "NOT_AN_IMAGE": RejectCode("none of the formats of images", "remove it, or name it otherwise"),
    "NOT_AUDIO": RejectCode("none of the formats of sounds", "remove it, or name it otherwise"),
    "NOT_A_FILE": RejectCode(
        "a folder, link, pipe, socket or device where a file should be", "put a file there"
    ),
    "NOT_A_LABEL_MAP": RejectCode(
        "colours, or class ids over 255, where one id a pixel is expected",
        "write the map with one channel of 8 bits",
    ),
    "NOT_UTF8": RejectCode(
        "bytes that are no text in UTF-8, or in the `encoding` that was given",
        'save it as UTF-8, or name its encoding: `encoding="latin-1"`',
    ),
    "NO_ANNOTATION": RejectCode("an image without its annotation", "add it, or remove the image"),
    "NO_IMAGE": RejectCode("a key of an archive that has no image", "add it, or remove the key"),
    "NO_LABEL": RejectCode(
        "a file beside the class folders, or a row without its label",
        "move it to its class, or fill the label in",
    ),
    "NO_LABEL_MAP": RejectCode("an image without its label map", "add it, or remove the image"),
    "NO_SAMPLES": RejectCode("a sound of no length", "restore or remove it"),
    "NO_SPLIT": RejectCode("a file beside the split folders", "move it to its split"),
    "NUL_BYTE": RejectCode(
        "a text with a byte of 0, as UTF-16 has",
        'name its encoding: `encoding="utf-16"`; or mend the text',
    ),
    "OUTSIDE_INPUT_BASE": RejectCode(
        "a link or a path of a list that leads out of `input_base` and of the `file_roots`",
        "put the file in place of the link; or allow the folder: `file_roots=`",
    ),
    "SPARSE_MEMBER": RejectCode("a member of an archive with holes", "pack it without `tar -S`"),
    "TOO_LARGE": RejectCode(
        "more than one input may have: 1 GiB of a file, 64 MiB of a row", "split or remove it"
    ),
    "TOO_MANY_CHANNELS": RejectCode(
        "a sound of more than two channels, with `channels=2`", "set `channels=1`, or mix it down"
    ),
    "TOO_MANY_PIXELS": RejectCode(
        "more pixels than `max_pixels`, all frames together", "raise `max_pixels`, or scale it down"
    ),
    "TRUNCATED_AUDIO": RejectCode("a sound that ends too early", "copy it anew"),
    "TRUNCATED_IMAGE": RejectCode("an image that ends too early", "copy it anew"),
    "UNKNOWN_LABEL": RejectCode(
        "a label that the given `vocabulary` lacks", "mend the label, or add it to `vocabulary`"
    ),
    "UNKNOWN_SCHEME": RejectCode(
        "an address of a kind that is not read, such as http://", "download it first"
    ),
    "UNKNOWN_SPLIT": RejectCode(
        "a row whose split is none of TRAIN, VALIDATION, TEST, UNASSIGNED and DISCARD",
        'mend the word; if the column is of no splits: `columns={"split": "string"}`',
    ),
    "UNREADABLE": RejectCode(
        "a file that may not be read, or whose path is too long",
        "give the run the right to read it",
    ),
    "UNSUPPORTED_COLOUR": RejectCode(
        "colours that neither TensorFlow nor Pillow makes RGB of", "save it as RGB"
    ),
    "UNSUPPORTED_FORMAT": RejectCode(
        "a kind of file that is known and not read",
        "convert it to JPEG or PNG, WAV or FLAC; unpack an archive",
    ),
    "VANISHED": RejectCode(
        "the file was there when the folder was listed, and is gone",
        "run again when nobody writes to the folder",
    ),
    "WRONG_COLUMNS": RejectCode(
        "a row of more or fewer fields than the header", "mend the row: often a quote is missing"
    ),
}
