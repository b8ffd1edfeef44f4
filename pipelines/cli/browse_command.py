"""`tfx-shards browse`: a dataset's records as pages of this machine."""

import webbrowser

import click

from pipelines.cli.options import dataset_argument, verbose_option
from pipelines.cli.output import print_messages, show_progress

__all__ = ["browse"]


@click.command()
@dataset_argument
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on. Default: any free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@verbose_option
def browse(uri: str, port: int, opens: bool) -> None:
    """Serve a dataset's records as pages, to this machine only, until Ctrl-C.

    By split, or by the name of a record; look at one record whole. Nothing is written. URI is any
    dataset that `inspect` reads.

    \b
    tfx-shards browse out/ --open
    """
    from pipelines.tools.browse import BrowseServer

    with show_progress("Opening"):
        server = BrowseServer(uri, port=port)
    with server:
        print_messages(f"{server.url}  (Ctrl-C ends it)")
        if opens:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print_messages("")
