"""How long visitors of a site wait while others send endless or slow requests.

    python scripts/speed/measure_slow_clients.py [megabytes=150] [slow=100] [seconds=20]

One client sends a request header of so many megabytes, again and again; `slow` clients send a header and a body, a byte a
second, which only a proxy cuts off (SECURITY.md); meanwhile another asks for `/health`. The site is `captau collect study=demo_good_bad`.
"""

from __future__ import annotations

import http.client
import socket
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from captau.benchmarks.cli.script_options import read_options
from captau.benchmarks.options.sites import CollectOptions
from captau.server.collect.simulation import StudyServer

HEAD = b"POST /join HTTP/1.1\r\nhost: x\r\n"


def measure_waits(address: str, seconds: float) -> list[float]:
    """Ask for `/health` some fifty times a second; return the milliseconds of each answer."""
    waits: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        client = http.client.HTTPConnection(address, timeout=60)
        client.request("GET", "/health")
        client.getresponse().read()
        client.close()
        waits.append(1000 * (time.monotonic() - begun))
        time.sleep(0.02)
    return waits


def send_endless_header(address: tuple[str, int], megabytes: int) -> float:
    """Return how many megabytes the site took before it closed the connection."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(HEAD + b"x: ")
        for sent in range(16 * megabytes):
            try:
                connection.sendall(b"a" * 65_536)
            except OSError:
                return sent / 16
    return megabytes


def drip(address: tuple[str, int], head: bytes, stop: threading.Event) -> float:
    """Send a byte a second; return for how many seconds the connection was open."""
    begun = time.monotonic()
    with socket.create_connection(address, timeout=60) as connection:
        try:
            connection.sendall(head)
            while not stop.wait(1):
                connection.sendall(b"a")
        except OSError:
            pass
    return time.monotonic() - begun


def memory_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def report(label: str, waits: list[float]) -> None:
    waits = sorted(waits)
    middle, late = waits[len(waits) // 2], waits[int(0.99 * (len(waits) - 1))]
    print(f"{label}: median {middle:.1f} ms, 99% {late:.1f} ms, most {waits[-1]:.1f} ms")


def main() -> None:
    given = read_options(__doc__, ("megabytes", "slow", "seconds"))
    seconds, slow = float(given.get("seconds", 20)), int(given.get("slow", 100))
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "site.sqlite3")
        server = StudyServer(CollectOptions(study="demo_good_bad", database=database))
        netloc = urlsplit(server.url).netloc
        address = ("127.0.0.1", urlsplit(server.url).port or 0)
        before = memory_megabytes(server.process.pid)
        report("alone", measure_waits(netloc, seconds / 2))
        stop, taken, ended = threading.Event(), [], []

        def flood() -> None:
            while not stop.is_set():
                taken.append(send_endless_header(address, int(given.get("megabytes", 150))))

        heads = [HEAD + b"x: ", HEAD + b"content-length: 1000\r\n\r\n"]
        threads = [threading.Thread(target=flood)] + [
            threading.Thread(target=lambda k=k: ended.append(drip(address, heads[k % 2], stop)))
            for k in range(slow)
        ]
        for thread in threads:
            thread.start()
        report("beside them", measure_waits(netloc, seconds))
        stop.set()
        for thread in threads:
            thread.join()
        after = memory_megabytes(server.process.pid)
        server.stop()
    print(f"{len(taken)} endless headers, cut off after at most {max(taken):.1f} MB")
    print(f"{slow} slow clients, connected for at most {max(ended):.0f} s")
    print(f"memory: {before:.0f} MB before, {after:.0f} MB after")


if __name__ == "__main__":
    main()
