"""The server of a study as a process of its own, for simulations, benchmarks and tests."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

from ....benchmarks.options.collect import CollectOptions
from ....datasets.errors import InputError
from ...web.listener import listen, serve
from ..web.app import make_app
from ..web.site import open_site


class StudyServer:
    """A study's server on a free port; `url` is its address.

    Args:
        options: those of `captau collect`.
        wait: the game's wait, in seconds.

    Raises:
        InputError: on a fault of the study.
    """

    def __init__(self, options: CollectOptions, wait: float = 0.0) -> None:
        has_fork_server = "forkserver" in multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if has_fork_server else "spawn")
        if has_fork_server:  # modules are imported once for all servers
            context.set_forkserver_preload(["captau.server.collect.web.app", "uvicorn"])
        receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_serve, args=(options, wait, sender), daemon=True)
        self.process.start()
        sender.close()
        try:
            url, fault = receiver.recv()
        except EOFError:
            url, fault = "", "the server did not start"
        if fault:
            self.process.join()
            raise InputError(fault)
        self.url: str = url

    def kill(self) -> None:
        """End the process at once, by SIGKILL."""
        self.process.kill()
        self.process.join()

    def stop(self) -> None:
        """Let the server finish, and end the process."""
        self.process.terminate()
        self.process.join()


def _serve(options: CollectOptions, wait: float, sender: Connection) -> None:
    """Serve a study without limits; send its address and a fault, either of which is empty."""
    try:
        listener = listen("127.0.0.1", 0)
        site = open_site(options, wait=wait)
    except InputError as error:
        sender.send(("", str(error)))
        return
    sender.send((f"http://127.0.0.1:{listener.getsockname()[1]}", ""))
    serve(make_app(site), listener)
