"""Screen2Words: one-sentence summaries of Rico screens, five by different workers for each.

Licence: the repository states none; a copy on the hub says CC-BY-4.0.

Raw rows of `screen_summaries.csv` (made up; a summary may hold commas without quotes, so a line is cut at the first):

    screenId,summary
    54137,page showing a list of recipes, with a search bar

and `split/{train,dev,test}_screens.txt`, an id a line.

| native | unified |
|---|---|
| the first summary of a screen | a perception sample "Describe the screen in one sentence." |
| its other summaries | alternatives of that answer: `or: …` in provenance, counted, no samples of their own |

A screen that no split list names is quarantined (`missing_field`): the test split is a benchmark. Pictures come from
the companion `rico`. Other forms of the set (parquet, JSON) are refused: `unknown_schema`.
"""

from collections.abc import Iterator

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.native import rico

HEADER = "screenId,summary"
QUESTION = "Describe the screen in one sentence."
WORD = "summary"
OTHER = "summary/alternative"
BAD = "summary/bad"

DESCRIPTOR = Descriptor(
    id="screen2words",
    title="Screen2Words",
    origin="https://github.com/google-research-datasets/screen2words",
    licence="not stated (a copy on the hub says CC-BY-4.0)",
    platforms=("mobile",),
    objectives=("perception",),
    size="112,085 summaries of 22,417 screens (15,743 / 2,364 / 4,310 train / validation / test)",
    citation="Wang et al., Screen2Words: Automatic Mobile UI Summarization with Multimodal Learning, arXiv 2108.03353",
    frame="none: text only",
    record_unit="screen",
    item_unit="summary",
    known_problems=("crowd summaries are short and partly generic", "the test split is used as a benchmark"),
    loss=(
        Loss(WORD, "perception sample", "kept", "the first summary of a screen is the answer"),
        Loss(OTHER, "provenance of that sample", "kept", "alternatives, not samples of their own"),
        Loss("summary/bad", "-", "dropped", "empty_text; missing_field: no split list names the screen"),
    ),
    companions=(rico.COMPANION,),
)


class Screen2wordsAdapter(Adapter):
    """One record per screen."""

    descriptor = DESCRIPTOR
    items_at = ("summaries",)
    side_lists = (rico.SPLIT_LISTS,)
    patterns = ("**/*.csv", "**/*.json", "**/*.parquet")

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The summaries by screen, in order of first mention: the file (a few MB) is read whole, as the lines of a
        screen need not stand together. A line without a comma, or not in UTF-8, is broken on its own."""
        for file in files:
            if not file.endswith(".csv"):
                yield Broken(file, "file", "unknown_schema", "expected screen_summaries.csv")
                continue
            screens: dict[str, tuple[int, list[str]]] = {}
            # Bytes that are no text are kept, so that one line is rejected instead of all.
            with raw.path(file).open(encoding="utf-8-sig", errors="surrogateescape") as lines:
                if (header := next(lines, "").strip().replace('"', "")) != HEADER:
                    shown = header.encode("utf-8", "replace").decode()[:200]
                    yield Broken(file, "header", "missing_field", f"expected {HEADER}", 0, shown)
                    continue
                for number, line in enumerate(lines, 2):
                    identifier, comma, text = line.rstrip("\r\n").partition(",")
                    shown = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:2000]
                    if any("\ud800" <= char <= "\udfff" for char in line):
                        yield Broken(file, f"line {number}", "bad_value", "not UTF-8", 1, shown)
                    elif comma:
                        screens.setdefault(identifier.strip().strip('"'), (number, []))[1].append(_unquoted(text))
                    elif line.strip():
                        cut = not line.endswith("\n")
                        # A last line without its end was cut.
                        yield Broken(file, f"line {number}", "truncated_record", "no comma", 1, shown, ends=cut)
            for identifier, (number, summaries) in screens.items():
                payload = {"screenId": identifier, "summaries": summaries}
                yield Record(file, f"line {number}", payload, identifier or None)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen → one perception sample. Raises `RecordError`: unsafe_path, missing_field."""
        summaries: list[str] = record.payload["summaries"]
        identifier = rico.screen_id(record.payload["screenId"], len(summaries))
        split = rico.listed_split(raw, identifier)
        if split is None:
            # Without a split it might be a test screen.
            raise RecordError("missing_field", f"no split list names screen {identifier}", len(summaries))
        screen = RecordScreen.load(rico.picture(raw, identifier), normalised=True)
        builder = SampleBuilder(self.descriptor, record, record_id=identifier, split=split)
        said = [text for text in summaries if text]
        for index, text in enumerate(summaries):
            if not text:
                builder.reject("empty_text", native=text, native_index=index, word=BAD)
        if said:
            builder.sample(
                "perception",
                QUESTION,
                said[0],
                screen,
                native_index=summaries.index(said[0]),
                word=WORD,
                # The others say the same in other words.
                rules=["first_summary", *(f"or: {text}" for text in said[1:])],
            )
            builder.count(OTHER, len(said) - 1)
        return builder.finish()


def _unquoted(text: str) -> str:
    """A cell in quotes without them."""
    text = text.strip()
    quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return text[1:-1].replace('""', '"').strip() if quoted else text
