"""Every setting refuses wrong values at once, without TFX, in a sentence that names it."""

import json
import os

import pytest
from click.testing import CliRunner

from pipelines.cli.app import app
from tests.make import run_python

PROGRAM = """
import json, sys
from click.testing import CliRunner
from pipelines.cli.app import app
for arguments in json.loads(sys.argv[1]):
    before = set(sys.modules)
    result = CliRunner().invoke(app, arguments)
    heavy = [n for n in ("tfx", "tensorflow", "apache_beam", "ml_metadata") if n in sys.modules]
    print(json.dumps([result.exit_code, result.stderr, result.stdout, heavy]))
"""


CASES = {  # by command line: the exit status, and the expected error message
    "inspct out": (2, "Did you mean 'inspect'?"),
    "convert photos out --laout folder": (2, "Did you mean '--layout'?"),
    "convert photos out --kind image --layout foldr": (2, "Did you mean 'folder'?"),
    "convert photos out --set num_shrds=3": (2, "Did you mean 'num_shards'?"),
    "convert photos out --splits train=8,eval=2 --num-shards tain=3": (2, "Did you mean 'train'?"),
    "convert photos out --set verify=decod --kind image": (2, "Did you mean 'decode'?"),
    "convert photos out --dry-run --set batch=1": (2, "'batch'"),
    "compile imag --image i --pipeline-root gs://b/r": (2, "'imag'"),
    "compile none.py:f --image i --pipeline-root gs://b/r": (2, "none.py"),
    "convert photos photos/out --kind image": (2, "'photos/out'"),
    "convert photos out --kind images": (2, "'images'"),
    "convert none out": (1, "'none'"),
    "convert empty out": (1, "'empty'"),
    "convert dataset out": (1, "ShardBalancer"),
    "convert dataset out --kind text": (1, "ShardBalancer"),
    "convert twice.tsv out": (1, "'text' is a duplicate name"),
    "convert commas.tsv out": (1, "text,label"),
    "convert good.csv out --column stars=float": (2, "'stars'"),
    "convert images.csv out --column stars=float": (2, "'stars'"),
    "convert photos/1.jpg out": (1, "got an image"),
    "convert photos good.csv": (2, "'good.csv'"),
    "convert photos good.csv/x": (2, "'good.csv/x'"),
    "convert photos https://bucket/out": (2, "'https://bucket/out'"),
    "convert photos out --metadata empty": (2, "'empty'"),
    "inspect good.csv": (1, "good.csv'"),
    "verify photos": (1, "photos'"),
    "plan none": (1, "none'"),
}


def test_wrong_setting_is_one_sentence_before_tfx_import(tmp_path, subtests):
    for name in ("photos/1.jpg", "dataset/Split-train/data_tfrecord-00000-of-00001", "empty/a/b"):
        (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / "photos/1.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "dataset/Split-train/data_tfrecord-00000-of-00001").touch()
    (tmp_path / "twice.tsv").write_text("text\tlabel\ttext\na\tb\tc\n")
    (tmp_path / "commas.tsv").write_text("text,label\na,b\n")
    (tmp_path / "good.csv").write_text("text,label\na,b\n")
    (tmp_path / "images.csv").write_text("image_uri,label\na.jpg,cat\n")
    calls = json.dumps([case.split() for case in CASES])
    told = run_python(PROGRAM, calls, cwd=tmp_path).stdout.splitlines()
    for (call, (code, said)), line in zip(CASES.items(), told, strict=True):
        with subtests.test(call=call):
            if call.startswith("compile "):
                pytest.importorskip("kfp", reason="it compiles for Kubeflow")
            status, stderr, stdout, heavy = json.loads(line)
            assert (status, stdout, heavy) == (code, "", []), (call, stderr)
            assert said in stderr.splitlines()[-1], call
            assert "Traceback" not in stderr
            assert "Starting TFX" not in stderr
    assert not (tmp_path / "out").exists()


def test_unwritable_folder_is_reported_before_tfx_starts(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").write_bytes(b"\xff\xd8\xff")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    out = str(tmp_path / "out")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "photos"), out])
    assert result.exit_code == 2
    assert out in result.stderr
    assert "Starting TFX" not in result.stderr
