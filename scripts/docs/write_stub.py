"""Write captau/__init__.pyi, from which editors complete the functions that are made of options.

    python scripts/docs/write_stub.py

`tests/benchmarks/options/test_python_function.py` fails where the file is not what this writes.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import captau
from captau.benchmarks.cli.script_options import show_manual

STUB = Path(__file__).resolve().parents[2] / "captau" / "__init__.pyi"

#: The functions that options make, whose signatures no editor sees in the code.
FUNCTIONS = tuple(
    name for name in captau.__all__ if hasattr(getattr(captau, name), "__signature__")
)
_HEAD = '''"""The public names of captau, for editors and type checkers; scripts/docs/write_stub.py writes this file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from captau import compat as compat
from captau import testing as testing
from captau.benchmarks.commands.score import ScoreResults
from captau.benchmarks.options.score import Captions, References
from captau.benchmarks.reporting.printed_tables import PrintedTables
from captau.benchmarks.reporting.run_results import Results as Results
from captau.benchmarks.scoring.protocol import Protocol as Protocol
from captau.datasets.errors import InputError as InputError
from captau.datasets.registry import load as load
from captau.datasets.schema import CaptionSet as CaptionSet
from captau.metrics.base import Metric as Metric
from captau.metrics.external import MetricSource
from captau.metrics.external import metric as metric
from captau.metrics.registry import register as register
from captau.metrics.reward import reward as reward

__version__: str
'''


def make_stub() -> str:
    """Return the text of the stub."""
    names = "".join(f'    "{name}",\n' for name in captau.__all__)
    parts = [_HEAD, f"__all__ = [\n{names}]\n"]
    parts += [_declare(name) for name in FUNCTIONS]
    return "\n".join(parts)


def _declare(name: str) -> str:
    """Return a function's declaration: a keyword a line, and the docstring."""
    function = getattr(captau, name)
    signature = inspect.signature(function)
    lines = [f"def {name}("]
    has_star = False
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not has_star:
            lines.append("    *,")
            has_star = True
        default = ""
        if parameter.default is not inspect.Parameter.empty:
            default = f" = {_literal(parameter.default)}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{default},")
    lines.append(f") -> {signature.return_annotation}:")

    docstring = (function.__doc__ or "").replace("\\", r"\\")
    first, *others = docstring.rstrip().splitlines()
    lines.append(f'    """{first}')
    lines += [f"    {line}".rstrip() for line in others]
    lines += ['    """', ""]
    return "\n".join(lines)


def _literal(default: object) -> str:
    """Return a default as code, with double quotes."""
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, tuple):
        inside = ", ".join(map(_literal, default))
        return f"({inside},)" if len(default) == 1 else f"({inside})"
    return repr(default)


if __name__ == "__main__":
    show_manual(__doc__)
    STUB.write_text(make_stub(), encoding="utf-8")
    print(f"written: {STUB}")
