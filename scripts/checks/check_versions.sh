#!/usr/bin/env bash
# Run the quick tests at the lowest and the highest versions that pyproject.toml allows, with each Python.
#
#     scripts/checks/check_versions.sh [PYTEST ARGUMENTS]
#
# Needs uv. PYTHONS names the versions of Python; the lowest versions are tried with the first of them, since the
# oldest packages have no wheels for newer ones. EXTRAS names what is installed, and RESOLUTIONS=lowest-direct leaves
# out the highest versions. The environments lie in build/versions.
set -euo pipefail
cd "$(dirname "$0")/../.."
read -r -a pythons <<< "${PYTHONS:-3.11 3.12 3.13}"
quick="$(sed -n 's/^SLOW_MARKERS := //p' Makefile | sed 's/ / or /g')"
status=0

check() { # PYTHON RESOLUTION [PYTEST ARGUMENTS]
  local environment="build/versions/$1-$2"
  uv venv --quiet --clear --python "$1" "$environment"
  uv pip install --quiet --resolution "$2" --python "$environment/bin/python" -e ".[${EXTRAS:-test}]"
  "$environment/bin/python" scripts/link_packages.py
  echo "== Python $1, $2: $(du -sm "$environment" | cut -f1) MB"
  "$environment/bin/pytest" -m "not ($quick)" "${@:3}" || status=1
}

check "${pythons[0]}" lowest-direct "$@"
if [ "${RESOLUTIONS:-}" != lowest-direct ]; then
  for python in "${pythons[@]}"; do check "$python" highest "$@"; done
fi
exit $status
