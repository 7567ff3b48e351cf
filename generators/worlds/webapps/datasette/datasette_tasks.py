"""Ten tasks on the shop's data, for any seed: every answer is read from the snapshot, never written down."""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from generators.worlds.webapps.datasette.datasette_world import NAME, members
from generators.worlds.webapps.datasette.snapshot import PRIORITIES, STATUSES, TICKETS, build, read
from generators.worlds.webapps.evaluate import Check, answered, value
from generators.worlds.webapps.web_app_task import AppTask, Data, Intent, Made, seeded_tasks

ORDERS: tuple[Intent, ...] = (("click", "link", "shop"), ("click", "link", "orders"))
PRODUCTS: tuple[Intent, ...] = (("click", "link", "shop"), ("click", "link", "products"))
NEW_SUBJECTS = ("Zip is stuck", "Lid doesn't fit", "Manual in Dutch, please", "Lamp flickers")


def _rows(data: Data, table: str) -> list[dict[str, Any]]:
    return list(data[table].values())


def _shows(table: str, rows: Sequence[dict[str, object]]) -> list[Check]:
    """The table is shown with these rows and no others, in any order."""
    return [value(("view", "table"), table), value(("view", "members"), members([str(row["id"]) for row in rows]))]


def _in_order(table: str, rows: Sequence[dict[str, object]]) -> list[Check]:
    return [value(("view", "table"), table), value(("view", "ids"), [str(row["id"]) for row in rows])]


def count_status(data: Data, rng: Random) -> Made:
    counts = Counter(row["status"] for row in _rows(data, "orders"))
    status = rng.choice(STATUSES)
    count = str(counts[status])
    # Other statuses' counts are wrong answers, unless they are the same number.
    others = sorted({str(n) for n in counts.values()} - {count})
    goal = f"How many orders of the shop have the status {status}? Tell me the number."
    return goal, [answered(count, refused=others)], [*ORDERS, ("answer", count)], ()


def show_status(data: Data, rng: Random) -> Made:
    status = rng.choice(STATUSES)
    rows = [row for row in _rows(data, "orders") if row["status"] == status]
    # The link of a cell filters by its value.
    goal = f"In the shop's table of orders, show only those with the status {status}."
    return goal, _shows("orders", rows), [*ORDERS, ("click", "link", status)], ()


def sort_products(data: Data, rng: Random) -> Made:
    rows = sorted(_rows(data, "products"), key=lambda row: -row["price"])
    goal = "Show the shop's products sorted by price, the dearest first."
    # A second click on the column turns the order around.
    return goal, _in_order("products", rows), [*PRODUCTS, ("click", "link", "price"), ("click", "link", "price ▼")], ()


def search_products(data: Data, rng: Random) -> Made:
    material = rng.choice(sorted({row["material"] for row in _rows(data, "products")}))
    rows = [row for row in _rows(data, "products") if row["material"] == material]
    plan = [*PRODUCTS, ("click", "searchbox", "Search:"), ("type", material), ("key", "enter")]
    return f"Search the shop's products for the word {material}.", _shows("products", rows), plan, ()


def facet_products(data: Data, rng: Random) -> Made:
    goal = "Have Datasette count the shop's products by material: add material as a facet of the table."
    checks = [value(("view", "table"), "products"), value(("view", "facets"), ["category", "material"])]
    return goal, checks, [*PRODUCTS, ("click", "link", "material", "1")], ()


def largest_order(data: Data, rng: Random) -> Made:
    rows = sorted(_rows(data, "orders"), key=lambda row: -row["total"])
    names = {row["id"]: row["name"] for row in _rows(data, "customers")}
    # All customers who share the highest total are right.
    best = dict.fromkeys(names[row["customer_id"]] for row in rows if row["total"] == rows[0]["total"])
    refused = sorted(set(names.values()) - set(best))
    plan = [*ORDERS, ("click", "link", "total"), ("click", "link", "total ▼"), ("answer", next(iter(best)))]
    goal = "Which customer placed the order with the highest total? Tell me the name."
    return goal, [answered(*best, refused=refused)], plan, ()


def filter_total(data: Data, rng: Random) -> Made:
    # Some orders lie above each of these.
    least = rng.choice((200, 300, 400))
    rows = [row for row in _rows(data, "orders") if row["total"] > least]
    plan: list[Intent] = [
        *ORDERS,
        ("click", "combobox", "", "1"),
        ("type", "total"),
        ("key", "enter"),
        ("click", "combobox", "", "2"),
        ("type", ">"),
        ("key", "enter"),
        ("click", "textbox", "", "1"),
        ("type", str(least)),
        ("click", "button", "Apply"),
    ]
    return f"Filter the shop's orders to those with a total of more than {least}.", _shows("orders", rows), plan, ()


def sql_count(data: Data, rng: Random) -> Made:
    quantity = rng.choice((2, 3, 4))
    count = sum(row["quantity"] > quantity for row in _rows(data, "orders"))
    goal = (
        "Write an SQL query for the shop's database that gives one number, the count of orders of more than "
        f"{quantity} pieces; run it and tell me the number."
    )
    plan: list[Intent] = [
        ("click", "link", "shop"),
        ("click", "text", "select"),
        ("key", "ctrl", "a"),
        ("type", f"select count(*) from orders where quantity > {quantity}"),
        ("click", "button", "Run SQL"),
        ("answer", str(count)),
    ]
    return goal, [value(("view", "rows"), [[count]]), answered(str(count))], plan, ()


def add_ticket(data: Data, rng: Random) -> Made:
    subject, priority, key = rng.choice(NEW_SUBJECTS), rng.choice(PRIORITIES), str(TICKETS + 1)
    row = {"id": TICKETS + 1, "subject": subject, "priority": priority, "open": 1}
    plan: list[Intent] = [
        ("click", "link", "shop"),
        ("click", "link", "Add a ticket"),
        ("click", "textbox", "subject"),
        ("type", subject),
        ("click", "textbox", "priority"),
        ("type", priority),
        ("click", "button", "Run SQL"),
    ]
    goal = f"Add a ticket to the shop's database with the subject “{subject}” and the priority {priority}."
    return goal, [value(("data", "tickets", key), row)], plan, [("tickets", key)]


def close_ticket(data: Data, rng: Random) -> Made:
    row = rng.choice([row for row in _rows(data, "tickets") if row["open"]])
    key = str(row["id"])
    plan: list[Intent] = [
        ("click", "link", "shop"),
        ("scroll", "down"),
        # The table of tickets says which id the subject has.
        ("click", "link", "tickets"),
        ("click", "link", "shop"),
        ("click", "link", "Close a ticket"),
        # The form asks for the id, which only the table tells.
        ("click", "textbox", "id"),
        ("type", key),
        ("click", "button", "Run SQL"),
    ]
    goal = f"Close the ticket “{row['subject']}” of the shop's database."
    return goal, [value(("data", "tickets", key), {**row, "open": 0})], plan, [("tickets", key)]


FAMILIES: tuple[Callable[[Data, Random], Made], ...] = (
    count_status,
    show_status,
    sort_products,
    search_products,
    facet_products,
    largest_order,
    filter_total,
    sql_count,
    add_ticket,
    close_ticket,
)


@cache
# Read back from a real database, so that types and rounding are the app's.
def _snapshot(seed: int) -> Data:
    with tempfile.TemporaryDirectory(prefix="vesper-datasette-") as folder:
        path = Path(folder) / "shop.db"
        build(path, seed)
        return read(path)


def make_tasks(seed: int) -> tuple[AppTask, ...]:
    """One task of every family on the snapshot of a seed."""
    return seeded_tasks(NAME, FAMILIES, _snapshot(seed), seed)
