"""An item as the rules, `process`, `nano` and the check of thoughts read it: its goal, its steps' words and thoughts by
what they ask and tell (`asked`), all other texts without what speaks to a judge (`orders`)."""

import operator
from collections.abc import Mapping
from dataclasses import replace

from pipelines.prompts import messages, prompt_text
from pipelines.prompts.answers import answers_of
from quality.evidence.goal import acted_texts
from quality.items.item import Episode, Item, Row, Sample, Step, rebanked
from quality.items.screens import BankView, Element, Screen, ScreenBank
from quality.judges.asked import asked_part, told_part
from quality.judges.at_point import readings
from quality.judges.orders import may_order, speaks, without_orders
from schemas.action_types import CallUser, Finished, SelectOption, TakeNote, Type
from schemas.actions import format, parse

READING_CODE = tuple(f"judges/{name}" for name in ("asked", "asked.txt", "at_point", "heard", "orders", "orders.txt"))
"""What the version of a judge holds that reads items so."""
EPISODE_TEXTS = ("instruction", "step_instruction", "thought", "action_text")
SAMPLE_TEXTS = ("messages", "answer")


class QuietBank(BankView):
    """A bank's screens without orders in their elements; of the texts in `read` only the part that is read."""

    def __init__(self, bank: ScreenBank, read: Mapping[str, str] | None = None) -> None:
        super().__init__(bank)
        self._read = read or {}
        self._ordering: dict[str, bool] = {}

    def orders(self, screen: Screen) -> bool:
        """Whether a screen's elements hold any order."""
        if screen.sha256 not in self._ordering:
            self._ordering[screen.sha256] = self.known_elements(screen.sha256) != screen.elements
        return self._ordering[screen.sha256]

    def elements(self, sha256: str) -> list[Element]:
        listed = self._bank.known_elements(sha256)
        if self._read:
            known = self._read.get
            listed = [Element(e.box, e.role, known(e.text, e.text), known(e.name, e.name)) for e in listed]
        # All texts of a screen in one search for hints: nearly every screen has none.
        if not may_order("\n".join(f"{element.text}\n{element.name}" for element in listed)):
            return listed
        found = []
        for element in listed:
            text, name = without_orders(element.text), without_orders(element.name)
            # An element that only held an order would otherwise be a nameless one, which rules object to.
            if text or name or not element.label:
                found.append(Element(element.box, element.role, text, name))
        return found


def heard(item: Item, banks: dict[int, QuietBank]) -> Item:
    """The item as the judge reads it: itself, where nothing in it gives orders. `banks` keeps one quiet bank for each
    bank met."""
    if (bank := banks.get(id(item.bank))) is None:
        bank = banks[id(item.bank)] = QuietBank(item.bank)
    # Two passes: first what asks and tells is taken of the goal, words and thoughts, whatever their words; then known
    # orders are taken out of every text that is left, the screens' included, which can't be told apart by their form.
    names: tuple[str, ...] = EPISODE_TEXTS if isinstance(item, Episode) else SAMPLE_TEXTS
    item = to_the_point(item)
    if isinstance(item, Episode):
        rows = [step.row for step in item.steps]
        shown = [step.screen for step in item.steps if step.screen is not None]
    else:
        rows, shown = [item.row, *item.siblings], item.screens
    # A bank of its own where parts of labels are read: another item may speak of the others.
    if read := readings(item):
        bank = QuietBank(item.bank, read)
    # The same object back, so that nothing is built again for items without orders, nearly all.
    elif all(_quiet(row, names) is row for row in rows) and not any(map(bank.orders, shown)):
        return item
    return rebanked(item, bank, lambda row: _quiet(row, names))


def to_the_point(item: Item) -> Item:
    """The item with those sentences of its goal, its steps' words and thoughts that a judge reads (`asked`)."""
    if isinstance(item, Sample):
        if item.row["objective"] != "grounding":
            return item
        said = prompt_text(item.row["messages"])
        part = asked_part(said)
        # The prompt's form is told by its question mark.
        part += "?" if said.rstrip().endswith("?") and not part.endswith("?") else ""
        if part == said:
            return item
        row = {**item.row, "messages": messages("grounding", part, len(item.row["images"] or ()))}
        return replace(item, row=row)
    # What was typed is the one part of a goal that may have any form: `Type "Rate me 10"` asks for just that.
    typed = tuple(
        action.content if isinstance(action, Type) else action.option
        for step in item.actions
        if isinstance(action := step.action, Type | SelectOption)
    )
    # Without the step's instructions: they are claims of the item, as little trusted here as its thoughts.
    acted = tuple(dict.fromkeys(acted_texts(item, instructed=False)))
    first = item.steps[0].row["instruction"] if item.steps else ""
    steps = [
        replace(step, row=row) if (row := _told(step, first, acted, typed)) is not step.row else step
        for step in item.steps
    ]
    return item if all(map(operator.is_, steps, item.steps)) else replace(item, steps=steps)


def _told(step: Step, first: str, acted: tuple[str, ...], typed: tuple[str, ...]) -> Row:
    row = step.row
    # What the user was asked and said stands under the goal from then on: it is what happened, not what is wanted.
    answers = answers_of(row["instruction"], first)
    goal = row["instruction"].removesuffix(answers)
    labels: tuple[str, ...] = ()
    if row["thought"] and step.screen is not None:
        labels = tuple(dict.fromkeys(e.label for e in step.screen.elements if e.label))
    words = {
        "instruction": asked_part(goal, acted, typed) + answers,
        "step_instruction": asked_part(row["step_instruction"] or "", acted, typed) or None,
        "thought": told_part(row["thought"] or "", labels) or None,
    }
    changed = {name: text for name, text in words.items() if text != (row[name] or None)}
    return {**row, **changed} if changed else row


def _quiet(row: Row, names: tuple[str, ...]) -> Row:
    # Nearly every row is left as it is, and then must be the same object, which `heard` looks at.
    changed = {}
    for name in names:
        text = row.get(name)
        if text and speaks(text):
            changed[name] = _reworded(name, text, row)
    return {**row, **changed} if changed else row


def _reworded(name: str, text: str, row: Row) -> str:
    """A column's text without orders, still readable as what the column holds."""
    if name == "action_text":
        action = parse(text)
        if isinstance(action, SelectOption):
            # An option can't be empty; a question mark fits no element.
            return format(replace(action, option=without_orders(action.option) or "?"))
        if isinstance(action, Type | Finished | CallUser | TakeNote):
            return format(replace(action, content=without_orders(action.content)))
        return text
    if name == "messages":
        return messages(row["objective"], without_orders(prompt_text(text)) or "?", len(row["images"] or ()))
    return without_orders(text)
