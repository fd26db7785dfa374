"""The commands `captau serve` and `captau submit`; the command line finds them by entry points."""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import quote

from ...benchmarks.options.sites import ServeOptions, SubmitOptions
from ...datasets.errors import InputError
from ..storage.private_files import private_umask


@private_umask()
def serve(options: ServeOptions) -> int:
    """Serve challenges until the process is stopped."""
    from ..web.listener import listen, public_url
    from ..web.listener import serve as serve_app
    from .site_opening import add_demo_submissions, back_up_site, open_site
    from .web.app import make_app
    from .worker_pool import log_to_stderr

    log_to_stderr()
    if options.backup is not None:
        print(back_up_site(options, options.backup))
        return 0

    socket = listen(options.host, options.port)
    # The port is opened first: a second server on it ends before it opens the database.
    site = open_site(options)
    if options.challenge == "demo":
        asyncio.run(add_demo_submissions(site))

    url = public_url(options.url, socket)
    # A question has its sign already.
    print(f"{site.title}{'' if site.title.endswith(('?', '!', '.', ':')) else ':'} {url}/")
    names = ", ".join(site.challenges)
    print(f"{names}, kept in {site.store.database.path} and {site.store.folder}")
    print(site.admin_account.sign_in_hint(url, site.setup_code), flush=True)

    serve_app(make_app(site), socket, proxy=options.proxy)
    print("captau: stopped; every submission that was acknowledged is kept", file=sys.stderr)
    return 0


def submit(options: SubmitOptions) -> int:
    """Send a file to a challenge, and print its scores or faults."""
    from .client import ChallengeClient, print_outcome

    token = options.token or os.environ.get("CAPTAU_TOKEN")
    if not token:
        raise InputError(
            "a token is needed; make one on your account page of the site, and set CAPTAU_TOKEN or token=…"
        )

    client = ChallengeClient(options.url, token)
    submission = client.submit(options.file, options.challenge, options.system, options.note)
    print(
        f"{submission['challenge']}: received {submission['file']} ({submission['bytes']:,} bytes) as "
        f"{submission['id']}"
    )

    if not options.wait:
        return 0
    status = print_outcome(client.wait(submission["id"]))
    print(f"its page: {options.url.rstrip('/')}/submissions/{quote(submission['id'], safe='')}")
    return status
