"""Turns Examples artifacts into one of equal, globally shuffled shards: plan, write, publish."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

from tfx import types
from tfx.types import artifact_utils

from components.common.beam import LocalFirstBeamExecutor
from components.common.collector import spare_old_objects
from components.common.fingerprint import combine_facts
from components.common.lineage import make_origin
from components.common.progress import show_progress
from components.common.publish import describe_artifact, package_versions, publish_dataset
from components.common.settings import Artifacts, ExecProperties
from components.common.side_by_side import ByElement, InProcessPipeline, run_elements
from components.common.summaries import (
    check_finished,
    read_summaries,
    remove_dataset,
    removed_on_failure,
    start_working,
    working_folder,
)
from components.common.worker_errors import raising_reported
from components.shard_balancer.changes import (
    Changes,
    Tally,
    check_changes,
    describe_changes,
    store_changes,
)
from components.shard_balancer.inputs import Inputs, check_apart, open_inputs
from components.shard_balancer.kept_shards import KeptSplit, plan_kept_split
from components.shard_balancer.move import Move
from components.shard_balancer.picked_splits import (
    PickedSplit,
    Plan,
    choose_picked,
    write_picked,
)
from components.shard_balancer.planning import (
    SplitPlan,
    changes_of,
    needs_survey,
    plan_split,
    total_tally,
)
from components.shard_balancer.settings import BalancerSettings
from components.shard_balancer.survey import ShardSurvey, StoredSurveys, keep_survey
from components.shard_balancer.transforms import balance_splits, keep_shards
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import Accounting, DatasetError, Manifest, Shard, combine_checksums
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.storage import join, write_atomically

__all__ = ["Executor"]

_KEPT_PROPERTIES = ("span", "version")


class Executor(LocalFirstBeamExecutor):
    """Executor of ShardBalancer."""

    def Do(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: ExecProperties
    ) -> None:
        """Writes the balanced dataset.

        Args:
            input_dict: `examples`: the Examples artifacts to balance. Where a Transform made
                them, `before_transform` and `transform_graph`: what it read, and its graph.
            output_dict: `balanced_examples`: the Examples artifact to fill.
            exec_properties: the fields of `BalancerSettings`, `num_shards` as JSON.

        Raises:
            DatasetError: an input is no dataset, not whole, or damaged.
            ConfigError: a setting is not allowed.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        given = input_dict["examples"]
        artifact = artifact_utils.get_single_instance(output_dict["balanced_examples"])
        settings = BalancerSettings.from_properties(exec_properties)
        uris = [*(examples.uri for examples in given), *settings.add]
        check_apart(uris, artifact.uri)
        inputs = open_inputs(
            uris,
            before_transform=[one.uri for one in input_dict.get("before_transform", ())],
            transform_graphs=[one.uri for one in input_dict.get("transform_graph", ())],
        )
        settings.check_splits(list(inputs.shards))
        with spare_old_objects(), removed_on_failure(artifact.uri):
            self._balance(inputs, len(given), artifact, settings, exec_properties)
        _keep_properties(given, artifact)

    def _balance(
        self,
        inputs: Inputs,
        num_given: int,
        artifact: types.Artifact,
        settings: BalancerSettings,
        exec_properties: ExecProperties,
    ) -> None:
        changes = changes_of(inputs, settings)
        start_working(artifact.uri, keeps_dataset=True)  # a setting may be for other records
        move = Move(
            uri=artifact.uri,
            settings=dataclasses.replace(settings, exclude=None, relabel=None),
            infer=inputs.without_features,
            changes_key=store_changes(changes, working_folder(artifact.uri)),
        )
        surveys = self._survey(inputs, settings, move)
        tallies = {split: total_tally(surveys.get(split, ())) for split in inputs.shards}
        check_changes(changes, tallies)
        plans: Sequence[Plan] = [
            _plan(inputs, split, surveys, settings, artifact.uri) for split in inputs.shards
        ]
        remove_dataset(artifact.uri)
        plans = self._write(inputs, plans, surveys, move)
        summaries = read_summaries(working_folder(artifact.uri))
        check_finished(artifact.uri, [name for plan in plans for name in plan.work])
        config = _config(inputs, num_given, settings, changes, Tally.total(tallies.values()))
        manifest = _manifest(inputs, plans, summaries, tallies, config)
        features = inputs.features(_facts(inputs, summaries))
        vocabularies = {
            name: values
            for name, values in inputs.vocabularies.items()
            if name not in inputs.carried or (name in features and features[name].type == "int")
        }
        describe_artifact(artifact, manifest, gzip=settings.gzip, vocabularies=vocabularies)
        artifact.set_string_custom_property("input_fingerprint", manifest.input_fingerprint)
        origin = make_origin(
            manifest.producer,
            exec_properties,
            output="balanced_examples",
            inputs={"examples": inputs.sources},
        )
        publish_dataset(artifact.uri, manifest, features, vocabularies=vocabularies, origin=origin)

    def _survey(
        self, inputs: Inputs, settings: BalancerSettings, move: Move
    ) -> dict[str, Sequence[ShardSurvey]]:
        """Surveys of the shards of those splits that need them."""
        splits = [split for split in inputs.shards if needs_survey(inputs, split, settings)]
        shards = [item for split in splits for item in inputs.shards[split]]
        if not shards:
            return {}
        survey = functools.partial(keep_survey, move)
        with raising_reported(move.uri):
            run_elements(self._make_beam_pipeline(), ByElement(survey, enumerate(shards)))
        firsts = itertools.accumulate((len(inputs.shards[split]) for split in splits), initial=0)
        return {
            split: StoredSurveys(move.uri, range(first, first + len(inputs.shards[split])))
            for split, first in zip(splits, firsts, strict=False)
        }

    def _write(
        self,
        inputs: Inputs,
        plans: Sequence[Plan],
        surveys: Mapping[str, Sequence[ShardSurvey]],
        move: Move,
    ) -> Sequence[Plan]:
        """Writes the shards; returns the plans, with those that were better picked here."""
        pipeline = self._make_beam_pipeline()
        if isinstance(pipeline, InProcessPipeline) and move.changes_key is None:
            plans = choose_picked(pipeline, plans, inputs, surveys, move)
        work = {name: part for plan in plans for name, part in plan.work.items()}
        with raising_reported(move.uri), show_progress(move.uri, work, unit="records"):
            if picked := [plan for plan in plans if isinstance(plan, PickedSplit)]:
                assert isinstance(pipeline, InProcessPipeline)
                write_picked(pipeline, picked, move)
            if move.settings.keep_shards:
                kept = [plan for plan in plans if isinstance(plan, KeptSplit)]
                run_elements(pipeline, keep_shards(kept, move))
            else:
                others = [plan for plan in plans if type(plan) is SplitPlan]
                run_elements(pipeline, balance_splits(others, move))
        return plans


def _plan(
    inputs: Inputs,
    split: str,
    surveys: Mapping[str, Sequence[ShardSurvey]],
    settings: BalancerSettings,
    uri: str,
) -> Plan:
    """A split's plan, the table of places laid down where workers find it."""
    if settings.keep_shards:
        return plan_kept_split(split, inputs.shards[split], surveys.get(split), settings)
    path = join(working_folder(uri), f"places-{split}")
    plan = plan_split(split, inputs.shards[split], surveys.get(split), settings, places_path=path)
    if plan.table is None:
        return plan
    with write_atomically(path, temporary_folder=working_folder(uri)) as stream:
        stream.write(plan.table.tobytes())
    return dataclasses.replace(plan, table=None)


def _config(
    inputs: Inputs,
    num_given: int,
    settings: BalancerSettings,
    changes: Changes | None,
    tally: Tally,
) -> JsonObject:
    """The settings that shaped the outcome: of files and datasets, digests; of changes, any."""
    config = dataclasses.asdict(settings)
    del config["memory_bytes"]  # it changes the way, not the outcome
    for name in ("exclude", "relabel", "where", "add"):
        del config[name]
    if not config["keep_shards"]:
        del config["keep_shards"]
    if settings.add:
        config["add"] = [source.digest for source in inputs.sources[num_given:]]
    return config if changes is None else config | describe_changes(changes, tally)


def _manifest(
    inputs: Inputs,
    plans: Sequence[Plan],
    summaries: Sequence[Mapping[str, Json]],
    tallies: Mapping[str, Tally],
    config: Mapping[str, Json],
) -> Manifest:
    order = {plan.split: place for place, plan in enumerate(plans)}
    entries = [entry for summary in summaries for entry in summary.get("shards", ())]
    shards = sorted(map(Shard.from_entry, entries), key=lambda s: (order[s.split], s.path))
    planned = {plan.split: plan.num_records for plan in plans}
    written = {split: sum(s.records for s in shards if s.split == split) for split in order}
    if written != planned:
        raise DatasetError(f"records: expected {planned} as in {inputs.name}, wrote {written}")
    relabelled = sum(tally.relabelled for tally in tallies.values())
    manifest = Manifest(
        shards=tuple(shards),
        accounting={
            split: Accounting(
                found=n + tallies[split].skipped, written=n, skipped=tallies[split].skipped
            )
            for split, n in written.items()
        },
        producer="ShardBalancer",
        config=config,
        input_fingerprint=_fingerprint(inputs, summaries),
        label_counts=_label_counts(inputs, tallies),
        conversions={"RELABELLED": relabelled} if relabelled else {},
        versions=package_versions(),
    )
    _check_content(inputs, manifest, summaries)
    return manifest


def _fingerprint(inputs: Inputs, summaries: Sequence[Mapping[str, Json]]) -> str:
    """Of the records of each split, in no order, and of what their labels are called.

    The same however the inputs are sharded and ordered, and whatever the settings.
    """
    read = _read(summaries)
    facts: list[tuple[tuple[object, ...], object]] = [
        (("split", split), combine_checksums(c for (s, _), c in read.items() if s == split))
        for split in inputs.shards
    ]
    facts += [(("vocabulary", n), list(values)) for n, values in inputs.vocabularies.items()]
    return combine_facts(facts)


def _label_counts(inputs: Inputs, tallies: Mapping[str, Tally]) -> Mapping[str, Mapping[str, int]]:
    """How often each label occurs now: of the feature that the inputs have counted before."""
    before = inputs.label_counts
    if all(tally.is_unchanged for tally in tallies.values()):
        return before
    counts: dict[str, dict[str, int]] = {}
    for split, tally in tallies.items():
        names = inputs.vocabularies
        said = before.get(split, {})
        features = [f for f, found in tally.before.items() if _named(found, names.get(f)) == said]
        if not features and said:
            return {}
        if features:
            counts[split] = _named(tally.after.get(features[0], {}), names.get(features[0]))
    return {split: of for split, of in counts.items() if of}


def _named(counts: Mapping[int, int], names: Sequence[str] | None) -> dict[str, int]:
    known = range(len(names or ()))
    return {
        names[value] if names and value in known else str(value): count
        for value, count in counts.items()
    }


def _read(
    summaries: Sequence[Mapping[str, Json]], kind: str = "content"
) -> dict[tuple[str, int], int]:
    """The checksum of what was read, or `kept` of it, by split and number of the input."""
    sums: dict[tuple[str, int], int] = {}
    for summary in summaries:
        for source, content in summary.get(kind, {}).items():
            key = summary["split"], int(source)
            sums[key] = combine_checksums([sums.get(key, 0), content])
    return sums


def _check_content(
    inputs: Inputs, manifest: Manifest, summaries: Sequence[Mapping[str, Json]]
) -> None:
    """Compares what was read with what inputs' manifests say, and what was written with both."""
    read = _read(summaries)
    for number, source in enumerate(inputs.sources):
        if source.manifest is None:
            continue
        for split in source.shards:
            said, got = source.manifest.content_of(split), read.get((split, number), 0)
            if said not in (None, got):
                raise DatasetError(
                    f"split {split!r}: expected records with checksum {said:016x} as its manifest "
                    f"says, got {got:016x} ({source.uri}). It was changed: write it again."
                )
    kept = _read(summaries, "kept")
    for split in manifest.splits:
        wanted = combine_checksums(c for (s, _), c in kept.items() if s == split)
        if manifest.content_of(split) != wanted:
            raise DatasetError(
                f"split {split!r}: expected the records that were read ({wanted:016x}), "
                f"wrote others ({manifest.content_of(split)}). Report this as a defect."
            )


def _facts(inputs: Inputs, summaries: Sequence[Mapping[str, Json]]) -> dict[int, DatasetFacts]:
    """What was found out of the features of inputs that do not say."""
    facts = {number: DatasetFacts() for number in inputs.without_features}
    for summary in summaries:
        for number, found in summary.get("facts", {}).items():
            where = inputs.sources[int(number)].uri
            facts[int(number)].merge(DatasetFacts.from_json(found), where=where)
    return facts


def _keep_properties(given: Sequence[types.Artifact], artifact: types.Artifact) -> None:
    """Span and version, where all inputs have the same."""
    for name in _KEPT_PROPERTIES:
        values = {
            examples.get_int_custom_property(name)
            for examples in given
            if examples.has_custom_property(name)
        }
        if len(values) == 1 and all(examples.has_custom_property(name) for examples in given):
            artifact.set_int_custom_property(name, values.pop())
