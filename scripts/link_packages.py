"""Link the packages of this clone below one folder `captau`, and put that folder on Python's path.

An editable install hides the packages behind an import hook, which editors and type checkers cannot
follow. `make` calls this with the environment's own Python after each installation.
"""

from __future__ import annotations

import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def link_packages(site_packages: Path) -> None:
    """Write the folder of links into an environment, and the .pth file that names it."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders: dict[str, str] = config["tool"]["setuptools"]["package-dir"]
    links = Path(sys.prefix) / "links" / "captau"
    links.mkdir(parents=True, exist_ok=True)
    targets = {name.partition(".")[2]: ROOT / folder for name, folder in folders.items()}
    own_files = (ROOT / folders["captau"]).iterdir()
    targets |= {path.name: path for path in own_files if path.suffix in {".py", ".pyi", ".typed"}}
    for name, target in targets.items():
        link = links / name
        if name and not (link.is_symlink() and link.readlink() == target):
            link.unlink(missing_ok=True)  # of a clone that lay elsewhere
            link.symlink_to(target)
    (site_packages / "captau_links.pth").write_text(f"{links.parent}\n", encoding="utf-8")


if __name__ == "__main__":
    link_packages(Path(sysconfig.get_path("purelib")))
