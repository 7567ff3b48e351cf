"""Families of tasks on the calculator (galculator). A family is a function Random -> DesktopTask."""

from math import factorial
from random import Random

from generators.worlds.desktop.desktop_task import Check, DesktopTask, Intent
from generators.worlds.desktop.making import closed

Plan = tuple[Intent, ...]
START = {"world": "desktop", "program": "galculator"}
SCIENTIFIC: Plan = (("click", "menu", "View"), ("click", "radio menu item", "Scientific Mode"))


def press(keys: str) -> Plan:
    """Clicks on buttons of one character each."""
    return tuple(("click", "toggle button", key) for key in keys)


def button(*names: str) -> Plan:
    return tuple(("click", "toggle button", name) for name in names)


def display(text: object) -> Check:
    return {"check": "window", "app": "galculator", "role": "text", "text": str(text)}


def _task(name: str, goal: str, plan: Plan, *checks: Check, near: Plan = ()) -> DesktopTask:
    return DesktopTask(name, goal, START, checks, plan, (name,), near)


def product(rng: Random) -> DesktopTask:
    a, b = rng.randint(12, 99), rng.randint(12, 99)
    return _task(
        "calculator.product",
        f"Use the calculator to work out {a} times {b}; leave the result on its display.",
        press(f"{a}*{b}="),
        display(a * b),
    )


def quotient(rng: Random) -> DesktopTask:
    b = rng.choice((2, 4, 5, 8))
    # With a remainder, so that the result has decimals; divisors whose results end.
    a = rng.choice([n for n in range(3, 90) if n % b])
    said = f"{a / b:g}"
    return _task(
        "calculator.quotient",
        f"What is {a} divided by {b}? Work it out with the calculator and tell me the number.",
        (*press(f"{a}/{b}="), ("answer", said)),
        display(said),
        {"check": "answer", "is": said},
    )


def _sum(name: str, rng: Random, count: int) -> DesktopTask:
    numbers = [rng.randint(101, 999) for _ in range(count)]
    said = ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
    return _task(
        name,
        f"Add up {said} on the calculator and leave the sum on the display.",
        press("+".join(map(str, numbers)) + "="),
        display(sum(numbers)),
    )


def total(rng: Random) -> DesktopTask:
    return _sum("calculator.total", rng, rng.randint(3, 4))


def long_total(rng: Random) -> DesktopTask:
    return _sum("calculator.long_total", rng, rng.randint(6, 7))


def difference(rng: Random) -> DesktopTask:
    # The larger is subtracted: the result is below zero.
    a, b = rng.randint(200, 999), rng.randint(1000, 5000)
    return _task(
        "calculator.difference",
        f"Subtract {b} from {a} with the calculator; the result, below zero, must stand on the display.",
        press(f"{a}-{b}="),
        display(a - b),
    )


def root(rng: Random) -> DesktopTask:
    a = rng.randint(12, 99)
    return _task(
        "calculator.root",
        f"Show the square root of {a * a} on the calculator's display.",
        (*press(str(a * a)), *button("sqrt")),
        display(a),
    )


def brackets(rng: Random) -> DesktopTask:
    a, b, c, d = (rng.randint(3, 29) for _ in range(4))
    return _task(
        "calculator.brackets",
        f"Calculate the sum of {a} and {b}, times the sum of {c} and {d}, in one go with brackets.",
        press(f"({a}+{b})*({c}+{d})="),
        display((a + b) * (c + d)),
    )


def memory(rng: Random) -> DesktopTask:
    a, b = rng.randint(120, 999), rng.randint(2, 9)
    # The menu of the memory shows its numbers with six decimals.
    slot = (("click", "menu item", f"{a}.000000"),)
    plan: Plan = (
        *press(str(a)),
        *button("MS"),
        ("click", "menu item", "save here"),
        *button("AC"),
        *press(f"{b}*"),
        *button("MR"),
        *slot,
        *button("="),
    )
    return _task(
        "calculator.memory",
        f"Store {a} in the calculator's memory, clear the display, then multiply {b} by the number in memory.",
        plan,
        display(a * b),
    )


def negative(rng: Random) -> DesktopTask:
    a, b = rng.randint(12, 99), rng.randint(3, 9)
    return _task(
        "calculator.negative",
        f"Multiply minus {a} by {b} on the calculator; leave the result displayed.",
        (*press(str(a)), *button("+/-"), *press(f"*{b}=")),
        display(-a * b),
    )


def factorial_of(rng: Random) -> DesktopTask:
    a = rng.randint(5, 9)
    return _task(
        "calculator.factorial",
        f"Switch the calculator to scientific mode and show the factorial of {a}.",
        (*SCIENTIFIC, *press(str(a)), *button("n!")),
        display(factorial(a)),
    )


def hexadecimal(rng: Random) -> DesktopTask:
    # With a letter in it, so that decimal and hexadecimal can't be mistaken.
    a = rng.choice([n for n in range(170, 255) if not f"{n:X}".isdecimal()])
    plan = (
        *SCIENTIFIC,
        *press(str(a)),
        ("click", "menu", "Calculator"),
        ("click", "menu", "Number bases"),
        ("click", "radio menu item", "Hexadecimal"),
        ("answer", f"{a:X}"),
    )
    return _task(
        "calculator.hexadecimal",
        f"Show the number {a} in hexadecimal on the calculator (scientific mode has that) and tell me what it says.",
        plan,
        display(f"{a:X}"),
        {"check": "answer", "is": f"{a:X}"},
    )


def _to(mode: str) -> Plan:
    return (("click", "menu", "View"), ("click", "radio menu item", f"{mode.capitalize()} Mode"))


def mode(rng: Random) -> DesktopTask:
    shown = {"scientific": ("toggle button", "sin"), "paper": ("push button", "Enter")}
    name, other = rng.choice((("scientific", "paper"), ("paper", "scientific")))
    plan, near = _to(name), _to(other)
    check = {"check": "window", "app": "galculator", "role": shown[name][0], "text": shown[name][1]}
    return _task("calculator.mode", f"Switch the calculator to {name} mode.", plan, check, near=near)


def close(rng: Random) -> DesktopTask:
    way: Plan = (("click", "menu", "File"), ("click", "menu item", "Quit"))
    goal = rng.choice(("Close the calculator.", "Quit the calculator, I don't need it any more."))
    near: Plan = (("click", "menu", "Help"), ("click", "menu item", "About"))
    return _task("calculator.close", goal, way, closed("galculator"), near=near)


CALCULATOR = (
    product,
    quotient,
    total,
    long_total,
    difference,
    root,
    brackets,
    memory,
    negative,
    factorial_of,
    hexadecimal,
    mode,
    close,
)
