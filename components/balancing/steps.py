"""Turn datasets into one with equal, globally shuffled shards: survey, plan, write, compare."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import Any

from components.balancing.inputs import Inputs
from components.balancing.parts import (
    JobContext,
    Part,
    ShardSurvey,
    TaskResult,
    read_ahead,
    run_part,
    survey_shard,
)
from components.balancing.planning import SplitPlan, counts_of, edits_of, pick_split, plan_split
from components.balancing.settings import BalancerSettings
from components.inputs.fingerprint import sum_facts
from components.runtime.run_keys import ZLIB, package_versions, run_key
from components.runtime.runners import Runner, map_tasks
from components.runtime.tasks import Cost, Task
from components.runtime.workspace import prepare_workspace, remove_dataset
from components.shuffle.edits import EditCounts, check_edits, describe_edits, total_counts
from components.shuffle.external import HELD_TIMES
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import Accounting, Feature, Manifest, combine_checksums
from trainer_utils.storage.paths import join
from trainer_utils.writing.shards import verify_shard
from trainer_utils.writing.working_folder import working_folder

# Seconds that one core takes per byte to move, compress and parse records, and to scan lengths.
_MOVE_SECONDS, _GZIP_SECONDS, _PARSE_SECONDS, _SCAN_SECONDS = 1 / 300e6, 1 / 30e6, 1 / 50e6, 1 / 2e9
_COPY_SECONDS = 1 / 2e9  # of a shard that is neither changed nor read back, where links are missing
_THREADS = 16
_PICK_BYTES = 128 << 20  # memory of a process that holds no records


def balance(
    inputs: Inputs,
    settings: BalancerSettings,
    *,
    num_given: int,
    uri: str,
    runner: Runner,
    just_written: bool = False,
) -> tuple[Manifest, dict[str, Feature], dict[str, Sequence[str]]]:
    """Write the shards of a balanced dataset.

    Args:
        inputs: the datasets, including the ones that settings add.
        settings: the settings of the balancing.
        num_given: the number of inputs without the ones that settings add.
        uri: the folder of the new dataset.
        runner: runs the tasks.
        just_written: whether this process has just written and read back the inputs that settings
            do not add.

    Returns:
        The manifest, the features, and the vocabularies by feature, to be published.
    """
    edits = edits_of(inputs, settings)
    key = ""  # digest of all that shards depend on; empty if an input has no digest
    if all(source.manifest is not None for source in inputs.sources):
        digests = [source.digest for source in inputs.sources]
        key = run_key(
            "ShardBalancer",
            digests,
            dataclasses.asdict(settings),
            edits,
            packages=[ZLIB] if settings.gzip else (),
        )
    prepare_workspace(uri, key=key, keeps_dataset=True)  # a later check may still refuse a setting
    folder = working_folder(uri)
    context = JobContext(
        uri=uri,
        block_bytes=settings.block_bytes,
        run_bytes=settings.held_bytes // HELD_TIMES,
        infer=inputs.without_features,
        verified=frozenset(range(num_given if just_written else 0)),
        edits=edits.stored(join(folder, "edits.json"), temporary_folder=folder),
    )
    surveys = _survey(inputs, settings, context, runner)
    counts = counts_of(surveys)
    check_edits(edits, counts)
    plans = [
        _plan(inputs, split, split_surveys, settings, context, runner)
        for split, split_surveys in surveys.items()
    ]
    remove_dataset(uri)
    results = _write(plans, settings, context, runner)
    config = _config(inputs, num_given, settings)
    config |= describe_edits(edits, total_counts(counts.values()))
    manifest = _manifest(inputs, results, counts, config)
    _check_records(inputs, plans, manifest, results)
    facts = {number: DatasetFacts() for number in inputs.without_features}
    for result in results:
        for number, part_facts in result.facts.items():
            facts[number].merge(part_facts, where=inputs.sources[number].uri)
    features = inputs.features(facts)
    vocabularies = {
        name: values
        for name, values in inputs.vocabularies.items()
        if name not in inputs.carried or (name in features and features[name].type == "int")
    }
    return manifest, features, vocabularies


def _survey(
    inputs: Inputs, settings: BalancerSettings, context: JobContext, runner: Runner
) -> dict[str, list[ShardSurvey]]:
    """Survey the shards of each split."""
    shards = [input_shard for group in inputs.shards.values() for input_shard in group]
    survey = functools.partial(survey_shard, context, settings.stratify_by)
    parses = bool(context.edits) or settings.stratify_by is not None
    if not parses and all(input_shard.shard.index_path is not None for input_shard in shards):
        with futures.ThreadPoolExecutor(_THREADS) as pool:  # each reads a small file
            surveys = [*pool.map(survey, shards)]
    else:
        seconds = _PARSE_SECONDS if parses else _SCAN_SECONDS
        surveys = map_tasks(
            survey,
            [
                Task(f"survey-{n:06d}", shard, 0, shard.shard.bytes)
                for n, shard in enumerate(shards)
            ],
            workspace=working_folder(context.uri),
            runner=runner,
            cost=Cost(seconds * sum(input_shard.shard.bytes for input_shard in shards)),
            paths=[input_shard.shard.path for input_shard in shards[:1]],
            noun="surveys of shards",
        )
    in_order = iter(surveys)
    return {split: [next(in_order) for _ in group] for split, group in inputs.shards.items()}


def _plan(
    inputs: Inputs,
    split: str,
    surveys: Sequence[ShardSurvey],
    settings: BalancerSettings,
    context: JobContext,
    runner: Runner,
) -> SplitPlan:
    """Plan a split. Records are picked from input files if possible and worthwhile."""
    split_plan = plan_split(inputs, split, surveys, settings, uri=context.uri)
    picked = None if context.edits else pick_split(split_plan, inputs, surveys)
    if picked is not None:
        processes = runner.count(len(picked.tasks), _cost([picked], settings), [context.uri])
        if processes > 1 or (processes == 1 and split_plan.scatters):
            return picked
    return split_plan


def _write(
    plans: Sequence[SplitPlan], settings: BalancerSettings, context: JobContext, runner: Runner
) -> list[TaskResult]:
    """Write all shards."""
    for input_shard in (
        input_shard for plan in plans if plan.is_picked for input_shard in plan.shards
    ):
        read_ahead(input_shard.shard.path)
    shuffles = {plan.split: plan.shuffle for plan in plans if plan.shuffle is not None}
    context = dataclasses.replace(context, shuffles=shuffles)

    def run(tasks: Sequence[Task[Part]]) -> list[TaskResult]:
        return map_tasks(
            functools.partial(run_part, context),
            tasks,
            workspace=working_folder(context.uri),
            runner=runner,
            cost=_cost(plans, settings, context.verified),
            paths=[input_shard.shard.path for plan in plans for input_shard in plan.shards[:1]],
            unit="records",
            noun="groups of shards",
            check=functools.partial(_check_shards, context),
        )

    results = run([task for plan in plans for task in plan.scatters])
    for level in range(1, 1 + max((len(plan.divisions) for plan in plans), default=0)):
        deep = [plan for plan in plans if len(plan.divisions) >= level]
        results += run([task for plan in deep for task in plan.divisions[level - 1]])
        for plan in deep:
            shuffles[plan.split].remove_runs(level)
    return results + run([task for plan in plans for task in plan.tasks])


def _check_shards(context: JobContext, result: TaskResult) -> None:
    """Raise if the shards of an earlier run have changed."""
    for shard in result.shards:
        verify_shard(shard, uri=context.uri, block_bytes=context.block_bytes)


def _cost(
    plans: Sequence[SplitPlan], settings: BalancerSettings, verified: frozenset[int] = frozenset()
) -> Cost:
    seconds = 0.0
    for plan in plans:
        is_copied = (
            plan.shuffle is None and {input_shard.source for input_shard in plan.shards} <= verified
        )
        of_byte = _GZIP_SECONDS if settings.gzip else _MOVE_SECONDS
        seconds += plan.num_bytes * (_COPY_SECONDS if is_copied else of_byte)
    holds = any(not plan.is_picked for plan in plans)
    return Cost(seconds, settings.memory_bytes if holds else _PICK_BYTES)


def _config(inputs: Inputs, num_given: int, settings: BalancerSettings) -> JsonObject:
    """Return the settings that shape the outcome, without edits; added datasets as digests."""
    config = dataclasses.asdict(settings)
    # `memory_bytes` does not change the outcome; the others are kept as digests or counts.
    for name in ("memory_bytes", "exclude", "relabel", "where", "add"):
        del config[name]
    if not config["keep_shards"]:
        del config["keep_shards"]
    if settings.add:
        config["add"] = [source.digest for source in inputs.sources[num_given:]]
    if before := _accounting_before(inputs):
        config["inputs"] = before
    return config


def _accounting_before(inputs: Inputs) -> JsonObject:
    """Return the sums of the inputs' own accounting if they left something out, else nothing.

    Rows that a list discards, and rejects, are no records: only the datasets of the inputs know.
    """
    manifests = [source.manifest for source in inputs.sources if source.manifest is not None]
    total = sum((manifest.total for manifest in manifests), Accounting())
    return dataclasses.asdict(total) if total.found > total.written else {}


def _manifest(
    inputs: Inputs,
    results: Sequence[TaskResult],
    counts: Mapping[str, EditCounts],
    config: JsonObject,
) -> Manifest:
    """Return the manifest of the balanced dataset, without its metadata files."""
    order = {split: place for place, split in enumerate(inputs.shards)}
    unordered = (shard for result in results for shard in result.shards)
    shards = sorted(unordered, key=lambda shard: (order[shard.split], shard.path))
    written = {split: sum(s.records for s in shards if s.split == split) for split in order}
    relabelled = sum(edits.relabelled for edits in counts.values())
    return Manifest(
        shards=tuple(shards),
        accounting={
            split: Accounting(
                found=n + counts[split].skipped, written=n, skipped=counts[split].skipped
            )
            for split, n in written.items()
        },
        producer="ShardBalancer",
        config=config,
        input_fingerprint=_fingerprint(inputs, results),
        label_counts=_label_counts(inputs, counts),
        conversions={"RELABELLED": relabelled} if relabelled else {},
        versions=package_versions([ZLIB] if config["compression"] == "gzip" else ()),
    )


def _label_counts(
    inputs: Inputs, counts: Mapping[str, EditCounts]
) -> Mapping[str, Mapping[str, int]]:
    """Return the frequency of each label after edits, for features that the inputs counted."""
    said = inputs.label_counts
    if all(edits.changes_nothing for edits in counts.values()):
        return said
    known = {split: labels for split, labels in said.items() if labels}
    for feature in dict.fromkeys(name for edits in counts.values() for name in edits.labels_before):
        words = dict(enumerate(inputs.vocabularies.get(feature, ())))
        before = {split: edits.labels_before.get(feature) for split, edits in counts.items()}
        if _by_word(before, words) == known:
            after = {split: edits.labels_after.get(feature) for split, edits in counts.items()}
            return _by_word(after, words)
    return {}


def _by_word(
    counts: Mapping[str, Mapping[Any, int] | None], words: Mapping[int, str]
) -> dict[str, dict[str, int]]:
    """Return counts of a feature's values by split and word, without empty splits."""
    return {
        split: {words.get(value, str(value)): count for value, count in counts_of_split.items()}
        for split, counts_of_split in counts.items()
        if counts_of_split
    }


def _fingerprint(inputs: Inputs, results: Sequence[TaskResult]) -> str:
    """Return a fingerprint of the records of each split and of their label names.

    It does not depend on the order and sharding of the inputs, or on the settings.
    """
    facts: list[tuple[tuple[object, ...], object]] = []
    for split in inputs.shards:
        checksums = (c for r in results if r.split == split for c in r.content.values())
        facts.append((("split", split), combine_checksums(checksums)))
    facts += [(("vocabulary", n), list(values)) for n, values in inputs.vocabularies.items()]
    return f"{sum_facts(facts):032x}"


def _check_records(
    inputs: Inputs, plans: Sequence[SplitPlan], manifest: Manifest, results: Sequence[TaskResult]
) -> None:
    """Compare the records read with the manifests of the inputs, and those written with both."""
    planned = {plan.split: sum(plan.counts) for plan in plans}
    written = {split: account.written for split, account in manifest.accounting.items()}
    if written != planned:
        raise DatasetError(f"records: expected {planned} as in {inputs.name}, wrote {written}")
    for split in inputs.shards:
        split_results = [result for result in results if result.split == split]
        for number, source in enumerate(inputs.sources):
            said = None if source.manifest is None else source.manifest.content_of(split)
            got = combine_checksums(result.content.get(number, 0) for result in split_results)
            if said not in (None, got):
                raise DatasetError(
                    f"split {split!r}: expected records with checksum {said:016x} as its manifest "
                    f"says, got {got:016x} ({source.uri}). It was changed: write it again."
                )
        wrote = manifest.content_of(split)
        moved = combine_checksums(part.kept for part in split_results)
        if wrote != moved:
            raise DatasetError(
                f"split {split!r}: the records written differ from the records read: expected "
                f"checksum {moved:016x}, got {wrote}. Please report this as a bug."
            )
