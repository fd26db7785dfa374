"""YAML as nodes that know their lines; `yaml_fields` and `regression` read files with it."""

from __future__ import annotations

import yaml

#: The deepest nesting; the most values, each counted as often as aliases repeat it; and the most characters.
MAX_DEPTH, MAX_NODES, MAX_CHARACTERS = 50, 100_000, 2_000_000


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


class _BoundedLoader(yaml.SafeLoader):
    """A loader that ends at too many values, before they have taken seconds and memory."""

    n_nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.n_nodes += 1
        if self.n_nodes > MAX_NODES:
            raise MalformedYamlError("too many values", self.line + 1)
        return super().compose_node(parent, index)


def compose_yaml(text: str) -> yaml.Node | None:
    """Return the root node of a text; None where it is empty.

    Raises:
        MalformedYamlError: where it is no YAML.
    """
    if len(text) > MAX_CHARACTERS:
        raise MalformedYamlError(f"more than {MAX_CHARACTERS:,} characters", 1)
    try:
        root = yaml.compose(text, Loader=_BoundedLoader)
        _check_size(root)
        return root
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


def _check_size(root: yaml.Node | None) -> None:
    """Check that a text is nested as people nest, aliases followed, so that readers may recurse and quote it.

    Raises:
        MalformedYamlError: where it is nested too deeply, or aliases make it too large.
    """
    nodes = [] if root is None else [(root, 0)]
    n_nodes = 0
    while nodes:
        node, depth = nodes.pop()
        n_nodes += 1
        if depth > MAX_DEPTH or n_nodes > MAX_NODES:
            problem = "nested too deeply, or recursive" if depth > MAX_DEPTH else "too many values"
            raise MalformedYamlError(problem, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            nodes += [(child, depth + 1) for child in node.value]
        elif isinstance(node, yaml.MappingNode):
            nodes += [(child, depth + 1) for pair in node.value for child in pair]
