# Two images, from the locked requirements; `make image` builds both.
#   docker build --tag tfx-shards:0.1.0 .                          components, pipelines, TFX, kfp
#   docker build --target trainer --tag tfx-shards-trainer:0.1.0 . trainer_utils, TensorFlow, kfp
# Neither runs as root. Kubeflow's launcher copies artifacts to and from /gcs, /minio and /s3.

ARG PYTHON=python:3.10-slim-bookworm

FROM ${PYTHON} AS base
# oneDNN is off since TensorFlow 2.16's fails on several logical CPU devices, which
# MirroredStrategy uses where there is no GPU.
ENV HOME=/home/tfx \
    PATH=/opt/venv/bin:$PATH \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    TF_CPP_MIN_LOG_LEVEL=2 \
    TF_ENABLE_ONEDNN_OPTS=0
# Group 0 may write where the user may: OpenShift runs containers as any user of that group.
RUN useradd --uid 1000 --gid 0 --home-dir /home/tfx --no-create-home tfx \
 && for folder in /home/tfx /gcs /minio /s3; do \
      mkdir "$folder" && chown 1000:0 "$folder" && chmod 775 "$folder"; \
    done
WORKDIR /home/tfx

# The tools of the lock build all the rest, so that nothing outside of it is fetched.
FROM base AS tools
WORKDIR /build
COPY requirements.lock ./
RUN python -m venv /opt/venv \
 && awk '/^[a-z]/ {keep = /^(pip|setuptools|wheel)==/} keep' requirements.lock > tools.txt \
 && pip install --no-deps --require-hashes --requirement tools.txt

FROM tools AS wheel
COPY pyproject.toml README.md LICENSE ./
COPY trainer_utils trainer_utils
COPY components components
COPY pipelines pipelines
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM tools AS trainer-packages
COPY requirements-trainer.lock ./
RUN pip install --no-deps --require-hashes --no-build-isolation --requirement requirements-trainer.lock
COPY --from=wheel /wheels /wheels
RUN pip install --no-deps --no-index /wheels/*.whl && pip check

FROM base AS trainer
COPY --from=trainer-packages /opt/venv /opt/venv
USER 1000:0
CMD ["python", "-c", "import trainer_utils; help(trainer_utils)"]

# pyfarmhash has no wheel, hence the compiler, which the image itself does not have. What only
# develops this project goes again.
FROM tools AS packages
RUN apt-get update && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
RUN pip install --no-deps --require-hashes --no-build-isolation --requirement requirements.lock \
 && pip uninstall --yes build datum hypothesis mypy pytest ruff tensorflow-datasets
COPY --from=wheel /wheels /wheels
RUN pip install --no-deps --no-index /wheels/*.whl

FROM base AS pipelines
COPY --from=packages /opt/venv /opt/venv
USER 1000:0
CMD ["python", "-c", "import components.kubeflow; help(components.kubeflow)"]
