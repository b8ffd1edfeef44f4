# Three images for x86_64, from the locked requirements. `make image` builds them, on a base that it pins:
#   docker build --build-arg BASE=python@sha256:… --tag tfx-shards:0.3.0.dev0 .
#                                                 components, pipelines, TFX 1.21, kfp
#   docker build --build-arg BASE=python@sha256:… --target trainer --tag tfx-shards-trainer:0.3.0.dev0 .
#                                                 trainer_utils, TensorFlow with CUDA, kfp
#   docker build --build-arg BASE=python@sha256:… --target components --tag tfx-shards-components:0.3.0.dev0 .
#                                                 what Kubeflow's native components need: no TFX, no TensorFlow
# None runs as root. Kubeflow's launcher copies artifacts to and from /gcs, /minio and /s3.

# A Python of 3.13 on glibc 2.38 or newer, such as python:3.13-slim-trixie, by its digest: a tag would
# be another base another day. `make image` finds the digest.
ARG BASE

FROM ${BASE} AS base
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
COPY requirements-image.lock ./
RUN python -m venv /opt/venv \
 && awk '/^[a-z]/ {keep = /^(pip|setuptools|wheel)==/} keep' requirements-image.lock > tools.txt \
 && pip install --no-deps --require-hashes --requirement tools.txt

FROM tools AS wheel
COPY pyproject.toml README.md LICENSE ./
COPY trainer_utils trainer_utils
COPY components components
COPY pipelines pipelines
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM tools AS trainer-packages
COPY requirements-trainer.lock ./
RUN pip install --no-deps --require-hashes --no-build-isolation --requirement requirements-trainer.lock \
 && pip check

FROM tools AS components-packages
COPY requirements-components.lock ./
RUN pip install --no-deps --require-hashes --no-build-isolation --requirement requirements-components.lock \
 && pip check

FROM base AS components
COPY --from=components-packages /opt/venv /opt/venv
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-deps --no-index /wheels/*.whl
USER 1000:0
CMD ["python", "-c", "import components.kubeflow; help(components.kubeflow)"]

# The packages are a layer of their own, gigabytes that another commit of the code does not change.
FROM base AS trainer
COPY --from=trainer-packages /opt/venv /opt/venv
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-deps --no-index /wheels/*.whl
USER 1000:0
CMD ["python", "-c", "import trainer_utils; help(trainer_utils)"]

# pyfarmhash has no wheel, hence the compiler, which the image itself does not have.
FROM tools AS packages
RUN apt-get update && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
RUN pip install --no-deps --require-hashes --no-build-isolation --requirement requirements-image.lock

FROM base AS pipelines
COPY --from=packages /opt/venv /opt/venv
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-deps --no-index /wheels/*.whl
USER 1000:0
CMD ["python", "-c", "import components.kubeflow; help(components.kubeflow)"]
