"""Digests and hashes at a release, against a registry and an index of packages on this machine."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tests.conftest import serving

pytestmark = pytest.mark.dev
ROOT = Path(__file__).resolve().parents[1]
MANIFESTS = {"library/python/3.13-slim": b'{"manifests": [1]}', "library/nginx/1": b'{"x": 2}'}


def make_wheel() -> bytes:
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        about = "Metadata-Version: 2.1\nName: demo-package\nVersion: 1.5\n"
        archive.writestr("demo_package-1.5.dist-info/METADATA", about)
        archive.writestr("demo_package-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("demo_package-1.5.dist-info/RECORD", "")
    return wheel.getvalue()


WHEEL = make_wheel()


def make_app(stated_digest: str | None = None) -> FastAPI:
    """Return a registry that asks for a token, and an index with one package."""
    app = FastAPI()

    @app.get("/v2/{name:path}/manifests/{tag}")
    def manifest(request: Request, name: str, tag: str) -> Response:
        if request.headers.get("authorization") != f"Bearer {name}":
            realm = f'Bearer realm="{request.base_url}token",service="fixture",scope="{name}"'
            return Response(status_code=401, headers={"www-authenticate": realm})
        body = MANIFESTS[f"{name}/{tag}"]
        digest = stated_digest or f"sha256:{hashlib.sha256(body).hexdigest()}"
        return Response(body, headers={"docker-content-digest": digest})

    @app.get("/token")
    def token(service: str, scope: str) -> JSONResponse:
        return JSONResponse({"token": scope if service == "fixture" else ""})

    @app.get("/simple/demo-package/")
    def links() -> Response:
        digest = hashlib.sha256(WHEEL).hexdigest()
        file = "demo_package-1.5-py3-none-any.whl"
        return Response(
            f'<a href="/files/{file}#sha256={digest}">{file}</a>', 200, None, "text/html"
        )

    @app.get("/files/{name}")
    def file(name: str) -> Response:
        return Response(WHEEL)

    return app


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("Dockerfile", "compose.yaml"):
        shutil.copy(ROOT / name, tmp_path / name)
    project = '[project]\nname = "x"\nversion = "1"\ndependencies = []\n'
    extra = '[project.optional-dependencies]\nserver = ["demo-package>=1"]\n'
    (tmp_path / "pyproject.toml").write_text(project + extra)
    return tmp_path


def pin(project: Path, url: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "release" / "pin_versions.py"
    words = [f"root={project}", f"registry={url}", f"index={url}/simple"]
    command = [sys.executable, str(script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_images_get_the_digests_and_packages_the_hashes_that_were_sent(project: Path) -> None:
    digests = {n: hashlib.sha256(body).hexdigest() for n, body in MANIFESTS.items()}
    with serving(make_app()) as url:
        for _ in range(2):  # what has a digest gets it anew
            result = pin(project, url)
            assert result.returncode == 0, result.stderr
    dockerfile = (project / "Dockerfile").read_text()
    python = f"FROM python:3.13-slim@sha256:{digests['library/python/3.13-slim']}"
    assert re.findall("^FROM.*", dockerfile, re.MULTILINE) == [f"{python} AS build", python]
    compose = (project / "compose.yaml").read_text()
    assert f"    image: nginx:1@sha256:{digests['library/nginx/1']}\n" in compose
    # Nothing else has changed.
    for name, text in (("Dockerfile", dockerfile), ("compose.yaml", compose)):
        assert re.sub("@sha256:[0-9a-f]+", "", text) == (ROOT / name).read_text()
    lock = (project / "requirements.lock").read_text().split()
    digest = hashlib.sha256(WHEEL).hexdigest()
    assert lock == ["demo-package==1.5", "\\", f"--hash=sha256:{digest}"]


def test_a_manifest_that_is_not_the_one_that_the_registry_names_is_refused(project: Path) -> None:
    with serving(make_app("sha256:" + "0" * 64)) as url:
        result = pin(project, url)
    assert result.returncode == 1
    assert "python:3.13-slim: the manifest is not the one" in result.stderr
    assert (project / "Dockerfile").read_text() == (ROOT / "Dockerfile").read_text()
    assert not (project / "requirements.lock").exists()


def test_the_image_installs_what_is_locked_before_anything_else() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "pip install --no-cache-dir --require-hashes -r /wheels/requirements.lock" in text
    assert text.index("--require-hashes") < text.index('"$(echo /wheels/captau-*.whl)[$EXTRAS]"')
