"""Tests lie where the modules lie: who changes a module finds its tests by its name."""

from tests.docs.markdown import REPOSITORY

ROOMS = ("trainer_utils", "components", "pipelines")
MANY_LINES = 60

# Modules that are tested through what they are parts of, where their effect can be seen: by whole
# runs and by other people's readers. By the file of tests (or the folder of them), the modules.
THROUGH = {
    # A run, killed and gone on from, and each step of it beside Keras's own.
    "tests/trainer_utils/training/test_loop.py": [
        "trainer_utils/training/backup.py",
        "trainer_utils/training/batch_source.py",
        "trainer_utils/training/model_steps.py",
        "trainer_utils/training/run_backup.py",
    ],
    # What a power cut would lose is refused call by call.
    "tests/faults/test_refused_calls.py": ["trainer_utils/storage/durability.py"],
    # What a writer leaves, whole or not at all.
    "tests/trainer_utils/writing/test_dataset_writer.py": [
        "trainer_utils/reading/tensors.py",
        "trainer_utils/writing/feature_record.py",
        "trainer_utils/writing/open_shards.py",
        "trainer_utils/writing/publishing.py",
        "trainer_utils/writing/settings.py",
    ],
    # What components and steps declare and hand on; their logic is the executors'.
    "tests/components/common/test_settings.py": ["components/common/component.py"],
    # The two ends of a pipe.
    "tests/components/common/test_worker_pool.py": ["components/common/worker_process.py"],
    "tests/components/image_example_gen/test_component.py": [
        "components/dataset_report/component.py",
        "components/example_gen/component.py",
        "components/schema_export/component.py",
        "components/shard_balancer/component.py",
    ],
    "tests/components/image_example_gen/test_driver.py": ["components/example_gen/driver.py"],
    "tests/components/common/test_entries.py": ["components/common/entry.py"],
    "tests/components/kubeflow/test_native.py": [
        "components/kubeflow/run.py",
        "components/kubeflow/tfx_step.py",
    ],
    # Files are opened, exchanged, refused and listed by every layout alike.
    "tests/trainer_utils/storage/test_files.py": [
        "components/common/blobs.py",
        "components/common/rejects.py",
        "trainer_utils/storage/local.py",
    ],
    "tests/trainer_utils/storage/test_file_systems.py": ["trainer_utils/storage/file_system.py"],
    "tests/trainer_utils/reading/test_cached_records.py": [
        "trainer_utils/reading/shard_parts.py",
    ],
    "tests/e2e/test_buckets.py": ["components/common/tfx_files.py"],
    "tests/components/example_gen/test_lists.py": [
        "components/common/layout_inputs.py",
        "components/example_gen/inputs.py",
        "components/example_gen/list_files.py",
    ],
    "tests/components/image_example_gen/layouts/test_folder.py": [
        "components/example_gen/folder.py",
        "components/example_gen/simple_layouts.py",
    ],
    # One run of an ExampleGen: files to shards.
    "tests/components/image_example_gen/test_executor.py": [
        "trainer_utils/writing/shards.py",
        "components/example_gen/conversion.py",
        "components/example_gen/executor.py",
        "components/example_gen/features.py",
        "components/example_gen/file_reports.py",
        "components/example_gen/file_transforms.py",
        "components/example_gen/manifest.py",
        "components/example_gen/plan.py",
    ],
    "tests/components/image_example_gen/test_refusals.py": ["components/example_gen/settings.py"],
    "tests/components/example_gen/test_several_kinds.py": [
        "components/example_gen/file_kinds.py",
        "components/example_gen/media.py",
    ],
    # One run of an ExampleGen: rows to shards.
    "tests/components/text_example_gen": [
        "components/example_gen/row_assignment.py",
        "components/example_gen/row_columns.py",
        "components/example_gen/row_conversion.py",
        "components/example_gen/row_encoding.py",
        "components/example_gen/row_inspection.py",
        "components/example_gen/row_pieces.py",
        "components/example_gen/row_plan.py",
        "components/example_gen/row_transforms.py",
        "components/tables/reading.py",
        "components/tables/rows.py",
        "components/tables/texts.py",
    ],
    "tests/components/media/test_variants.py": ["components/media/image_structure.py"],
    "tests/components/media/test_images.py": ["components/media/options.py"],
    "tests/components/schema_export/test_executor.py": ["components/schema_export/agreement.py"],
    "tests/docs/test_notebooks.py": ["pipelines/notebook.py"],
    "tests/components/dataset_report/test_executor.py": ["pipelines/report.py"],
    "tests/components/shard_balancer/test_executor.py": [
        "components/shard_balancer/inputs.py",
        "components/shard_balancer/move.py",
        "components/shard_balancer/scatter_gather.py",
        "components/shard_balancer/planning.py",
        "components/shard_balancer/records.py",
        "components/shard_balancer/survey.py",
        "components/shard_balancer/transforms.py",
    ],
    # The command line as a user calls it.
    "tests/pipelines/cli/test_commands.py": [
        "pipelines/cli/app.py",
        "pipelines/cli/bench_command.py",
        "pipelines/cli/compile_command.py",
        "pipelines/cli/lineage_commands.py",
        "pipelines/cli/plan_command.py",
        "pipelines/tools/inspection.py",
    ],
    "tests/pipelines/tools/conversion/test_balancing.py": [
        "pipelines/tools/conversion/pipeline.py",
    ],
    # What the two shuffles stand on.
    "tests/trainer_utils/order/test_windowed.py": ["trainer_utils/order/strategy.py"],
    "tests/pipelines/cli/test_setting_flags.py": ["pipelines/tools/conversion/settings.py"],
    # Whole pipelines, run.
    "tests/e2e/test_demo.py": [
        "pipelines/examples/demo.py",
        "pipelines/examples/image_trainer.py",
        "pipelines/examples/training_pipeline.py",
    ],
    "tests/e2e/test_text_demo.py": ["pipelines/examples/text_trainer.py"],
    "tests/pipelines/kubeflow/test_compiler.py": [
        "pipelines/kubeflow/ready.py",
        "pipelines/kubeflow/sample.py",
        "pipelines/kubeflow/spec.py",
        "pipelines/trainer_component.py",
    ],
    "tests/pipelines/examples/test_imagenet_trainer.py": ["pipelines/examples/training.py"],
    "tests/pipelines/lineage/test_description.py": [
        "pipelines/lineage/facts.py",
        "pipelines/lineage/reading.py",
    ],
    "tests/pipelines/tools/diff/test_compare.py": ["pipelines/tools/diff/digests.py"],
    "tests/pipelines/tools/forget/test_run.py": [
        "pipelines/cli/forget_command.py",
        "pipelines/tools/forget/certificate.py",
        "pipelines/tools/forget/records.py",
        "pipelines/tools/forget/rewriting.py",
        "pipelines/tools/forget/search.py",
    ],
    "tests/pipelines/tools/ledger/test_run.py": ["pipelines/cli/ledger_command.py"],
    "tests/pipelines/tools/report/test_page.py": [
        "pipelines/tools/html.py",
        "pipelines/tools/report/pictures.py",
        "pipelines/tools/report/sounds.py",
    ],
    "tests/pipelines/tools/verification/test_verify.py": ["pipelines/tools/verification/shards.py"],
    # An audit of what was planted.
    "tests/trainer_utils/auditing/test_audit.py": [
        "trainer_utils/auditing/checks.py",
        "trainer_utils/auditing/findings.py",
        "trainer_utils/auditing/scanning.py",
    ],
    # The input as a trainer sees it.
    "tests/pipelines/tools/test_dataset_files.py": ["trainer_utils/dataset/files.py"],
    "tests/trainer_utils/test_input_pipeline.py": [
        "trainer_utils/dataset/selection.py",
        "trainer_utils/options.py",
        "trainer_utils/order/options.py",
        "trainer_utils/reading/batching.py",
        "trainer_utils/reading/epoch_batches.py",
        "trainer_utils/reading/epochs.py",
        "trainer_utils/reading/ordered_records.py",
        "trainer_utils/reading/readers.py",
        "trainer_utils/reading/records.py",
    ],
    "tests/trainer_utils/reading/test_images.py": ["trainer_utils/reading/image_settings.py"],
    "tests/trainer_utils/reading/test_turbo.py": [
        "trainer_utils/reading/decoding.py",
        "trainer_utils/reading/decoding_threads.py",
        "trainer_utils/reading/image_plans.py",
    ],
}


def test_every_module_of_some_size_has_tests_of_its_name():
    through = [module for modules in THROUGH.values() for module in modules]
    missing = []
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            module = path.relative_to(REPOSITORY)
            own = REPOSITORY / "tests" / module.with_name(f"test_{module.name}")
            lines = len(path.read_text().splitlines())
            if module.name == "__init__.py" or lines <= MANY_LINES or own.exists():
                assert str(module) not in through, f"{module}: needs no exception any more"
            elif str(module) not in through:
                missing.append(str(own.relative_to(REPOSITORY)))
    assert not missing


def test_exceptions_name_tests_that_are_there():
    for tests, modules in THROUGH.items():
        assert (REPOSITORY / tests).exists(), tests
        for module in modules:
            assert (REPOSITORY / module).exists(), module


def test_files_of_tests_are_of_a_readable_size():
    most = 600
    long = {
        str(path.relative_to(REPOSITORY)): lines
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
        if (lines := len(path.read_text().splitlines())) > most
    }
    assert not long
