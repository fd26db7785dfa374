"""Migration of a database to the newest tables; a copy of an older database is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from ...datasets.errors import InputError
from .database_url import display_name, is_sqlite, sqlite_path

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory


class OutdatedTablesError(InputError):
    """A database has the tables of another version of captau."""


def check_revision(engine: Engine, migrations: Path) -> None:
    """Check that a database has the newest tables.

    Raises:
        OutdatedTablesError: if it does not.
    """
    revision, _ = _read_revision(engine)
    newest = _read_scripts(migrations)[1].get_current_head()
    if revision != newest:
        raise OutdatedTablesError(f"{display_name(engine.url)}: tables {revision}, not {newest}")


def migrate(
    engine: Engine, migrations: Path, command_name: str, report: Callable[[str], None]
) -> None:
    """Create a database's tables, or bring them up to date.

    Args:
        engine: opens the database.
        migrations: the folder of the Alembic scripts.
        command_name: the command that the database belongs to, for messages.
        report: receives a line that says what was changed and where the copy is.

    Raises:
        InputError: if the database belongs to something else, or a newer captau wrote it.
    """
    from alembic import command

    config, script = _read_scripts(migrations)
    newest = script.get_current_head()
    name = display_name(engine.url)
    revision, tables = _read_revision(engine)
    if revision == newest:
        return
    if revision is None and tables:
        raise InputError(
            f"{name}: it holds {tables[0]} and is not a database of {command_name}; name another"
        )
    if revision is not None and revision not in {s.revision for s in script.walk_revisions()}:
        raise InputError(f"{name}: a newer captau wrote it (tables {revision}); update captau")
    changes = f"{name}: tables {revision} → {newest}"
    if revision is not None and is_sqlite(engine.url):
        copy = _copy_file(sqlite_path(engine.url), revision)
        report(f"{changes}; a copy of it as it was is {copy}")
    with engine.begin() as connection:
        if revision is not None and not is_sqlite(engine.url):
            schema = _copy_tables(connection, revision, tables)
            report(f"{changes}; a copy of them as they were is the schema {schema}")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _read_scripts(migrations: Path) -> tuple[Config, ScriptDirectory]:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrations))
    config.set_main_option("path_separator", "os")
    return config, ScriptDirectory.from_config(config)


def _read_revision(engine: Engine) -> tuple[str | None, list[str]]:
    """Return a database's revision, None if captau did not make it, and its tables."""
    from alembic.migration import MigrationContext

    with engine.connect() as connection:
        revision = MigrationContext.configure(connection).get_current_revision()
        return revision, connection.dialect.get_table_names(connection)


def _copy_file(path: Path, revision: str) -> Path:
    """Copy an SQLite database and return the copy."""
    copy = path.with_name(f"{path.name}.{revision}.backup")
    source, target = sqlite3.connect(path), sqlite3.connect(f"{copy}.tmp")
    with source, target:
        source.backup(target)
    source.close()
    target.close()
    Path(f"{copy}.tmp").replace(copy)
    return copy


def _copy_tables(c: Connection, revision: str, tables: Sequence[str]) -> str:
    """Copy PostgreSQL tables into a new schema and return its name.

    The copy belongs to the transaction that changes the tables: both happen, or neither.
    """
    schemas = c.dialect.get_schema_names(c)
    names = (f"captau_backup_{revision}{k}" for k in ("", *(f"_{n}" for n in range(2, 1000))))
    schema = next(name for name in names if name not in schemas)
    quote = c.dialect.identifier_preparer.quote
    c.exec_driver_sql(f"CREATE SCHEMA {schema}")
    for table in map(quote, tables):
        c.exec_driver_sql(f"CREATE TABLE {schema}.{table} AS TABLE {table}")
    return schema
