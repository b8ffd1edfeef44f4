"""Lets kfp's own executor find `/minio` and the like below the folder that stands for a pod."""

import os

import kfp.dsl.types.artifact_types as types

for name in ("_GCS_LOCAL_MOUNT_PREFIX", "_MINIO_LOCAL_MOUNT_PREFIX", "_S3_LOCAL_MOUNT_PREFIX"):
    setattr(types, name, os.environ["POD_FOLDER"] + getattr(types, name))
