"""Ten tasks in the library's admin, for any seed: add, change, delete, filter, search, bulk actions, users, groups."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from generators.worlds.webapps.django_admin.django_admin_world import NAME
from generators.worlds.webapps.django_admin.snapshot import ADMIN_ID, AUTHORS, COUNTRIES, GROUPS, USERS, make_rows
from generators.worlds.webapps.evaluate import Check, answered, value
from generators.worlds.webapps.web_app_task import AppTask, Data, Intent, Made, seeded_tasks

NEW_AUTHORS = ("Mina Okafor", "Piet Verhoeven", "Salla Rinne", "Tomás Ibarra")
NEW_USERS = ("gwen", "hana", "ivan", "jose")
PICK = "Select this object for an action - "


def expected_data(seed: int) -> Data:
    """What `snapshot.read` gives of a seed's snapshot."""
    rows = make_rows(seed)
    names = {at: name for at, name, *_ in rows["authors"]}
    titles = {at: title for at, title, *_ in rows["books"]}
    groups = dict(rows["groups"])
    joined = {user: groups[group] for _, user, group in rows["members"]}
    people = [
        # Groups as names, as the database joins them.
        _user(at, name, first, email, groups=[joined[at]] if at in joined else [])
        for at, name, first, email in rows["users"]
    ]
    admin = _user(ADMIN_ID, "admin", "Ada", "", is_staff=1, is_superuser=1)
    columns = ("id", "title", "author", "genre", "published", "copies", "available")
    return {
        "authors": {
            name: {"id": at, "name": name, "country": country, "born": born}
            for at, name, country, born in rows["authors"]
        },
        "books": {
            title: dict(zip(columns, (at, title, names[author], genre, year, copies, available)))
            for at, title, genre, year, copies, available, author in rows["books"]
        },
        "loans": {
            str(at): {"id": at, "book": titles[book], "reader": reader, "due": due, "returned": returned}
            for at, reader, due, returned, book in rows["loans"]
        },
        "users": {user["username"]: user for user in (admin, *people)},
        "groups": {name: {"id": at, "name": name, "permissions": []} for at, name in rows["groups"]},
    }


def _user(at: int, name: str, first: str, email: str, **more: object) -> dict[str, Any]:
    return {
        "id": at,
        "username": name,
        "first_name": first,
        "last_name": "",
        "email": email,
        "is_staff": 0,
        "is_superuser": 0,
        "is_active": 1,
        "no_password": 1,
        "groups": [],
        "permissions": [],
        **more,
    }


def _list_of(model: str, rows: Sequence[dict[str, object]]) -> list[Check]:
    """The admin lists exactly these rows, in its own order."""
    return [value(("view", "model"), model), value(("view", "ids"), [str(row["id"]) for row in rows])]


def _books(data: Data) -> list[dict[str, Any]]:
    return sorted(data["books"].values(), key=lambda row: row["title"])


def add_author(data: Data, rng: Random) -> Made:
    name, country, born = rng.choice(NEW_AUTHORS), rng.choice(COUNTRIES), rng.randrange(1930, 2000)
    row = {"id": AUTHORS + 1, "name": name, "country": country, "born": born}
    plan: list[Intent] = [
        ("click", "link", "Authors"),
        ("click", "link", "ADD AUTHOR"),
        ("click", "textbox", "Name:"),
        ("type", name),
        ("click", "textbox", "Country:"),
        ("type", country),
        ("click", "spinbutton", "Born:"),
        ("type", str(born)),
        ("click", "button", "Save"),
    ]
    goal = f"Add the author {name} from {country}, born in {born}, to the library."
    return goal, [value(("data", "authors", name), row)], plan, [("authors", name)]


def change_copies(data: Data, rng: Random) -> Made:
    # Of the first dozen: they show without paging or scrolling.
    row = rng.choice(_books(data)[:12])
    copies = row["copies"] + rng.randrange(1, 9)
    plan: list[Intent] = [
        ("click", "link", "Books"),
        ("click", "link", row["title"]),
        ("click", "spinbutton", "Copies:"),
        ("key", "ctrl", "a"),
        ("type", str(copies)),
        ("click", "button", "Save"),
    ]
    goal = f"The library now has {copies} copies of “{row['title']}”. Correct the entry of the book."
    key = ("data", "books", row["title"], "copies")
    return goal, [value(key, copies)], plan, [key[1:]]


# A book that is lent can't be deleted: its loan would refuse.
def delete_book(data: Data, rng: Random) -> Made:
    lent = {row["book"] for row in data["loans"].values()}
    row = rng.choice([row for row in _books(data)[:12] if row["title"] not in lent])
    plan: list[Intent] = [
        ("click", "link", "Books"),
        ("click", "link", row["title"]),
        ("click", "link", "Delete"),
        ("click", "button", "Yes, I’m sure"),
    ]
    goal = f"Delete the book “{row['title']}” from the library."
    return goal, [value(("data", "books", row["title"]), None)], plan, [("books", row["title"])]


def filter_books(data: Data, rng: Random) -> Made:
    # A genre with a book that isn't available, so that both filters matter.
    genre = rng.choice(sorted({row["genre"] for row in _books(data) if not row["available"]}))
    rows = [row for row in _books(data) if row["genre"] == genre and row["available"]]
    plan: list[Intent] = [("click", "link", "Books"), ("click", "link", genre.title()), ("click", "link", "Yes")]
    return f"List only the library's {genre} books that are available.", _list_of("book", rows), plan, ()


def search_books(data: Data, rng: Random) -> Made:
    word = rng.choice(sorted({row["title"].split()[-1] for row in _books(data)}))
    # Django searches titles and authors.
    rows = [row for row in _books(data) if word.lower() in f"{row['title']} {row['author']}".lower()]
    plan: list[Intent] = [("click", "link", "Books"), ("click", "textbox", ""), ("type", word), ("key", "enter")]
    return f"Search the library's books for the word {word}.", _list_of("book", rows), plan, ()


def take_back_loans(data: Data, rng: Random) -> Made:
    # Loans of one reader, all of them.
    out = [row for row in data["loans"].values() if not row["returned"]]
    readers = sorted({row["reader"] for row in out})
    reader = rng.choice(readers)
    rows = [row for row in out if row["reader"] == reader]
    boxes = [("click", "checkbox", f"{PICK}{row['book']} to {reader}") for row in rows]
    plan: list[Intent] = [
        ("click", "link", "Loans"),
        *boxes,
        ("click", "combobox", "Action:"),
        ("type", "Take"),
        ("key", "enter"),
        ("click", "button", "Go"),
    ]
    keys = [("loans", str(row["id"]), "returned") for row in rows]
    goal = f"{reader} has brought everything back: take back all open loans of {reader} in the library's admin."
    return goal, [value(("data", *key), 1) for key in keys], plan, keys


def count_loans(data: Data, rng: Random) -> Made:
    out = sum(not row["returned"] for row in data["loans"].values())
    # The complement and the total are the usual mistakes.
    refused = [str(len(data["loans"]) - out), str(len(data["loans"]))]
    plan: list[Intent] = [("click", "link", "Loans"), ("click", "link", "No"), ("answer", str(out))]
    goal = "How many loans of the library haven't been returned? Tell me the number."
    return goal, [answered(str(out), refused=refused)], plan, ()


def make_staff(data: Data, rng: Random) -> Made:
    name = rng.choice(USERS)
    plan: list[Intent] = [
        ("click", "link", "Users"),
        ("click", "link", name),
        ("click", "checkbox", "Staff status"),
        ("key", "end"),
        ("click", "button", "Save"),
    ]
    key = ("data", "users", name, "is_staff")
    return f"Let the user {name} sign in to the admin: give them staff status.", [value(key, 1)], plan, [key[1:]]


def join_group(data: Data, rng: Random) -> Made:
    # People in no group yet: the first three are in one.
    name, group = rng.choice(USERS[3:]), rng.choice(GROUPS)
    plan: list[Intent] = [
        ("click", "link", "Users"),
        ("click", "link", name),
        ("scroll", "down"),
        ("click", "option", group),
        ("click", "button", "Choose selected groups"),
        ("key", "end"),
        ("click", "button", "Save"),
    ]
    key = ("data", "users", name, "groups")
    return f"Put the user {name} into the group {group}.", [value(key, [group])], plan, [key[1:]]


def add_user(data: Data, rng: Random) -> Made:
    name = rng.choice(NEW_USERS)
    # The next free id, which the database will give.
    row = _user(ADMIN_ID + len(USERS) + 1, name, "", "")
    plan: list[Intent] = [
        ("click", "link", "Users"),
        ("click", "link", "ADD USER"),
        ("click", "textbox", "Username:"),
        ("type", name),
        ("click", "radio", "Disabled"),
        ("click", "button", "Save"),
    ]
    goal = f"Add a user named {name} who has no password (password-based authentication disabled)."
    return goal, [value(("data", "users", name), row)], plan, [("users", name)]


FAMILIES: tuple[Callable[[Data, Random], Made], ...] = (
    add_author,
    change_copies,
    delete_book,
    filter_books,
    search_books,
    take_back_loans,
    count_loans,
    make_staff,
    join_group,
    add_user,
)


def make_tasks(seed: int) -> tuple[AppTask, ...]:
    """One task of every family on the snapshot of a seed."""
    return seeded_tasks(NAME, FAMILIES, expected_data(seed), seed)
