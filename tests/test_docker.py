"""The image of both servers and its compose file; they are built and started where Docker is."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def has_docker() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def test_the_image_runs_without_root_and_states_its_health():
    instructions = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split(" ", 1)[0] for line in instructions if line[:1].isupper()]
    assert "USER captau" in instructions
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert {"HEALTHCHECK", "VOLUME", "EXPOSE"} <= set(words)


@pytest.mark.parametrize("name", ["collect", "serve"])
def test_each_server_keeps_its_data_in_a_volume_and_listens_to_this_machine_alone(name):
    service = COMPOSE["services"][name]
    assert service["command"][0] == name
    assert f"{name}:/data" in service["volumes"]
    assert name in COMPOSE["volumes"]
    # It listens to its own machine, whose network is the proxy's.
    assert not [word for word in service["command"] if word.startswith("host=")]
    assert service["network_mode"] == "service:proxy"
    assert "ports" not in service
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["services"]["proxy"]["ports"])


def test_the_proxy_leads_to_the_ports_of_the_servers():
    config = (ROOT / "nginx.conf").read_text(encoding="utf-8")
    ports = re.findall(
        r"listen (\d+);\s+location / \{\s+proxy_pass http://127.0.0.1:(\d+);", config
    )
    words = [COMPOSE["services"][name]["command"] for name in ("collect", "serve")]
    assert ports == [
        tuple(re.findall(r"\b(?:port=|url=http://127.0.0.1:)(\d+)", " ".join(command)))[::-1]
        for command in words
    ]


@pytest.mark.wheel
def test_both_servers_answer_in_containers():
    if not has_docker():
        pytest.skip("no Docker daemon answers here")
    compose = ["docker", "compose", "--project-name", "captau-test"]
    try:
        subprocess.run([*compose, "up", "--build", "--detach"], cwd=ROOT, check=True)
        for port in (8001, 8002):
            wait_for(f"http://127.0.0.1:{port}/")
    finally:
        subprocess.run([*compose, "down", "--volumes"], cwd=ROOT, check=False)


def wait_for(url: str, seconds: float = 120) -> None:
    """Wait until a page is served."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(1)
