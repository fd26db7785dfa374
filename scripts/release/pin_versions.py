"""Write the digests of images into Dockerfile and compose.yaml, and the hashes of the container's packages into requirements.lock.

    python scripts/release/pin_versions.py registry=URL index=URL [root=.]

Run it before a release, and commit what it writes. `registry` has the images, and `index` is pip's. The digest of an image is the
SHA-256 of the manifest that the registry sends; the script ends with status 1 if the registry names another. uv (extra `[dev]`) chooses
the versions for the Dockerfile's Python, with the hashes that the index names, and pip refuses any other file. An image that has a digest
already gets the one that its tag has now.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import requests
from uv import find_uv_bin

from captau.benchmarks.cli.script_options import read_options

IMAGE = re.compile(
    r"^(FROM|\s+image:) ([\w./-]+):([\w.-]+)(?:@sha256:[0-9a-f]{64})?(?=\s|$)", re.MULTILINE
)
#: The media types of a manifest, those for several machines first.
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def fetch_digest(registry: str, name: str, tag: str) -> str:
    """Return the digest of an image, `sha256:…`; names without a slash are Docker's official images."""
    url = f"{registry}/v2/{name if '/' in name else f'library/{name}'}/manifests/{tag}"
    headers = {"accept": ", ".join(MANIFESTS)}
    answer = requests.get(url, headers=headers, timeout=60)
    if answer.status_code == 401:  # the registry names the service that gives everybody a token
        fields = dict(re.findall(r'(\w+)="([^"]*)"', answer.headers["www-authenticate"]))
        token = requests.get(fields.pop("realm"), params=fields, timeout=60).json()["token"]
        headers["authorization"] = f"Bearer {token}"
        answer = requests.get(url, headers=headers, timeout=60)
    answer.raise_for_status()
    digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    if answer.headers.get("docker-content-digest", digest) != digest:
        raise SystemExit(f"{name}:{tag}: the manifest is not the one whose digest {registry} names")
    return digest


def pin_images(path: Path, registry: str) -> None:
    """Write a file again with the digest behind each image."""

    def pin(match: re.Match[str]) -> str:
        before, name, tag = match.groups()
        return f"{before} {name}:{tag}@{fetch_digest(registry, name, tag)}"

    path.write_text(IMAGE.sub(pin, path.read_text(encoding="utf-8")), encoding="utf-8")


def lock_packages(root: Path, index: str) -> None:
    """Write `requirements.lock`: the packages of the Dockerfile's extras, each with its hashes."""
    dockerfile = (root / "Dockerfile").read_text(encoding="utf-8")
    (python,) = set(re.findall(r"^FROM python:(\d+\.\d+)", dockerfile, re.MULTILINE))
    extras = re.findall(r"^ARG EXTRAS=(\S+)", dockerfile, re.MULTILINE)[0].split(",")
    command = [find_uv_bin(), "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate"]
    command += ["--no-header", "--python-version", python, "--default-index", index]
    command += [f"--extra={extra}" for extra in extras]
    subprocess.run(
        [*command, "pyproject.toml", "--output-file", "requirements.lock"], cwd=root, check=True
    )


def main() -> None:
    given = read_options(__doc__, ("registry", "index", "root"))
    if not {"registry", "index"} <= given.keys():
        raise SystemExit("name both addresses: registry=URL index=URL")
    root = Path(given.get("root", "."))
    for name in ("Dockerfile", "compose.yaml"):
        pin_images(root / name, given["registry"])
    lock_packages(root, given["index"])


if __name__ == "__main__":
    main()
