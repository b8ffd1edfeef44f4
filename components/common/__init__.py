"""Code shared by the components: inputs, tasks, workspaces, Beam pipelines, publishing."""
