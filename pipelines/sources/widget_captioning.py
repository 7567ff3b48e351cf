"""Widget Captioning: what single widgets of Rico screens do, in the words of several crowd workers each.

Raw rows of `widget_captions.csv` (made up; captions are joined by `|`):

    datasetId,screenId,nodeId,captions
    rico,123,0.1.2,open menu|show the menu

and `split/{train,dev,test}.txt`, an id a line. The box is that of node `nodeId` in Rico's view hierarchy (`bounds` on a
canvas of 1440 x 2560), so the companion `rico` with `combined/<id>.json` must be there.

| native | unified |
|---|---|
| widget | a perception sample "What is at [x,y]?" for each of its different captions |
| caption that no other widget of the screen bears | also a grounding sample "Where is <caption>?" → the box's centre |
| every widget | screens.elements: class, text, content description of the node |
| widget of a screen that was never published (datasetId `nr`) | quarantined: `no_counterpart` |

A screen that no split list names is quarantined (`missing_field`), one without a hierarchy too (`missing_file`). Other
forms of the set (parquet, JSON) are refused: `unknown_schema`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import rico
from pipelines.native.record_readers import csv_rows

COLUMNS = ("datasetId", "screenId", "nodeId", "captions")
WORD = "widget"
BAD = "widget/bad"

DESCRIPTOR = Descriptor(
    id="widget_captioning",
    title="Widget Captioning",
    origin="https://github.com/google-research-datasets/widget-caption",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    objectives=("perception", "grounding"),
    size="61,286 widgets, 12,960 of them on screens that aren't public; 14,878 / 1,292 / 1,265 screens by split",
    citation="Li et al., Widget Captioning: Generating Natural Language Description for Mobile UI Elements, 2010.04295",
    frame="bounds of the view hierarchy on a canvas of 1440 x 2560, left, top, right, bottom, origin top left",
    record_unit="screen",
    item_unit="widget",
    known_problems=(
        "misspellings (shudown, closse, locatoin)",
        "several widgets of a screen may bear the same caption",
        "boxes come from Rico's view hierarchy and may be off the drawn element",
    ),
    loss=(
        Loss(WORD, "perception and grounding samples", "kept", "one of each for every different caption; counted once"),
        Loss(BAD, "-", "dropped", "no such node in the hierarchy, no usable box, or no caption"),
        Loss("datasetId nr", "-", "dropped", "no_counterpart: the screen was never published"),
    ),
    companions=(rico.COMPANION,),
)


class WidgetCaptioningAdapter(Adapter):
    """One record per screen."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = (".",)
    side_lists = (rico.SPLIT_LISTS,)
    patterns = ("**/*.csv", "**/*.json", "**/*.parquet")

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The widgets by screen, in order of first mention: the file (a few MB) is read whole, since which captions
        are unique shows only when all widgets of a screen are known."""
        for file in files:
            if not file.endswith(".csv"):
                yield Broken(file, "file", "unknown_schema", f"expected a CSV file with columns {COLUMNS}")
                continue
            # By both, as ids repeat across the data sets.
            screens: dict[tuple[str, str], tuple[str, list[dict[str, str]]]] = {}
            for row in csv_rows(raw, file, COLUMNS):
                if isinstance(row, Broken):
                    yield row
                    continue
                key = (row.payload["datasetId"], row.payload["screenId"])
                screens.setdefault(key, (row.locator, []))[1].append(row.payload)
            for (dataset, screen), (locator, widgets) in screens.items():
                yield Record(file, locator, widgets, f"{dataset}-{screen}")

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen → samples of its widgets. Raises `RecordError`."""
        widgets: list[dict[str, str]] = record.payload
        dataset = widgets[0]["datasetId"]
        if dataset == "nr":
            raise RecordError("no_counterpart", "the screen was never published (datasetId nr)", len(widgets))
        if dataset != "rico":
            raise RecordError("bad_value", f"datasetId: expected rico or nr, found {dataset!r:.60}", len(widgets))
        identifier = rico.screen_id(widgets[0]["screenId"], len(widgets))
        # Without a split it might be a test screen.
        split = rico.listed_split(raw, identifier)
        if split is None:
            raise RecordError("missing_field", f"no split list names screen {identifier}", len(widgets))
        root = rico.hierarchy(raw, identifier, len(widgets))
        found: list[tuple[int, list[str], dict[str, Any]]] = []
        failed: list[tuple[int, ItemError]] = []
        for index, widget in enumerate(widgets):
            try:
                found.append((index, _captions(widget), _element(root, widget["nodeId"])))
            except ItemError as error:
                failed.append((index, error))
        screen = RecordScreen.load(rico.picture(raw, identifier), [item for *_, item in found], normalised=True)
        builder = SampleBuilder(self.descriptor, record, split=split)
        for index, problem in failed:
            builder.reject(
                problem.reason, native=widgets[index], native_index=index, word=problem.word, detail=str(problem)
            )
        # Also those of widgets that were rejected: they are on the screen all the same.
        bearers = Counter(text.casefold() for widget in widgets for text in set(_split(widget)))
        for index, captions, element in found:
            for place, caption in enumerate(captions):
                builder.region(caption, element["box"], screen, index, WORD, k=2 * place, count=place == 0)
                # A caption that two widgets bear points at neither.
                if bearers[caption.casefold()] == 1:
                    builder.grounding(
                        caption,
                        element["box"],
                        screen,
                        index,
                        WORD,
                        k=2 * place + 1,
                        count=False,
                        rules=["unique_caption"],
                    )
        return notices(builder.finish(), unknown_fields(widgets[0], frozenset(COLUMNS)))


def _split(widget: Mapping[str, str]) -> list[str]:
    """The different captions in order, whatever their case."""
    texts = (text.strip() for text in widget["captions"].split("|"))
    # The first spelling stays, hence twice reversed.
    return list({text.casefold(): text for text in reversed([text for text in texts if text])}.values())[::-1]


def _captions(widget: Mapping[str, str]) -> list[str]:
    """Raises `ItemError("empty_text")`."""
    if not (captions := _split(widget)):
        raise ItemError("empty_text", "the widget has no caption", BAD)
    return captions


def _element(root: Mapping[str, object], path: str) -> dict[str, Any]:
    """The node as a screen element. Raises `ItemError` (see `rico.node`, `rico.canvas_box`)."""
    node = rico.node(root, path, BAD)
    box = rico.canvas_box(node.get("bounds"), BAD)
    described = node.get("content-desc")
    spoken = next((text for text in described if isinstance(text, str)), "") if isinstance(described, list) else ""
    role, text = node.get("class"), node.get("text")
    text = text.strip() if isinstance(text, str) else ""
    return {
        "box": box,
        "role": role.rpartition(".")[2] if isinstance(role, str) else "",
        "text": text,
        "name": spoken.strip() or text,
    }
