"""A description as text."""

from pipelines.lineage import describe_artifact

BALANCED = "ShardBalancer/balanced_examples/2"


def test_the_text_is_a_tree(like_tfx, tmp_path):
    text = str(describe_artifact(str(tmp_path / BALANCED)))
    assert text == "\n".join(
        [
            f"Examples 2  {tmp_path}/{BALANCED}",
            f"  made {describe_artifact(str(tmp_path / BALANCED)).artifact.created}",
            "  versions: tfx=1.16.0",
            "",
            "Made by ShardBalancer (execution 2) in run 2026-01-01 of photos",
            *[line for line in text.split("\n") if line.startswith("  started ")],
            '  settings: num_shards={"train": 8}',
            "  used again by ShardBalancer (execution 5, CACHED) in run 2026-02-01 of photos",
            "",
            "Made from",
            f"└── examples: Examples 1  {tmp_path}/ImageExampleGen/examples/1",
            "    fingerprint of the inputs abc",
            "    by ImageExampleGen (execution 1) in run 2026-01-01 of photos",
            '    settings: input_base=photos/, output_config={"a": [1]}, seed=7',
            "    └── files in photos/",
            "",
            "Made of it",
            "├── Trainer (execution 3) in run 2026-01-01 of photos",
            f"│   ├── model: Model 3  {tmp_path}/Trainer/model/3",
            f"│   └── model_run: ModelRun 4  {tmp_path}/Trainer/model_run/3",
            "└── Trainer (execution 6) in run 2026-02-01 of photos",
            f"    └── model: Model 5  {tmp_path}/Trainer/model/6",
            "",
            "Models that came of it",
            f"  Model 3  {tmp_path}/Trainer/model/3",
            f"  Model 5  {tmp_path}/Trainer/model/6",
        ]
    )
