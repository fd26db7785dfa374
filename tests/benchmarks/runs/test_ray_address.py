"""Addresses of Ray's clusters: which one counts, and whether somebody listens there."""

from __future__ import annotations

import socket

import pytest

from captau.benchmarks.runs.ray_address import address_of, fault_of


def test_an_option_counts_before_rays_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert address_of(None) is None
    monkeypatch.setenv("RAY_ADDRESS", "")
    assert address_of(None) is None
    monkeypatch.setenv("RAY_ADDRESS", "b:1")
    assert (address_of(None), address_of(""), address_of("a:1")) == ("b:1", "b:1", "a:1")


def test_somebody_listens_or_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert fault_of(f"127.0.0.1:{port}") is None
        assert fault_of(f"ray://127.0.0.1:{port}") is None
    assert fault_of(f"127.0.0.1:{port}") == "Connection refused"
    assert fault_of("auto") is None
    assert "invalid literal" in str(fault_of("127.0.0.1:x"))
    assert fault_of("127.0.0.1:99999")
