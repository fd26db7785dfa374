"""The site's pages of commands, made of the registry and of the options' declarations."""

from __future__ import annotations

from docs_text import ROOT, code, escaped, linked, plain, table

from captau.benchmarks.cli.help import paragraphs
from captau.benchmarks.cli.registry import COMMANDS
from captau.benchmarks.options.declaration import NEEDED, Option
from captau.benchmarks.scoring.catalog import read_config
from captau.conf import group

#: Config groups without a default that need not be chosen.
OPTIONAL_GROUPS = {"validate": "dataset", "data verify": "dataset"}


def slug(command: str) -> str:
    return command.replace(" ", "_")


def commands_index() -> str:
    rows = [
        (f"[`captau {name}`]({slug(name)}.md)", command.summary)
        for name, command in COMMANDS.items()
    ]
    return (
        "# Commands\n\nAll commands have the form `captau COMMAND key=value …`, with Hydra's override grammar. Quote "
        "arguments that contain brackets or blanks: `'metrics=cider(df=FILE)'`.\n\n"
        + table(("command", "does"), rows)
        + "\n"
        + table(
            ("flag", "does"),
            [
                ("`--help`", "explains a command"),
                ("`--cfg job`", "shows the resolved options and runs nothing"),
                (
                    "`--multirun`",
                    "runs every combination of comma-separated values, each in its own folder",
                ),
                ("`--shell-completion install=bash`", "turns on completion in bash, zsh or fish"),
                ("`--version`", "prints captau's version"),
            ],
        )
        + "\nThe exit status is 0 after success; 1 if a check failed, or after a bug in captau; 2 if an option or "
        "a file is wrong, which one line on stderr explains; and 130 after Ctrl-C.\n"
    )


def command_page(name: str) -> str:
    command = COMMANDS[name]
    parts = [f"# captau {name}", f"{command.summary[:1].upper()}{command.summary[1:]}."]
    if examples := command.options.examples.strip():
        parts.append(code("\n".join(map(example, examples.splitlines()))))
    parts += [linked(escaped(text)) for text in paragraphs(command.options.notes)]
    rows = [
        (f"`{option.key}`", default_of(name, option), linked(escaped(option.help_text)))
        for option in command.declared()
    ]
    parts.append("## Options\n\n" + table(("option", "default", "meaning"), rows))
    if name == "train":
        parts.append(rater_options())
    parts += [linked(escaped(text)) for text in paragraphs(command.options.writes)]
    if command.options.objective:
        parts.append(
            linked(
                f"Sweepers that optimise get this value (docs/clusters.md): {command.options.objective}."
            )
        )
    return "\n\n".join(parts)


def example(line: str) -> str:
    """Return an example, its remark (behind two blanks) as a comment before it."""
    command, _, remark = line.partition("  ")
    return f"# {remark.strip()}\n{command}" if remark else command


def default_of(command: str, option: Option) -> str:
    is_chosen = not option.config_group or OPTIONAL_GROUPS.get(command) == option.config_group
    if option.default == NEEDED or (option.default is None and not is_chosen):
        return "needed"
    return "–" if option.default is None else plain(option.default)


def rater_options() -> str:
    """The options of each rater, from its file."""
    parts = [
        "## Raters\n\n`rater.OPTION=` sets an option of the chosen rater. The column `demo` has the defaults for the demo."
    ]
    for name in group("rater"):
        options = dict(read_config("rater", name))
        on_demo = options.pop("demo", {})
        text = (ROOT / "conf" / "rater" / f"{name}.yaml").read_text(encoding="utf-8")
        remark = " ".join(
            line.removeprefix("#").strip()
            for line in text.split("\nname:")[0].splitlines()
            if "@package" not in line
        )
        rows = [
            (f"`rater.{k}`", plain(v), plain(on_demo[k]) if k in on_demo else "")
            for k, v in options.items()
            if k != "name"
        ]
        parts.append(
            f"### {name}\n\n{linked(remark)}\n\n{table(('option', 'default', 'demo'), rows)}"
        )
    return "\n\n".join(parts)
