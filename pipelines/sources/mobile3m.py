"""Mobile3M: pages of Chinese Android apps reached by random walks, each with the action that led there. No goals.

Licence: CC-BY-NC-SA-4.0 (the hub's tag says Apache-2.0; the stricter one counts).

`<app>_graph_<n>/<page>/<page>.json` (made up, shortened). A page is named by its path: `shop0_3` is reached from
`shop0` by action 3. Its folder holds the screens of the whole path as they were on that walk, `<page>-screen.png`,
`<page>-xml.txt`:

    {"round": 2, "name": "shop0_3", "unique_name": "shop0_3", "valid": true, "start_APP": ["[adb …]"],
     "history_actions": ["click(<p id=\\"a:id/t\\" class=\\"android.widget.TextView\\" clickable=\\"true\\"> 茶 </p>)"],
     "action_space": ["scroll(([360, 800], [360, 400]))"], "path": ["shop0", "shop0_3"]}

| native (the last of `history_actions`) | unified |
|---|---|
| click(element) | Click at the centre of the element's bounds |
| input(element, 'text') | Click on the element, Type(text): the collector taps first |
| press(element) | LongPress |
| scroll(point, point) | Scroll(start, end), direction from the points, which are the finger's |
| zoom, pinch | quarantined: `no_counterpart` |
| `[Fail]: …` | quarantined: `failed_action` |

An episode is one transition: the screen before with its action, the screen after without one. The instruction is empty,
since a random walk has none (rule `no_goal`): inverse dynamics and the screens' elements are what it teaches. An
element is written without its bounds unless it scrolls; the collector acts on the first view with the same id, text,
description and class, and so does this. `valid` false means that the page repeats one met before (`unique_name`): it is
quarantined (`duplicate_page`). A start page has no action, and its screen stands in every walk. Pixels of the picture.
The eight apps that the authors test on are test. The conversations made of it are refused (`unknown_schema`).
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import sides_of
from pipelines.mapping.items import ItemError, is_text, list_of, notices, unknown_fields
from pipelines.mapping.points import in_frame, swipe
from pipelines.native.android_xml import AndroidView, TreeError, bounds_of, elements, views
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import json_document
from schemas.actions import Action, Click, LongPress, Scroll, Type
from schemas.coordinates import centre_in_units

TEST_APPS = ("Qunar", "duapp", "cloudweather", "pdfreader", "QQmail", "baicizhan", "zhuishushenqi", "QQmusic")
GRAPH_FILES = frozenset(
    {
        "all_action_id.json",
        "data_all2unique.json",
        "data_unique2all.json",
        "all_page_id.json",
        "all_unique_page.json",
        "all_triple.json",
        "all_page_actions.json",
    }
)
WORDS = ("click", "input", "press", "scroll", "zoom", "pinch")
_KNOWN = frozenset({"round", "name", "unique_name", "valid", "start_APP", "history_actions", "action_space", "path"})
_CALL = re.compile(r"\s*([A-Za-z]+)\((.*)\)\s*", re.DOTALL)
_ELEMENT = re.compile(r"(<[^>]*>[^<>]*</\w+>)", re.DOTALL)
_TEXT = re.compile(r"\s*,\s*(['\"]?)(.*)\1\s*", re.DOTALL)
_NUMBER = re.compile(r"-?\d+")
_ATTRIBUTES = {"resource_id": "id", "kind": "class", "description": "description"}
Box = tuple[float, float, float, float]

DESCRIPTOR = Descriptor(
    id="mobile3m",
    title="Mobile3M",
    origin="https://huggingface.co/datasets/xwk123/Mobile3M",
    licence="CC-BY-NC-SA-4.0",
    platforms=("mobile",),
    language="zh",
    objectives=("perception", "grounding", "vqa"),
    size="3 million pages; the apps are published one by one",
    citation="Wu et al., MobileVLM: A Vision-Language Model for Better Intra- and Inter-UI Understanding, "
    "arXiv 2409.14818",
    frame="pixels of the screenshot, x first, origin top left",
    record_unit="transition",
    known_problems=(
        "random walks: no goals, no ends",
        "many pages repeat one met before",
        "the collector moved scroll points at the largest coordinate and at 0 by 50 px, which the record doesn't show",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("input", "Click, Type", "kept", "the collector taps the field first; an empty text is quarantined"),
        Loss("press", "LongPress", "kept"),
        Loss("scroll", "Scroll", "kept"),
        Loss("zoom", "-", "dropped", "no_counterpart: two fingers"),
        Loss("pinch", "-", "dropped", "no_counterpart: two fingers"),
        Loss("[Fail]", "-", "dropped", "failed_action"),
        Loss("?", "-", "dropped", "duplicate_page, unknown_action:<word>, or a text of another form"),
        Loss("action_space", "-", "lossy", "what else could be done; the elements of the screen say it"),
    ),
)


class Mobile3mAdapter(Adapter):
    """One record per page."""

    descriptor = DESCRIPTOR
    version = 2

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """Pages by graph and first action; each file of another kind, to be refused."""
        groups: dict[str, list[str]] = {}
        others: list[tuple[str, ...]] = []
        for name in raw.files("**/*.json"):
            path = PurePosixPath(name)
            # The file of a page bears its folder's name.
            if path.stem == path.parent.name:
                groups.setdefault(f"{path.parent.parent}/{'_'.join(path.stem.split('_')[:2])}", []).append(name)
            elif path.name not in GRAPH_FILES and not path.parent.name.startswith(f"{path.stem}_"):
                others.append((name,))
        return [tuple(group) for _, group in sorted(groups.items())] + others

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One page a file."""
        for file in files:
            path = PurePosixPath(file)
            if path.stem != path.parent.name:
                count = raw.read(file).count(b'"conversations"')
                yield Broken(file, "document", "unknown_schema", "expected the file of a page", count)
                continue
            name = f"{path.parent.parent.name}/{path.stem}"
            yield from json_document(raw, file, of_id=lambda row, name=name: name)  # type: ignore[misc]

    def count_items(self, record: Record) -> int:
        """The action that led to the page; a start page has none."""
        # A page's name lists the actions that led to it.
        return int("_" in PurePosixPath(record.file).stem)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One page → the screen before with its action, and the page. Raises `RecordError`: missing_field,
        bad_json."""
        row = _decoded(record.payload)
        history = list_of(row, "history_actions")
        path = PurePosixPath(record.file)
        graph = path.parent.parent.name
        # Walks without a goal: they teach what actions do, not what they are for.
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction="",
            language="zh",
            app=graph.partition("_graph")[0] or None,
            split="test" if graph.startswith(TEST_APPS) else "train",
        )
        found = unknown_fields(row, _KNOWN)
        before, _, number = path.stem.rpartition("_")
        if not before:
            if history:
                found.append(("bad_value", "a start page with actions", {"history_actions": history}))
            return notices(builder.finish(), found)
        native, word = (history[-1] if history else None), "?"
        try:
            # The name and the history must tell the same walk.
            if len(history) != path.stem.count("_") or not number.isdecimal():
                raise ItemError("bad_value", f"{len(history)} actions led to page {path.stem!r:.60}")
            # Such a page is a copy of another one.
            if row.get("valid") is not True:
                raise ItemError(
                    "duplicate_page", f"valid is {row.get('valid')!r:.20}: see {row.get('unique_name')!r:.60}"
                )
            word, argument = _call(native)
            screen, tree = _screen(raw, path, before)
            actions, box, rules = _actions(word, argument, screen, tree)
        except (ItemError, RecordError) as error:
            counted = error.word if isinstance(error, ItemError) else word
            builder.reject(error.reason, native=native, native_index=0, word=counted, detail=error.detail)
            return notices(builder.finish(), found)
        builder.add(actions, native, 0, word, screen, target_box=box, rules=["no_goal", *rules])
        builder.terminal(None, _screen(raw, path, path.stem)[0], ["no_goal"])
        return notices(builder.finish(), found)


def _decoded(payload: object) -> Any:
    """The collector encodes some files twice."""
    if not isinstance(payload, str):
        return payload
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise RecordError("bad_json", f"a text that is no JSON again: {error}") from error


def _call(native: object) -> tuple[str, str]:
    """`click(<p …>)`, or {"Action": the same} → (word, argument)."""
    text = native.get("Action") if isinstance(native, dict) else native
    if not isinstance(text, str) or not is_text(text):
        raise ItemError("bad_value", f"expected an action's text, found {native!r:.60}")
    if text.startswith("[Fail]"):
        raise ItemError("failed_action", text[:120], "[Fail]")
    match = _CALL.fullmatch(text)
    if match is None:
        raise ItemError("bad_value", f"expected name(argument), found {text!r:.60}")
    word = match[1].lower()
    if word not in WORDS:
        raise ItemError(f"unknown_action:{match[1][:60]}", f"expected one of {WORDS}")
    return word, match[2]


def _screen(raw: Raw, path: PurePosixPath, page: str) -> tuple[RecordScreen, list[AndroidView]]:
    """A page of the walk that the folder holds, and its tree (empty where it can't be read)."""
    folder = path.parent
    screen = RecordScreen.load(raw.read_if_there(f"{folder}/{page}-screen.png"), normalised=True)
    data = raw.read_if_there(f"{folder}/{page}-xml.txt")
    try:
        tree = views(data) if data is not None else []
    except TreeError:
        tree = []
    if screen.width_px is None or screen.height_px is None:
        return screen, tree
    listed = tuple(elements(tree, (screen.width_px, screen.height_px)))
    return RecordScreen(screen.width_px, screen.height_px, screen.data, screen.info, listed, screen.problem), tree


def _actions(
    word: str, argument: str, screen: RecordScreen, tree: list[AndroidView]
) -> tuple[list[Action], Box | None, list[str]]:
    if word in ("zoom", "pinch"):
        raise ItemError("no_counterpart", f"{word} takes two fingers", word)
    size = sides_of(screen, "no usable picture says how large the screen is", word)
    if word == "scroll":
        return [_scroll(argument, size)], None, ["direction_from_points"]
    match = _ELEMENT.search(argument)
    if match is None:
        raise ItemError("bad_value", f"expected an element, found {argument!r:.60}", word)
    box, rules = _bounds(match[1], size, tree, word)
    # An action names an element, never a point.
    centre = centre_in_units(box)
    rules = ["centre_of_box", *rules]
    if word != "input":
        return [Click(centre) if word == "click" else LongPress(centre)], box, rules
    text = _TEXT.fullmatch(argument[match.end() :])
    if text is None or not text[2]:
        raise ItemError("empty_text", f"nothing is typed: {argument[match.end() :]!r:.60}", word)
    return [Click(centre), Type(text[2])], box, [*rules, "input_taps_first"]


def _scroll(argument: str, size: tuple[int, int]) -> Scroll:
    numbers: Sequence[int] = [int(number) for number in _NUMBER.findall(argument)]
    if len(numbers) != 4:
        raise ItemError("bad_value", f"scroll: expected two points, found {argument!r:.60}", "scroll")
    start, end = (in_frame(x, y, size, "scroll") for x, y in (numbers[:2], numbers[2:]))
    return swipe(start, end, "scroll", size)


def _bounds(element: str, size: tuple[int, int], tree: list[AndroidView], word: str) -> tuple[Box, list[str]]:
    """The box of an element: its own bounds, else those of the first view of the tree that is like it."""
    head, _, body = element.partition(">")
    stated = re.search(r'bounds="([^"]*)"', head)
    bounds, rules = (bounds_of(stated[1]) if stated else None), []
    if bounds is None:
        asked = {
            name: found[1].strip()
            for name, attribute in _ATTRIBUTES.items()
            if (found := re.search(rf'(?:^|\s){attribute}\s*=\s*"([^"]+)"', head))
        }
        if text := body.rpartition("<")[0].strip():
            asked["text"] = text
        if not set(asked) - {"kind"}:
            raise ItemError("no_target", f"only a class says which view is meant: {element[:80]!r}", word)
        alike = [view for view in tree if _is(view, asked)]
        if not alike or alike[0].bounds is None:
            raise ItemError("no_target", f"no view of the tree is like {element[:80]!r}", word)
        bounds, rules = alike[0].bounds, ["bounds_from_tree", *(["first_of_several"] if len(alike) > 1 else [])]
    return unit_box(bounds, size, word), rules


def _is(view: AndroidView, asked: dict[str, str]) -> bool:
    return all(getattr(view, name).replace("\n", "").strip() == value for name, value in asked.items())
