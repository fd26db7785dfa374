"""Functions that `captau collect` and its subcommands call; the command line finds them by entry points.

Each imports what it needs when it runs, since the command line imports this module for its help.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...datasets.errors import InputError
from ..storage.private_files import private_umask

if TYPE_CHECKING:
    from ...benchmarks.options.sites import (
        CollectOptions,
        ExportOptions,
        SimulateOptions,
        StabilityOptions,
    )


@private_umask()
def collect(options: CollectOptions) -> int:
    """Serve a study until it is stopped."""
    from ..web.listener import listen, public_url, serve
    from .web.app import make_app
    from .web.site import back_up_study, open_site

    if options.backup is not None:
        print(back_up_study(options, options.backup))
        return 0

    listener = listen(options.host, options.port)
    site = open_site(options)
    store = site.store
    url = public_url(options.url, listener)

    title = site.study.title
    # A question has its sign already.
    print(f"{title}{'' if title.endswith(('?', '!', '.', ':')) else ':'} {url}/")
    print(f"{store.pool_sizes['main']:,} to judge, kept in {store.database.path}")
    # The server prints nothing more; whoever waits for the address reads it at once.
    print(site.admin_account.sign_in_hint(url, site.setup_code), flush=True)

    serve(make_app(site), listener, proxy=options.proxy)
    print("captau: stopped; every answer that was acknowledged is kept", file=sys.stderr)

    return 0


def export(options: ExportOptions) -> None:
    """Write the answers of a study."""
    from ...benchmarks.runs.output_folder import OutputFolder
    from .export import export_files
    from .web.site import open_snapshot

    store = open_snapshot(options.site_options())
    try:
        with OutputFolder(options.output_dir, "collect-export") as folder:
            rows = store.database.run_blocking(store.load_rows)
            files = export_files(store, rows, options.form)
            folder.write(files)
    finally:
        store.database.close()

    for name, content in files.items():
        print(f"{name}: {len(content):,} bytes")
    print(f"\nwritten to {folder.path}")

    # Where raters check each other's scores, metrics are measured by the scores that were settled.
    readers = [
        ("agree", ("ratings.csv", "preferences.csv")),
        ("bench", ("settled.csv", "ratings.csv", "preferences.csv")),
    ]
    commands: list[str] = []
    for command, names in readers:
        readable = [name for name in names if name in files]
        if readable:
            path = folder.path / readable[0]
            commands.append(f"  captau {command} dataset=file file.path={path}")
    if commands:
        print("\n".join(["these commands measure the raters and the metrics:", *commands]))


def stability(options: StabilityOptions) -> None:
    """Compare a study with its re-run."""
    from ...benchmarks.cli.terminal import show_tables
    from ...benchmarks.runs.output_folder import OutputFolder
    from .rerun_stability import compare_runs

    with OutputFolder(options.output_dir, "collect-stability") as folder:
        comparison = compare_runs(options.runs, options.least)
        folder.write(comparison.files())

    show_tables(comparison.tables)
    print(f"\nwritten to {folder.path}")


def simulate(options: SimulateOptions) -> None:
    """Play raters of known skill through a study's own web site."""
    from ...benchmarks.cli.terminal import show_tables, show_text
    from .simulation import run_simulation

    report = run_simulation(options)
    show_tables(report.tables)
    show_text(report.text)
    if report.fault:
        raise InputError(report.fault)
