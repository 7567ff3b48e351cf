"""The library's rows by seed, written into the tables that Django made, and read back as they stand."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from generators.worlds.webapps.sqlite_files import overwrite

COUNTRIES = ("Belgium", "Finland", "Ghana", "Japan", "Peru", "Portugal")
GENRES = ("crime", "history", "poetry", "science", "travel")
FIRST = ("Aino", "Bruno", "Carla", "Dario", "Elif", "Femi", "Greta", "Hiro", "Ilse", "Jorge", "Kofi", "Lotte")
LAST = ("Aalto", "Bonsu", "Cruz", "Duarte", "Endo", "Forsell", "Gomes", "Haak", "Ito", "Janssen", "Kivi", "Lopes")
ADJECTIVES = ("Silent", "Hidden", "Northern", "Broken", "Golden", "Last", "Distant", "Salted")
NOUNS = ("River", "Lantern", "Harbour", "Orchard", "Compass", "Winter", "Bridge", "Letter")
READERS = ("M. Adler", "P. Brandt", "S. Conti", "T. Dahl", "U. Ekman", "V. Ferreira")
USERS = ("anna", "bert", "cleo", "dora", "erik", "fred")
GROUPS = ("Archivists", "Front desk", "Volunteers")
AUTHORS, BOOKS, LOANS = 10, 18, 12
ADMIN_ID = 1


def make_rows(seed: int) -> dict[str, list[tuple[Any, ...]]]:
    """{table: rows}, each row as its table's columns stand in `COLUMNS`."""
    rng = Random(f"django_admin/{seed}")
    names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], AUTHORS)
    authors = [(at, name, rng.choice(COUNTRIES), rng.randrange(1920, 1995)) for at, name in enumerate(names, 1)]
    # short enough for one line in any font: the middle of a link that wraps may lie beside its words
    titles = rng.sample([f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS], BOOKS)
    # Each genre at least once, the others drawn.
    genres = [*GENRES, *(rng.choice(GENRES) for _ in range(BOOKS - len(GENRES)))]
    books = [
        (
            at,
            title,
            genre,
            rng.randrange(1950, 2024),
            rng.randrange(1, 9),
            # The first book is never available, so that some genre has one that isn't.
            int(at > 1 and rng.random() < 0.8),
            rng.randint(1, AUTHORS),
        )
        for at, (title, genre) in enumerate(zip(titles, genres), 1)
    ]
    lent = rng.sample(range(3, BOOKS + 1), LOANS)  # the first two are lent to nobody, so they can be deleted
    loans = [
        # Eight loans are out, four are back.
        (at, rng.choice(READERS), f"2026-{rng.randrange(2, 7):02d}-{rng.randrange(1, 29):02d}", int(at > 8), book)
        for at, book in enumerate(lent, 1)
    ]
    groups = [(at, name) for at, name in enumerate(GROUPS, 1)]
    users = [(ADMIN_ID + at, name, name.title(), f"{name}@library.test") for at, name in enumerate(USERS, 1)]
    members = [(at, user[0], rng.randint(1, len(GROUPS))) for at, user in enumerate(users[:3], 1)]
    return {"authors": authors, "books": books, "loans": loans, "groups": groups, "users": users, "members": members}


_INSERTS = {
    "authors": "insert into library_author (id, name, country, born) values (?, ?, ?, ?)",
    "books": "insert into library_book (id, title, genre, published, copies, available, author_id)"
    " values (?, ?, ?, ?, ?, ?, ?)",
    "loans": "insert into library_loan (id, reader, due, returned, book_id) values (?, ?, ?, ?, ?)",
    "groups": "insert into auth_group (id, name) values (?, ?)",
    "users": "insert into auth_user (id, username, first_name, email, last_name, password, is_superuser, is_staff,"
    " is_active, date_joined) values (?, ?, ?, ?, '', '!', 0, 0, 1, '2025-06-01 08:00:00')",
    "members": "insert into auth_user_groups (id, user_id, group_id) values (?, ?, ?)",
}


def write(path: Path, schema: Path, seed: int) -> None:
    """Write the snapshot of a seed: Django's tables and permissions (`schema`), and the rows."""
    # Over the file in use, under SQLite's locks.
    overwrite(schema, path)
    with closing(sqlite3.connect(path)) as database, database:
        for table, rows in make_rows(seed).items():
            database.executemany(_INSERTS[table], rows)


_TABLES = {
    "authors": "select name as key, id, name, country, born from library_author order by id",
    "books": "select b.title as key, b.id, b.title, a.name as author, b.genre, b.published, b.copies, b.available"
    " from library_book b join library_author a on a.id = b.author_id order by b.id",
    "loans": "select l.id as key, l.id, b.title as book, l.reader, l.due, l.returned"
    " from library_loan l join library_book b on b.id = l.book_id order by l.id",
    "users": "select username as key, id, username, first_name, last_name, email, is_staff, is_superuser, is_active,"
    " password like '!%' as no_password from auth_user order by id",
    "groups": "select name as key, id, name from auth_group order by id",
}
_LINKS = {
    ("users", "groups"): "select u.username, g.name from auth_user_groups l join auth_user u on u.id = l.user_id"
    " join auth_group g on g.id = l.group_id order by 1, 2",
    ("users", "permissions"): "select u.username, p.codename from auth_user_user_permissions l"
    " join auth_user u on u.id = l.user_id"
    " join auth_permission p on p.id = l.permission_id order by 1, 2",
    ("groups", "permissions"): "select g.name, p.codename from auth_group_permissions l"
    " join auth_group g on g.id = l.group_id"
    " join auth_permission p on p.id = l.permission_id order by 1, 2",
}


def read(path: Path) -> dict[str, dict[str, object]]:
    """{table: {name of a row: its columns}}; who is in which group, and who may do what, stand with their row. Times
    of sign-in and joining are left out: they pass by themselves."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as database:
        database.row_factory = sqlite3.Row
        found = {table: _by_name(map(dict, database.execute(query))) for table, query in _TABLES.items()}
        for (table, column), query in _LINKS.items():
            for row in found[table].values():
                row[column] = []
            for owner, other in database.execute(query):
                found[table][owner][column].append(other)
    return found


def _by_name(rows: Iterable[Mapping[str, object]]) -> dict[str, Any]:
    # `key` only names the row.
    return {str(row["key"]): {key: value for key, value in row.items() if key != "key"} for row in rows}
