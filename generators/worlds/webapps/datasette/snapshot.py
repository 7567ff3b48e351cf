"""The shop's database, made by seed: customers, products, orders, and the tickets of its help desk."""

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

STATUSES = ("paid", "shipped", "returned", "cancelled")
PRIORITIES = ("low", "normal", "urgent")
CATEGORIES = {
    "Garden": ("Watering can", "Rake", "Bird house", "Plant pot", "Hose reel"),
    "Kitchen": ("Kettle", "Bread knife", "Salad bowl", "Toaster", "Pepper mill"),
    "Office": ("Desk lamp", "Stapler", "Paper tray", "Footrest", "Whiteboard"),
    "Travel": ("Rucksack", "Neck pillow", "Suitcase", "Rain cover", "Flask"),
}
MATERIALS = ("oak", "steel", "bamboo", "cork", "linen", "copper")
CITIES = {
    "Ghent": "Belgium",
    "Porto": "Portugal",
    "Bergen": "Norway",
    "Graz": "Austria",
    "Turku": "Finland",
    "Lyon": "France",
}
FIRST = ("Mira", "Paul", "Lena", "Otto", "Ines", "Hugo", "Nora", "Emil", "Ruth", "Jonas", "Clara", "Viktor")
LAST = ("Stone", "Berg", "Fox", "Lang", "Moreau", "Costa", "Holm", "Weiss", "Vega", "Novak", "Dale", "Quist")
SUBJECTS = (
    "Parcel is late",
    "Wrong colour",
    "Invoice missing",
    "Handle broke",
    "Change of address",
    "Refund not booked",
    "Cannot log in",
    "Gift card empty",
)
CUSTOMERS, ORDERS, TICKETS = 24, 120, 6
SCHEMA = """
create table customers (id integer primary key, name text, city text, country text);
create table products (id integer primary key, name text, category text, material text, price real);
create table orders (id integer primary key, customer_id integer references customers(id),
  product_id integer references products(id), quantity integer, total real, status text, ordered_on text);
create table tickets (id integer primary key, subject text, priority text, open integer);
create virtual table products_fts using fts5(name, material, category, content="products", content_rowid="id");
"""


def build(path: Path, seed: int) -> None:
    """Write the snapshot of a seed to a new file."""
    rng = Random(f"datasette/{seed}")
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        # Names without repetition: an answer names one customer.
        names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], CUSTOMERS)
        cities = [rng.choice(sorted(CITIES)) for _ in names]
        customers = [(at, name, city, CITIES[city]) for at, (name, city) in enumerate(zip(names, cities), 1)]
        database.executemany("insert into customers values (?, ?, ?, ?)", customers)
        goods = [
            (f"{noun} {rng.choice('ABCDEFGH')}{rng.randrange(10, 99)}", category)
            for category, nouns in CATEGORIES.items()
            for noun in nouns
        ]
        rng.shuffle(goods)
        # Prices differ, so that sorting by price has one order.
        prices = rng.sample(range(450, 19900, 5), len(goods))
        products = [
            (at, name, category, rng.choice(MATERIALS), price / 100)
            for at, ((name, category), price) in enumerate(zip(goods, prices), 1)
        ]
        database.executemany("insert into products values (?, ?, ?, ?, ?)", products)
        database.execute("insert into products_fts(products_fts) values ('rebuild')")
        database.executemany("insert into orders values (?, ?, ?, ?, ?, ?, ?)", _orders(rng, products))
        subjects = rng.sample(SUBJECTS, TICKETS)
        tickets = [
            (at, subject, rng.choice(PRIORITIES), int(rng.random() < 0.7)) for at, subject in enumerate(subjects, 1)
        ]
        tickets[0] = (*tickets[0][:3], 1)  # one is open, whatever the seed
        database.executemany("insert into tickets values (?, ?, ?, ?)", tickets)


def _orders(rng: Random, products: list[tuple[int, str, str, str, float]]) -> list[tuple[Any, ...]]:
    rows = []
    for at in range(1, ORDERS + 1):
        product, quantity = rng.choice(products), rng.randrange(1, 6)
        day = f"2025-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
        # In hundredths, as money is.
        total = round(product[4] * quantity, 2)
        rows.append((at, rng.randrange(1, CUSTOMERS + 1), product[0], quantity, total, rng.choice(STATUSES), day))
    return rows


def read(path: Path) -> dict[str, dict[str, object]]:
    """All tables: {table: {id: {column: value}}}. What is there twice can't be, as ids are keys."""
    # Read only: looking can't lock the server out.
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as database:
        database.row_factory = sqlite3.Row
        return {
            table: {str(row["id"]): dict(row) for row in database.execute(f"select * from {table} order by id")}
            for table in ("customers", "products", "orders", "tickets")
        }
