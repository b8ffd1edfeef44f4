"""Rejected inputs. Each is counted, and a line of `rejects.jsonl` gives the reason."""

import collections
import dataclasses
import json
import math
import re
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NamedTuple

from components.inputs.advice import how_to_set
from trainer_utils.core.errors import InputError
from trainer_utils.core.printable import printable_json
from trainer_utils.storage import display_path, is_host_error

_SHOWN = 10
_QUOTED_BYTES = re.compile(r"""\bb(['"])(?:\\.|(?!\1).)*\1""")
_MIN_LISTED = 100  # rejects before a run may end without reading all inputs
_MAX_SHOWN = 200  # characters of a library's message
# A missing library is the machine's problem, not the input's.
_PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit, ImportError)


class RejectedInputError(Exception):
    """An input cannot become an example. Its `code` is a fixed upper-case word.

    It is not a `DatasetError`, which would end the run. The input is counted, and the run
    continues.
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
    """A rejected input: its split, its source, a fixed upper-case code, and a sentence."""

    split: str
    source: str
    code: str
    detail: str


def without_bytes(detail: str) -> str:
    """Return a detail without the bytes of a file that it quotes."""
    return _QUOTED_BYTES.sub("some bytes", detail)


def render_rejects(rejects: Iterable[Reject]) -> str:
    """Return the sorted content of `rejects.jsonl`, with escapes for unusual line separators."""
    return "".join(
        printable_json(
            json.dumps(
                {
                    **dataclasses.asdict(reject),
                    "source": display_path(reject.source),
                    "remedy": remedy(reject.code),
                },
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
    rejects: Sequence[Reject],
    *,
    found: int,
    max_reject_fraction: float,
    listed_in: str = "",
    seen: int | None = None,
    where: str = "",
) -> InputError:
    """Return the error of a run with too many rejects: one line per input and per remedy.

    Args:
        rejects: the rejects so far.
        found: the number of all inputs.
        max_reject_fraction: the fraction that may be rejected.
        listed_in: the file that has all rejects.
        seen: the number of inputs that were read, if the run ended before reading all.
        where: the part of the run that these inputs belong to.
    """
    codes = collections.Counter(reject.code for reject in rejects)
    counts = ", ".join(f"{count:,} {code}" for code, count in sorted(codes.items()))
    lines = [
        f"  {display_path(reject.source)}: {reject.code} ({reject.detail})"
        for reject in sorted(rejects, key=lambda reject: reject.source)[:_SHOWN]
    ]
    if len(rejects) > _SHOWN:
        lines.append(f"  and {len(rejects) - _SHOWN:,} more")
    if listed_in:
        lines.append(f"All{'' if seen is None else ' so far'} are listed in {listed_in}.")
    lines += [f"{code}: {remedy(code)}." for code in sorted(codes) if code in REJECT_CODES]
    if len(rejects) < found and seen is None:
        share = math.ceil(100 * len(rejects) / found) / 100
        lines.append(f"To leave them out: {how_to_set(max_reject_fraction=share)}.")
    if seen is not None:
        return InputError(
            f"{len(rejects):,} of the first {seen:,} inputs{where} were rejected ({counts}): of "
            f"all {found:,}, max_reject_fraction={max_reject_fraction:g} allows "
            f"{math.floor(max_reject_fraction * found):,}. No more were read:",
            details=lines,
        )
    return InputError(
        f"{len(rejects):,} of {found:,} inputs were rejected ({counts}), more than "
        f"max_reject_fraction={max_reject_fraction:g} allows:",
        details=lines,
    )


def remedy(code: str) -> str:
    """Return how to fix inputs that were rejected with a code, as plain text."""
    return REJECT_CODES[code].cure.replace("`", "") if code in REJECT_CODES else ""


@dataclasses.dataclass(frozen=True)
class RejectLimit:
    """The limit on a run's rejects, checked while its inputs are read.

    Args:
        found: the number of all inputs.
        max_reject_fraction: the fraction that may be rejected.
        rejected_before: the number of rejects known before any file was read.
        listed_in: the file that the rejects are written to when the run ends.
    """

    found: int
    max_reject_fraction: float
    rejected_before: int
    listed_in: str

    def check(self, rejects: Sequence[Reject], *, seen: int, where: str = "") -> None:
        """Raise InputError, which carries the rejects, if the limit is certain to be exceeded.

        It waits for a minimum number of rejects, so that the list is worth reading.

        Args:
            rejects: the rejects of the inputs that were read so far.
            seen: the number of inputs that were read so far.
            where: the part of the run, for the message.
        """
        count = len(rejects) + self.rejected_before
        if len(rejects) < _MIN_LISTED or count <= self.max_reject_fraction * self.found:
            return
        error = too_many_rejects(
            rejects,
            found=self.found,
            max_reject_fraction=self.max_reject_fraction,
            listed_in=self.listed_in,
            seen=seen,
            where=where,
        )
        error.rejects = [list(dataclasses.astuple(reject)) for reject in rejects]
        raise error


def rejects_of(error: InputError) -> list[Reject]:
    """Return the rejects that an error from `RejectLimit` carries."""
    return [Reject(*fields) for fields in error.rejects]


class reject_errors:
    """Context manager that turns any other error into a `RejectedInputError` with code INTERNAL.

    The detail names the exception. KeyboardInterrupt, SystemExit and missing libraries propagate,
    as do faults of the machine, which `retry_transient` retries inside. This is a class because a
    generator would take three times as long and cannot handle StopIteration.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if (
            error is None
            or isinstance(error, (RejectedInputError, *_PASSING))
            or is_host_error(error)
        ):
            return
        raise RejectedInputError("INTERNAL", _shown(error)) from error


def _shown(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())[:_MAX_SHOWN]
    except Exception:  # the exception's own `__str__` fails
        return name
    return f"{name}: {text}" if text else name


class RejectCode(NamedTuple):
    """The reason why an input is left out, and the fix. The reject's line has the detail."""

    cause: str
    cure: str


REJECT_CODES = {
    "ANIMATION": RejectCode(
        'an image with several frames, and `frames="reject"`',
        "keep the first frame: `frames='first'` (`--frames first`)",
    ),
    "BAD_ANNOTATION": RejectCode(
        "an annotation that cannot be read, has impossible boxes, or is for an image of another "
        "size",
        "fix the annotation",
    ),
    "BAD_CHAT": RejectCode(
        "a chat that the tokenizer's template refuses", "fix its messages, or the template"
    ),
    "BAD_JSON": RejectCode("a line or an entry that is not a JSON object", "fix it"),
    "BOX_FRAME": RejectCode(
        "an image that EXIF rotates, whose boxes or label map may be of either frame",
        "say which: `box_frame='displayed'` (`--box-frame displayed`) or `box_frame='stored'` "
        "(`--box-frame stored`)",
    ),
    "CHANGED_FILE": RejectCode(
        "the file's size has changed since it was listed",
        "run again when nothing writes to the folder",
    ),
    "DAMAGED_AUDIO": RejectCode("an audio file that does not decode", "restore or remove it"),
    "DAMAGED_IMAGE": RejectCode(
        "an image with a wrong structure, checksum or table", "restore or remove it"
    ),
    "EMPTY_FILE": RejectCode("no bytes, or no text", "restore or remove it"),
    "FILE_NOT_FOUND": RejectCode(
        "a list or annotation names a file that is not there",
        "add the file; or name the folder that the paths are relative to, as in "
        "`file_roots=['/data']` (`--file-root /data`)",
    ),
    "INTERNAL": RejectCode(
        "a library raised an unexpected error, which is named",
        "report it, with the file if you can",
    ),
    "LABEL_MAP_SIZE": RejectCode(
        "a label map of another size than its image", "make both the same size"
    ),
    "NOT_AN_IMAGE": RejectCode("not in an image format", "remove it, or fix its extension"),
    "NOT_AUDIO": RejectCode("not in an audio format", "remove it, or fix its extension"),
    "NOT_A_FILE": RejectCode(
        "a folder, link, pipe, socket or device instead of a file", "put a file there"
    ),
    "NOT_A_LABEL_MAP": RejectCode(
        "colours, or class ids above 255, where one id per pixel is expected",
        "replace each colour by the id of its class, and write one channel of 8 bits",
    ),
    "NOT_UTF8": RejectCode(
        "bytes that are not text in UTF-8, or in the given `encoding`",
        "save it as UTF-8, or name its encoding, as in `encoding='latin-1'` (`--encoding latin-1`)",
    ),
    "NO_ANNOTATION": RejectCode("an image without its annotation", "add it, or remove the image"),
    "NO_IMAGE": RejectCode("a key of an archive without an image", "add it, or remove the key"),
    "NO_LABEL": RejectCode(
        "a file next to the class folders, or a row without a label",
        "move it to its class, or fill in the label",
    ),
    "NO_LABEL_MAP": RejectCode("an image without its label map", "add it, or remove the image"),
    "NO_SAMPLES": RejectCode("an audio file without samples", "restore or remove it"),
    "NO_SPLIT": RejectCode("a file next to the split folders", "move it to its split"),
    "NUL_BYTE": RejectCode(
        "a text that contains a NUL byte, as UTF-16 does",
        "name its encoding, as in `encoding='utf-16'` (`--encoding utf-16`), or fix the text",
    ),
    "OUTSIDE_INPUT_BASE": RejectCode(
        "a link or a path of a list that leads out of `input_base` and of the `file_roots`",
        "read linked files with `follow_links=True` (`--follow-links`); or allow the folder, as in "
        "`file_roots=['/data']` (`--file-root /data`)",
    ),
    "SPARSE_MEMBER": RejectCode("a sparse member of an archive", "pack it without `tar -S`"),
    "TOO_LARGE": RejectCode(
        "larger than the limit: 1 GiB for a file, 64 MiB for a row", "split or remove it"
    ),
    "TOO_MANY_CHANNELS": RejectCode(
        "an audio file with more than two channels, and `channels=2`",
        "mix it down: `channels=1` (`--channels 1`)",
    ),
    "TOO_MANY_PIXELS": RejectCode(
        "more pixels than `max_pixels` in all frames together",
        "raise the limit, as in `max_pixels=400000000` (`--max-pixels 400000000`), or scale the "
        "image down",
    ),
    "TRUNCATED_AUDIO": RejectCode("an audio file that ends too early", "copy it again"),
    "TRUNCATED_IMAGE": RejectCode("an image that ends too early", "copy it again"),
    "UNKNOWN_LABEL": RejectCode(
        "a label that is not in the given `vocabulary`", "fix the label, or add it to `vocabulary`"
    ),
    "UNKNOWN_SCHEME": RejectCode(
        "an address with an unsupported scheme, such as http://", "download it first"
    ),
    "UNKNOWN_SPLIT": RejectCode(
        "a row whose split is not TRAIN, VALIDATION, TEST, UNASSIGNED or DISCARD",
        "fix the word; or, if the column has no splits, `columns={'split': 'string'}` (`--column "
        "split=string`)",
    ),
    "UNREADABLE": RejectCode(
        "a file that cannot be read, or whose path is too long",
        "give the run permission to read it, or restore the target of the link",
    ),
    "UNSUPPORTED_COLOUR": RejectCode(
        "colours that neither TensorFlow nor Pillow can convert to RGB", "save it as RGB"
    ),
    "UNSUPPORTED_FORMAT": RejectCode(
        "a known but unsupported format",
        "convert it to JPEG or PNG, WAV or FLAC; unpack an archive",
    ),
    "VANISHED": RejectCode(
        "the file has been removed since the folder was listed",
        "run again when nothing writes to the folder",
    ),
    "WRONG_COLUMNS": RejectCode(
        "a row with more or fewer fields than the header", "fix the row: often a quote is missing"
    ),
}
