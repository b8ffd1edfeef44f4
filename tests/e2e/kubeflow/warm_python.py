"""A Python process that imports TFX once and forks for each command, which saves 10 s per step.

It reads one JSON request per line (`module`, `arguments`, `environment`, `folder`, `log`), runs
`python -m module arguments` in a forked process, and replies with the exit status.
"""

import functools
import importlib.metadata
import json
import os
import runpy
import sys
import traceback


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of imports must not mix with the replies
    # Google's libraries call this function 15 times while TFX is imported, 0.2 s each.
    importlib.metadata.packages_distributions = functools.cache(
        importlib.metadata.packages_distributions
    )
    import tensorflow_data_validation  # noqa: F401
    from tensorflow.python.autograph.core import config
    from tfx import v1  # noqa: F401
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor  # noqa: F401

    # AutoGraph leaves keras alone, but converts tf_keras: three quarters of a short training.
    config.CONVERSION_RULES += (config.DoNotConvert("tf_keras"),)

    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def run(request: dict) -> None:
    """Run a request in the child process and exit."""
    status = 1
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        mount_below(request["folder"])
        sys.argv = [request["module"], *request["arguments"]]
        try:
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def mount_below(pod: str) -> None:
    """Make kfp's executor find `/minio`, `/gcs` and `/s3` in the folder that simulates the pod."""
    import kfp.dsl.types.artifact_types as types

    for name in ("_GCS_LOCAL_MOUNT_PREFIX", "_MINIO_LOCAL_MOUNT_PREFIX", "_S3_LOCAL_MOUNT_PREFIX"):
        setattr(types, name, pod + getattr(types, name))


if __name__ == "__main__":
    main()
