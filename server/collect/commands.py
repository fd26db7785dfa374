"""What `captau collect` and its kin do; the command line finds these by the package's entry points."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...datasets.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .app import Site


def collect(config: DictConfig) -> int:
    """Serve a study until it is stopped."""
    from ...benchmarks.options import collect_config
    from ..web.listener import listen, public_url, serve
    from .app import make_app

    options = collect_config(config)
    taken = listen(options["host"], options["port"])
    site = open_site(options)
    url = public_url(options["url"], taken)
    store = site.store
    print(f"{site.study.title}: {url}/")
    print(f"{store.pools['main']:,} to judge, kept in {store.database.display_name}")
    print(site.admin_account.sign_in_hint(url, site.setup_code), flush=True)
    serve(make_app(site), taken, proxy=options["proxy"])
    print("captau: stopped; every answer that was acknowledged is kept", file=sys.stderr)
    return 0


def export(config: DictConfig) -> None:
    """Write what a study gathered."""
    from ...benchmarks.options import collect_config
    from ...benchmarks.runs.output_folder import OutputFolder
    from .export import files

    options = collect_config(config)
    site = open_site(options, create=False)
    try:
        with OutputFolder(options["output_dir"], "collect-export") as folder:
            rows = site.store.database.run_blocking(site.store.all_rows)
            found = files(site.store, rows, options["form"])
            folder.write(found)
    finally:
        site.store.database.close()
    for name, content in found.items():
        print(f"{name}: {len(content):,} bytes")
    print(f"\nwritten to {folder.path}")


def stability(config: DictConfig) -> None:
    """Compare a study with its re-run."""
    from ...benchmarks.options import stability_config
    from ...benchmarks.runs.output_folder import OutputFolder
    from ...benchmarks.runs.tables import markdown_of
    from .stability import compare

    folders, least, output_dir = stability_config(config)
    with OutputFolder(output_dir, "collect-stability") as folder:
        compared = compare(folders, least)
        folder.write(compared.files())
    print("\n\n".join(map(markdown_of, compared.tables)))
    print(f"\nwritten to {folder.path}")


def simulate(config: DictConfig) -> None:
    """Play raters of given skill through a study's own web site."""
    from ...benchmarks.options import collect_config
    from .simulate import run

    run(collect_config(config))


def open_site(options: dict[str, Any], *, create: bool = True, wait: float | None = None) -> Site:
    """The study in its database, ready to be served.

    Args:
        options: as `captau collect` takes them.
        create: whether to begin a database that is not there.
        wait: for simulated players: another wait than the study's, and no limits.

    Raises:
        InputError: on a fault of the study, the database or the password.
    """
    from ..storage.database import Database
    from ..web.admin_account import password_from_environment
    from ..web.public_address import parse_public_address
    from .app import Site
    from .migrations import FOLDER
    from .store import Store
    from .studies import Limits, read_study

    study = read_study(options["study"], _path(options["data"]["root"]))
    if wait is not None:
        free = Limits(*[1_000_000] * 3)
        study = replace(study, rules=replace(study.rules, wait=wait), limits=free)
    password = password_from_environment()
    public_address = parse_public_address(options.get("url"))
    address_of = options["database"] or f"collected/{study.name}.sqlite3"
    if not create and "://" not in address_of and not Path(address_of).expanduser().is_file():
        raise InputError(f"{address_of}: no such file; name the study's with database=FILE")
    database = Database(
        address_of,
        FOLDER,
        "captau collect",
        lambda line: print(f"captau: {line}", file=sys.stderr),
        pipelined=True,
    )
    try:
        site = Site(Store(database, study), public_address)
        site.admin_account.adopt_password(password)
    except BaseException:
        database.close()
        raise
    return site


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
