"""`python -m pipelines`, the same as `tfx-shards`."""

from pipelines.cli.app import main

if __name__ == "__main__":
    main()
