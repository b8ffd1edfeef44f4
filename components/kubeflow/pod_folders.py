"""Where a step may write in a pod with a read-only root and no `/tmp`.

with temporary_folder(["/minio/mlpipeline/runs/1/examples"]):
    tempfile.TemporaryFile()                    # beside the output, where there is no other place
output_file = "/tmp/kfp_outputs/output_metadata.json"
held = writable_file(output_file)              # for whoever cannot do without the file
hand_over(output_file, document)

Kubeflow's launcher makes the folders that outputs lie in, on volumes that every pod has, and
uploads of them what is at the outputs' own paths.
"""

import contextlib
import errno
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import Json
from trainer_utils.storage import write_text

__all__ = [
    "PAGE_OUTPUT",
    "PAGE_TYPE",
    "hand_over",
    "hand_over_value",
    "page_folder",
    "run_step",
    "temporary_folder",
    "writable_file",
    "write_json",
]

PAGE_OUTPUT = ("report", "tfx.File")
"""Name and TFX type of the output of DatasetReport: a folder with a page."""

PAGE_TYPE = "system.HTML"
"""Kubeflow's type of it: the page itself."""

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_CURE = (
    "Give the step an empty folder there: tfx-shards compile --scratch /tmp, or "
    "kubernetes.empty_dir_mount(task, 'tmp', '/tmp')."
)


def run_step(work: Callable[[], None]) -> int:
    """The exit status of a step: 0 where it worked, 1 for bad data or settings.

    Other errors are raised.
    """
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", category=FutureWarning)  # of Google's packages
    try:
        work()
    except DatasetError as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


@contextlib.contextmanager
def temporary_folder(outputs: Iterable[str]) -> Iterator[None]:
    """Gives Python, and what it starts, a folder for temporary files where the pod has none.

    It is the home as well of a user that has none, which some libraries ask for when imported.

    Args:
        outputs: paths of the step's outputs; the folder lies beside the first that has room for
            it, and goes with the block. Where none has, the log says so, and the step fails if
            it needs one.
    """
    with contextlib.ExitStack() as stack:
        if not _has_temporary_folder():
            for output in outputs:
                with contextlib.suppress(OSError):
                    parent = os.path.dirname(output)
                    os.makedirs(parent, exist_ok=True)
                    made = tempfile.TemporaryDirectory(dir=parent, prefix=".tfx-shards-tmp-")
                    _set_folder(stack.enter_context(made), stack)
                    break
            else:
                logging.warning("/tmp: no folder for temporary files can be written. %s", _CURE)
        if os.path.expanduser("~") == "~" and _has_temporary_folder():
            _set_variable("HOME", tempfile.gettempdir(), stack)
        yield


def _has_temporary_folder() -> bool:
    try:
        tempfile.gettempdir()
    except OSError:
        return False
    return True


def _set_folder(folder: str, stack: contextlib.ExitStack) -> None:
    stack.callback(setattr, tempfile, "tempdir", None)
    _set_variable("TMPDIR", folder, stack)
    tempfile.tempdir = folder


def _set_variable(name: str, value: str, stack: contextlib.ExitStack) -> None:
    before = os.environ.get(name)

    def restore() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    stack.callback(restore)
    os.environ[name] = value


def writable_file(path: str) -> str:
    """The path, or one in the temporary folder where the pod does not let it be written."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
    if os.access(os.path.dirname(path), os.W_OK):
        return path
    return os.path.join(tempfile.gettempdir(), os.path.basename(path))


def hand_over(path: str, document: Mapping[str, Json]) -> None:
    """Writes what the launcher reads of the outputs, or warns where the pod does not let it.

    The launcher does without: the outputs lack their metadata then, and nothing else.
    """
    try:
        write_json(path, document)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        logging.warning(
            "%s: cannot be written (%s): the outputs are whole, but Kubeflow shows no metadata of "
            "them. %s",
            path,
            error.strerror,
            _CURE,
        )


def hand_over_value(path: str, name: str, text: str) -> None:
    """Writes the value of a parameter, which the launcher does not do without.

    Raises:
        ConfigError: the pod does not let it be written.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        raise ConfigError(
            f"{path}: expected a file that can be written, for Kubeflow to take the value of "
            f"{name!r} from, got {error.strerror}. {_CURE}",
            setting=name,
        ) from None


def write_json(path: str, document: Mapping[str, Json]) -> None:
    """Writes a file in one go, and the folder that it is in."""
    text = json.dumps(document, sort_keys=True)
    write_text(path, text, temporary_folder=os.path.dirname(path))


@contextlib.contextmanager
def page_folder(path: str) -> Iterator[str]:
    """A folder for an executor; the page that it leaves there becomes the file at `path`."""
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield folder
        (page,) = (name for name in os.listdir(folder) if name.endswith(".html"))
        os.replace(os.path.join(folder, page), path)
