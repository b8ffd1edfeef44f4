"""Run tasks in processes or on Beam, keep a workspace, and publish a dataset."""
