"""Texts as LaTeX that compiles: signs as formulas, and what LaTeX refuses in another form."""

from __future__ import annotations

import re

from ...datasets.errors import escape_controls


def break_signature(signature: str) -> str:
    """Return a signature or the name of a file, which are long, with places to break it."""
    escaped = escape_latex(signature).replace(r"\textbar{}", r"\textbar\allowbreak{}")
    for sign in (":", "/", r"\_"):
        escaped = escaped.replace(sign, rf"{sign}\allowbreak{{}}")
    return escaped


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "η": r"$\eta$",
    "θ": r"$\theta$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "ν": r"$\nu$",
    "π": r"$\pi$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "φ": r"$\varphi$",
    "χ": r"$\chi$",
    "ω": r"$\omega$",
    "Σ": r"$\Sigma$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "→": r"$\to$",
    "≈": r"$\approx$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "█": r"\rule{2pt}{6pt}",
}


#: Runs of characters that pdfLaTeX does not know without further packages: other scripts, symbols, pictures.
_UNKNOWN = re.compile("[^\x00-\x7e\xa0-\u017e–—‘’“”…•†‡€™]+|[«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲų]+")


def _show_unknown(match: re.Match[str]) -> str:
    """Return characters for XeLaTeX and LuaLaTeX, which know all, and their codes for pdfLaTeX, which would stop."""
    codes = " ".join(f"U+{ord(character):04X}" for character in match[0])
    return rf"\ifdefined\Umathchar {match[0]}\else {codes}\fi{{}}"


def escape_latex(text: str) -> str:
    """Escape text for LaTeX; Greek letters and signs become formulas, and so do τ_a, τ_b, τ_c and τ_X-YZ.

    Control characters are shown by their code, as LaTeX refuses some, and others turn the direction of the text; so are
    characters that pdfLaTeX does not know.
    """
    escaped = "".join(_LATEX.get(char, char) for char in escape_controls(text))
    escaped = _UNKNOWN.sub(_show_unknown, escaped)
    escaped = re.sub(r"\$\\tau\$\\_([abc])\b", r"$\\tau_\1$", escaped)
    # The virtual raters of Scott et al. 2023, and their levels that count as one.
    escaped = re.sub(
        r"\$(\\tau|\\kappa)\$\\_([XYZ]-[XYZ]{2}|\d=\d)", r"$\1$\\textsubscript{\2}", escaped
    )
    # At the start of a row these would be arguments of the line break before it.
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped
