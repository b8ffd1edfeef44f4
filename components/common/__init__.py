"""What the components share: files, Beam pipelines, publishing, schemas."""
