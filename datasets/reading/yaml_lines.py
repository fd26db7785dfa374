"""YAML as nodes that know their lines; `yaml_fields` and `regression` read files with it."""

from __future__ import annotations

import yaml


class MalformedYamlError(ValueError):
    """A text is no YAML.

    Attributes:
        problem: what is wrong, in one line.
        line: where, from 1.
    """

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(f"{line}: {problem}")
        self.problem = problem
        self.line = line


def compose_yaml(text: str) -> yaml.Node | None:
    """Return the root node of a text; None where it is empty.

    Raises:
        MalformedYamlError: where it is no YAML.
    """
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join((error.problem or "not YAML").split())
        raise MalformedYamlError(problem, mark.line + 1 if mark else 1) from error
    except yaml.reader.ReaderError as error:
        # Of a text that was decoded already, the position is that of a character.
        line = text.count("\n", 0, error.position) + 1
        problem = f"YAML does not allow the character U+{error.character:04X}; take it out"
        raise MalformedYamlError(problem, line) from error
    except RecursionError as error:
        raise MalformedYamlError("nested too deeply", 1) from error
