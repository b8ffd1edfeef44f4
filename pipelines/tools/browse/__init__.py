"""A dataset as pages of this machine: records as one asks for them, nothing written.

from pipelines.tools.browse import BrowseServer

with BrowseServer("datasets/photos", port=8765) as server:
    server.serve_forever()          # http://127.0.0.1:8765/
"""

from pipelines.tools.browse.server import BrowseServer

__all__ = ["BrowseServer"]
