"""Run the steps of `convert` and `balance` in order, in output folders numbered as by TFX.

uris, cached = convert_in(conversion, "/data/out")
uris["ShardBalancer"]

A run that fails or is stopped, such as by Ctrl-C, keeps its finished dataset, and the same run
resumes from it. `run_record` remembers the runs.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from components import steps
from components.balancing.settings import BalancerSettings
from components.inputs.advice import how_to_set
from components.raw_inputs.requests import EXAMPLE_GENS, Conversion
from components.runtime.runners import runner_of
from pipelines.tools.conversion.run_record import (
    BALANCED,
    EXPORTED,
    RunRecord,
    exclusive_lock,
    next_output,
)
from trainer_utils.core.errors import ConfigError, CorruptShardError, InputError
from trainer_utils.core.text_output import list_counts
from trainer_utils.dataset.location import read_manifest
from trainer_utils.format import Manifest
from trainer_utils.storage import (
    join,
    remove_tree,
)


def convert_in(
    conversion: Conversion, root: str, *, restart: bool = False, verify: bool = False
) -> tuple[dict[str, str], bool]:
    """Return the output uri of each component by name, and whether all came from the cache.

    Args:
        conversion: the conversion to run.
        root: the output folder; the datasets are written to its `artifacts`.
        restart: discard the results of an earlier run instead of resuming it.
        verify: read every byte of earlier datasets before reusing them, and rebuild damaged ones.
    """
    try:
        return _convert_in(conversion, root, restart=restart, verify=verify)
    except _DamagedExamplesError as error:
        logging.warning("%s", error)
        return _convert_in(conversion, root, restart=restart, verify=verify)


class _DamagedExamplesError(Exception):
    """The cached dataset to balance is damaged; the next run rebuilds it."""


def _convert_in(
    conversion: Conversion, root: str, *, restart: bool, verify: bool
) -> tuple[dict[str, str], bool]:
    """Run the steps that earlier runs have not finished; see `convert_in`."""
    folder, beam = join(root, "artifacts"), conversion.beam_pipeline_args
    settings = conversion.settings
    balancing = BalancerSettings(**conversion.balancer)
    module, name = steps.workers_module(settings), EXAMPLE_GENS[conversion.kind]
    with exclusive_lock(folder):
        record = RunRecord.read(folder)
        with runner_of(beam, module=module) as runner:
            planned = steps.conversion_of(conversion.selection, settings, runner)
            planned_key = planned.key()
            own_key = _digest(planned_key, settings.max_reject_fraction)
            key = _digest(planned_key, settings.max_reject_fraction, balancing)
            outputs = record.whole_outputs(key, own_key, name, verify=verify)
            if outputs.keys() >= {name, BALANCED[0], *EXPORTED}:
                return outputs, True
            examples = None if restart else outputs.get(name)
            just_written = examples is None
            if examples is not None:
                manifest = read_manifest(examples)
                assert manifest is not None
                logging.warning("resuming: the dataset of %s is done", name)
            else:
                record.discard_unfinished()
                examples = next_output(record, name, "examples")
                manifest = steps.convert(
                    planned, examples, settings, runner=runner, restart=restart
                ).manifest
                record.unfinished[own_key] = examples[len(folder) + 1 :]
                record.write()
            is_reused = outputs.get(name) == examples
            with _recording_failure(record, examples, own_key, name, is_reused=is_reused):
                check_trainable(manifest)
                balanced = next_output(record, *BALANCED)
                steps.balance(
                    [examples],
                    balanced,
                    balancing,
                    just_written=just_written,
                    runner=runner,
                    restart=restart,
                )
        schema, dataset = (
            next_output(record, "SchemaExport", output) for output in EXPORTED.values()
        )
        steps.export_schema(balanced, dataset, schema_uri=schema)
        uris = {name: examples, BALANCED[0]: balanced}
        uris |= {"SchemaExport": schema, "datum_dataset": dataset}
        record.unfinished.pop(own_key, None)
        record.runs[key] = {name: uri[len(folder) + 1 :] for name, uri in uris.items()}
        record.write()
    return uris, False


@contextlib.contextmanager
def _recording_failure(
    record: RunRecord, examples: str, own_key: str, name: str, *, is_reused: bool
) -> Iterator[None]:
    """Keep, discard or distrust a dataset whose balancing fails.

    Args:
        record: the runs in the folder.
        examples: the uri of the dataset.
        own_key: the key of the run that wrote it.
        name: the component that wrote it.
        is_reused: whether an earlier run wrote it.

    Raises:
        _DamagedExamplesError: a reused dataset is damaged, and has to be written again.
    """
    try:
        yield
    except (ConfigError, InputError):
        # Resuming would fail in the same way, and nobody requested this dataset.
        if record.unfinished.pop(own_key, None) is not None:
            record.write()
            remove_tree(examples)
        raise
    except CorruptShardError as error:
        record.note_damage(examples)
        if is_reused:
            raise _DamagedExamplesError(str(error)) from error
        raise
    except KeyboardInterrupt as error:
        kept = f"the dataset of {name} is kept: the same run resumes from it"
        error.args = ("; ".join([kept, *map(str, error.args)]),)
        raise


def balance_in(
    examples: str,
    settings: Mapping[str, Any],
    root: str,
    beam: Sequence[str],
    *,
    restart: bool = False,
) -> str:
    """Balance a dataset and return the uri of the new one.

    Args:
        examples: the uri of the dataset to balance.
        settings: settings of ShardBalancer.
        root: the output folder; the dataset is written to its `artifacts`.
        beam: arguments for Beam.
        restart: discard the results of an earlier run instead of resuming it.
    """
    folder = join(root, "artifacts")
    with exclusive_lock(folder):
        balancing = BalancerSettings(**settings)
        uri = next_output(RunRecord.read(folder), *BALANCED)
        with runner_of(beam, module="balancing.parts") as runner:
            steps.balance([examples], uri, balancing, runner=runner, restart=restart)
    return uri


def check_trainable(manifest: Manifest) -> None:
    """Raise InputError if the split `train` of a dataset is empty.

    Args:
        manifest: the manifest of the dataset.

    Raises:
        InputError: `train` has no examples; the message has the accounting of each split.
    """
    counts = manifest.accounting
    if "train" in counts and not counts["train"].written:
        reasons = "; ".join(f"{split}: {count}" for split, count in counts.items())
        if manifest.reject_counts:
            reasons += f"; {list_counts(manifest.reject_counts)}"
        raise InputError(
            f"split 'train': expected examples, got none ({reasons}). Fix the inputs of "
            f"train, or put all into it: {how_to_set(splits={'train': 1})}."
        )


def _digest(key: str, max_reject_fraction: float, balancing: BalancerSettings | None = None) -> str:
    known = [key, max_reject_fraction, None if balancing is None else dataclasses.asdict(balancing)]
    return hashlib.sha256(json.dumps(known, default=repr, sort_keys=True).encode()).hexdigest()
