"""What `convert` and `balance` do: the components' steps, one after the other, in folders as TFX
numbers them.

uris, cached = convert_in(conversion, "/data/out")
uris["ShardBalancer"]

What was made, and of what, stands in `artifacts/conversion.json`; the lineage of a dataset is its
own, in its `lineage.json`.
"""

import contextlib
import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components import steps
from components.balancing.settings import BalancerSettings
from components.common.advice import how_to_set
from components.common.beam import runner_of
from components.common.workspace import folder_lock
from pipelines.tools.conversion.settings import EXAMPLE_GENS, Conversion
from trainer_utils.dataset.location import list_dataset
from trainer_utils.format import DatasetError, InputError, Manifest
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.format.printable import printable
from trainer_utils.storage import (
    exists,
    is_fault,
    is_folder,
    is_remote,
    join,
    list_names,
    make_folder,
    read_text,
    remove_tree,
    write_atomically,
)
from trainer_utils.text_output import list_counts

_RUN_FILE = "conversion.json"
_BALANCED = ("ShardBalancer", "balanced_examples")


def convert_in(conversion: Conversion, root: str) -> tuple[dict[str, str], bool]:
    """The uri that each component gave, by its name; and whether nothing had changed.

    Args:
        conversion: what is to be done.
        root: the folder whose `artifacts` gets the datasets.
    """
    folder, beam = join(root, "artifacts"), conversion.beam_pipeline_args
    settings = conversion.settings
    balancing = BalancerSettings(**conversion.balancer)
    module = steps.workers_module(settings)
    with _alone(folder):
        with runner_of(beam, module=module) as runner:
            planned = steps.conversion_of(conversion.selection, settings, runner)
            key = _digest(planned.key(), balancing)
            if (made := _made_before(folder, key)) is not None:
                return made, True
            name = EXAMPLE_GENS[conversion.kind]
            examples = _next_output(folder, name, "examples")
            converted = steps.convert(planned, examples, settings, runner=runner)
        try:
            check_trainable(converted.manifest)
            balanced = _balance([examples], folder, balancing, beam)
        except BaseException:
            remove_tree(examples)  # which nobody asked for by itself
            raise
        schema, dataset = (
            _next_output(folder, "SchemaExport", output)
            for output in ("datum_schema", "datum_dataset")
        )
        steps.export_schema(balanced, dataset, schema_uri=schema)
        uris = {name: examples, _BALANCED[0]: balanced}
        uris |= {"SchemaExport": schema, "datum_dataset": dataset}
        runs = _read_runs(folder)
        runs[key] = {name: uri[len(folder) + 1 :] for name, uri in uris.items()}
        with write_atomically(join(folder, _RUN_FILE), temporary_folder=folder) as stream:
            stream.write(json.dumps({"runs": runs}, indent=2).encode())
    return uris, False


def balance_in(examples: str, settings: Mapping[str, Any], root: str, beam: Sequence[str]) -> str:
    """The uri of the dataset that was made of the one at `examples`."""
    folder = join(root, "artifacts")
    with _alone(folder):
        return _balance([examples], folder, BalancerSettings(**settings), beam)


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Waits for the end of other runs of this machine that write below a folder.

    They would take the same number for an output.
    """
    if is_remote(folder):
        yield
        return
    make_folder(folder)
    with folder_lock(folder, waiting="another run writes there: waiting for its end"):
        yield


def check_trainable(manifest: Manifest) -> None:
    """Refuses a dataset whose split `train` has no example left.

    Raises:
        InputError: it says what became of the inputs of each split.
    """
    counts = manifest.accounting
    if "train" in counts and not counts["train"].written:
        found = "; ".join(f"{split}: {count}" for split, count in counts.items())
        rejects = f"; {list_counts(manifest.reject_counts)}" * bool(manifest.reject_counts)
        raise InputError(
            f"split 'train': expected examples, got none ({found}{rejects}). Fix the inputs of "
            f"train, or put all into it: {how_to_set(splits={'train': 1})}."
        )


def _balance(
    examples: Sequence[str], folder: str, settings: BalancerSettings, beam: Sequence[str]
) -> str:
    with runner_of(beam, module="balancing.parts") as runner:
        uri = _next_output(folder, *_BALANCED)
        steps.balance(examples, uri, settings, runner=runner)
    return uri


def _digest(key: str, balancing: BalancerSettings) -> str:
    known = [key, dataclasses.asdict(balancing)]
    return hashlib.sha256(json.dumps(known, default=repr).encode()).hexdigest()


def _read_runs(folder: str) -> dict[str, dict[str, str]]:
    """What each run made, by its key."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # not ours
        text = read_text(join(folder, _RUN_FILE)) if exists(join(folder, _RUN_FILE)) else "{}"
        return {key: dict(made) for key, made in json.loads(text).get("runs", {}).items()}
    return {}


def _made_before(folder: str, key: str) -> dict[str, str] | None:
    """What an earlier run made, where it was this one and all of it is still there."""
    uris = {name: join(folder, inner) for name, inner in _read_runs(folder).get(key, {}).items()}
    if not uris or not all(map(is_folder, uris.values())):
        return None
    for name, uri in uris.items():
        is_dataset = name.endswith(("ExampleGen", _BALANCED[0]))
        if is_dataset and (problem := _problem_of(uri)) is not None:
            logging.warning("made anew: %s", printable(problem))
            return None
    return uris


def _problem_of(uri: str) -> str | None:
    """What names and sizes of a dataset's files tell against it; `verify` looks at contents."""
    files = list_dataset(uri)
    try:
        manifest = files.layout().manifest  # which is compared with the shards
    except DatasetError as error:
        if is_fault(error):
            raise
        return str(error)
    if manifest is None:
        return f"{files.path(MANIFEST_FILE)}: is missing"
    for name, digest in manifest.published.items():
        size = files.size(name)
        if size is None or (digest is not None and digest.size != size):
            return f"{files.path(name)}: is missing, or has another size"
    return None


def _next_output(folder: str, component: str, output: str) -> str:
    """A folder as TFX names them, by number; one that a killed run has left is used again."""
    place = join(folder, f"{component}/{output}")
    make_folder(place)
    names = list_names(place) if exists(place) else ()  # a bucket has no empty folders
    numbers = [int(name) for name in names if name.isdecimal()]
    made = [path for run in _read_runs(folder).values() for path in run.values()]  # or removed
    known = [int(p.rpartition("/")[2]) for p in made if p.startswith(f"{component}/{output}/")]
    last = max(numbers, default=0)
    if last and last not in known and output.endswith("examples"):
        path = join(place, str(last))
        if not exists(join(path, MANIFEST_FILE)):
            return path
    return join(place, str(max([last, *known]) + 1))
