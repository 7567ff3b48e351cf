"""The functions of evaluators by name: a result, what is expected, and options → a score in 0..1. Add one here.

What a task file says (rules, options) is read strictly: `RuleError` for what a function can't read, which is the task's
fault. What the agent left behind may be anything: a file that is missing or can't be read scores 0. Patterns of task
files are searched in a process of their own for a bounded time.
"""

import ast
import csv
import difflib
import io
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping

from generators.worlds.osworld.accessibility_xml import SelectorError, WindowNode, parse_selector, select
from generators.worlds.osworld.file_metrics import compare_archives, file_of, lines_of, picture_size, text_of
from generators.worlds.osworld.obstacles import TaskObstacle
from generators.worlds.osworld.pattern_search import RuleError, found_in
from generators.worlds.osworld.task_file import EvaluatorPart, JsonObject

Metric = Callable[[object, object, JsonObject], float]
MOST_ALIKE = 2000
_ORDERED = {name: getattr(operator, name) for name in ("eq", "ne", "le", "lt", "ge", "gt")}


def obstacles_of(part: EvaluatorPart) -> Iterator[TaskObstacle]:
    """What stands against a function here."""
    if part.func not in METRICS:
        yield TaskObstacle("metric", f"{part.func[:60]} isn't implemented")
    elif part.func == "check_accessibility_tree" and part.expected is not None:
        rules = part.expected.parameters.get("rules")
        for rule in rules if isinstance(rules, list) else ():
            try:
                for selector in _selectors(rule):
                    parse_selector(selector)
            except (RuleError, SelectorError) as error:
                yield TaskObstacle("selector", str(error)[:100])


def score(part: EvaluatorPart, result: object, expected: object) -> float:
    """A function's score. Raises `RuleError` for rules that it can't read."""
    try:
        return METRICS[part.func](result, expected, part.options)
    except (SelectorError, KeyError, TypeError) as error:
        raise RuleError(f"{part.func}: can't read its rules: {error!r:.120}") from error


def _rules(expected: object) -> JsonObject:
    if not isinstance(expected, dict):
        raise RuleError(f"expected rules as an object, found {expected!r:.60}")
    return expected


def _listed(expected: object, key: str) -> list[object]:
    value = _rules(expected).get(key) or []
    if not isinstance(value, list):
        raise RuleError(f"rules.{key}: expected a list, found {value!r:.60}")
    return value


def _texts(expected: object, key: str) -> list[str]:
    return [str(one) for one in _listed(expected, key)]


# --- values -----------------------------------------------------------------------------------------------------------
def _include_exclude(result: object, expected: object, options: JsonObject) -> float:
    if not isinstance(result, str):
        return 0.0
    there = all(one in result for one in _texts(expected, "include"))
    return float(there and not any(one in result for one in _texts(expected, "exclude")))


def _exact(result: object, expected: object, options: JsonObject) -> float:
    return float(result == _rules(expected)["expected"])


def _one_of(result: object, expected: object, options: JsonObject) -> float:
    return float(result in _listed(expected, "expected"))


def _contains(result: object, expected: object, options: JsonObject) -> float:
    wanted = _rules(expected)["expected"]
    if isinstance(result, str):
        return float(str(wanted) in result)
    return float(isinstance(result, list) and wanted in result)


def _literal(result: object, expected: object, options: JsonObject) -> float:
    folded = str.lower if options.get("ignore_case") else str
    if options.get("type", "str") == "str":
        return float(folded(str(result)) == folded(str(expected)))
    if not isinstance(result, list) or not isinstance(expected, list):
        return 0.0
    return float([folded(str(one)) for one in result] == [folded(str(one)) for one in expected])


def _fuzzy(result: object, expected: object, options: JsonObject) -> float:
    return alike(result, str(_rules(expected)["expected"])) if isinstance(result, str) else 0.0


def alike(one: str, other: str) -> float:
    """Twice the longest common subsequence by both lengths: 1 for equal texts, 0 for texts without a letter in common.
    At most the first `MOST_ALIKE` letters count, for it takes time by the product of the lengths."""
    one, other = one[:MOST_ALIKE], other[:MOST_ALIKE]
    if not one or not other:
        return float(one == other)
    row = [0] * (len(other) + 1)
    for letter in one:
        before = 0
        for at, wanted in enumerate(other, 1):
            above = row[at]
            row[at] = before + 1 if letter == wanted else max(above, row[at - 1])
            before = above
    return 2 * row[-1] / (len(one) + len(other))


def _utc(result: object, expected: object, options: JsonObject) -> float:
    """The output of `timedatectl` names a zone without an offset."""
    zones = [line for line in str(result).splitlines() if "Time zone" in line]
    return float(bool(zones) and zones[0].rstrip().endswith("+0000)"))


def _same_apps(result: object, expected: object, options: JsonObject) -> float:
    """A list that GSettings wrote holds these names, in any order."""
    try:
        apps = ast.literal_eval(str(result).strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return 0.0
    return float(isinstance(apps, list) and sorted(map(str, apps)) == sorted(_texts(expected, "expected")))


def _enlarged(result: object, expected: object, options: JsonObject) -> float:
    try:
        return float(float(str(result)) > 1.0)
    except ValueError:
        return 0.0


def _moved(result: object, expected: object, options: JsonObject) -> float:
    """A folder holds these names and no others."""
    children = result.get("children", []) if isinstance(result, dict) else []
    return float(sorted(str(child["name"]) for child in children) == sorted(_texts(expected, "expected")))


def _tree(result: object, expected: object, options: JsonObject) -> float:
    if not isinstance(result, WindowNode) or not isinstance(expected, list):
        raise RuleError("check_accessibility_tree: expected a tree and a list of rules")
    whole = 1.0
    for rule in expected:
        found = [node for selector in _selectors(rule) for node in select(result, selector)]
        if not found:
            return 0.0
        if "text" in rule:
            wanted = str(rule["text"])
            exact = rule.get("exact", True)
            whole *= max(float(node.text == wanted) if exact else alike(node.text, wanted) for node in found)
    return whole


def _selectors(rule: object) -> list[str]:
    if not isinstance(rule, dict) or "xpath" in rule or not isinstance(rule.get("selectors"), list):
        raise RuleError("check_accessibility_tree: XPath isn't read, expected selectors")
    return [str(one) for one in rule["selectors"]]


# --- texts and tables -------------------------------------------------------------------------------------------------
def _same_text(result: object, expected: object, options: JsonObject) -> float:
    texts = [text_of(result), text_of(expected)]
    if None in texts:
        return 0.0
    said = [str(text) for text in texts]
    if options.get("ignore_blanks"):
        said = [" ".join(text.split()) for text in said]
    if options.get("ignore_case"):
        said = [text.lower() for text in said]
    return float(said[0] == said[1])


def _line_ratio(result: object, expected: object, options: JsonObject) -> float:
    ours, theirs = lines_of(result), lines_of(expected)
    if ours is None or theirs is None:
        return 0.0
    return difflib.SequenceMatcher(a=ours, b=theirs).ratio()


def _same_code(result: object, expected: object, options: JsonObject) -> float:
    """Without empty lines, blanks at ends, and what says how a file is run or encoded."""
    found = []
    for lines in (lines_of(result), lines_of(expected)):
        if lines is None:
            return 0.0
        body = [line.expandtabs(4).rstrip() for line in lines if line.strip()]
        while body and re.match(r"#!|#.{0,8}coding[:=]", body[0]):
            body.pop(0)
        found.append(body)
    return float(found[0] == found[1])


def _holds_texts(result: object, expected: object, options: JsonObject) -> float:
    text = text_of(result)
    return float(text is not None and all(one in text for one in _texts(expected, "expected")))


def _same_csv(result: object, expected: object, options: JsonObject) -> float:
    """As one of the files that are expected, line by line."""
    for one in expected if isinstance(expected, list) else [expected]:
        ours, theirs = lines_of(result), lines_of(one)
        if ours is None or theirs is None:
            continue
        if not options.get("strict", True):
            ours, theirs = ([line.strip() for line in lines] for lines in (ours, theirs))
        if options.get("ignore_case"):
            ours, theirs = ([line.lower() for line in lines] for lines in (ours, theirs))
        if ours == theirs:
            return 1.0
    return 0.0


def _csv_rows(result: object, expected: object, options: JsonObject) -> float:
    """Rows with these values in these columns are there, and others aren't."""
    text = text_of(result)
    if text is None:
        return 0.0
    rows = list(csv.DictReader(io.StringIO(text)))

    def there(wanted: object) -> bool:
        return any(all(row.get(key) == value for key, value in _rules(wanted).items()) for row in rows)

    met = all(there(wanted) for wanted in _listed(expected, "expect"))
    return float(met and not any(there(wanted) for wanted in _listed(expected, "unexpect")))


def _patterns(result: object, expected: object, options: JsonObject) -> float:
    """Some line matches each pattern that is expected, and none those that aren't."""
    lines = lines_of(result)
    if lines is None:
        return 0.0
    met = all(found_in(pattern, lines) for pattern in _texts(expected, "expect"))
    return float(met and not any(found_in(pattern, lines) for pattern in _texts(expected, "unexpect")))


def _times(result: object, expected: object, options: JsonObject) -> float:
    """As many lines as expected hold a time of day with seconds."""
    lines = lines_of(result)
    at = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)")
    count = sum(bool(at.search(line)) for line in lines or ())
    return float(lines is not None and str(count) == str(_rules(expected)["expected"]))


# --- settings in JSON -------------------------------------------------------------------------------------------------
def _json_of(file: object) -> object:
    text = text_of(file)
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None


def _json_values(result: object, expected: object, options: JsonObject) -> float:
    """Values at these keys meet their rules, or don't: {"key": [path], "method": "eq", "ref": value}."""
    whole = _json_of(result)
    if whole is None:
        return 0.0
    for rule in _listed(expected, "expect"):
        if not _meets(whole, _rules(rule)):
            return 0.0
    return float(not any(_meets(whole, _rules(rule)) for rule in _listed(expected, "unexpect")))


def _meets(whole: object, rule: JsonObject) -> bool:
    value, keys = whole, rule["key"]
    for key in keys if isinstance(keys, list) else [keys]:
        try:
            value = value[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return False
    method, ref = str(rule["method"]), rule.get("ref")
    if method in _ORDERED:
        try:
            return bool(_ORDERED[method](value, ref))
        except TypeError:  # 3 < "4": the agent's file, not the rule
            return False
    if method == "re":
        return isinstance(value, str) and found_in(str(ref), [value])
    if method.startswith("approx:") and isinstance(ref, int | float):
        return isinstance(value, int | float) and abs(value - ref) <= float(method.partition(":")[2])
    raise RuleError(f"check_json: expected a method of {', '.join(_ORDERED)}, re, approx:N, found {method[:40]!r}")


def _json_settings(result: object, expected: object, options: JsonObject) -> float:
    whole, wanted = _json_of(result), _rules(_rules(expected)["expected"])
    return float(isinstance(whole, dict) and all(whole.get(key) == value for key, value in wanted.items()))


def _json_entry(result: object, expected: object, options: JsonObject) -> float:
    """A list of objects holds this one."""
    whole = _json_of(result)
    return float(isinstance(whole, list) and _rules(expected)["expected"] in whole)


def _config(result: object, expected: object, options: JsonObject) -> float:
    """The text that is expected stands in the file, or its settings do."""
    text, wanted = text_of(result), str(_rules(expected)["expected"])
    if text is None:
        return 0.0
    try:
        ours, theirs = json.loads(text), json.loads(wanted)
    except (ValueError, RecursionError):
        return float(wanted in text if options.get("containment_ok", True) else wanted == text)
    within = isinstance(ours, dict) and isinstance(theirs, dict)
    return float(all(ours.get(k) == v for k, v in theirs.items()) if within else ours == theirs)


# --- pictures ---------------------------------------------------------------------------------------------------------
def _picture_size(result: object, expected: object, options: JsonObject) -> float:
    rules = _rules(expected)
    size = picture_size(result, ignore_transparent=bool(rules.get("ignore_transparent")))
    wanted = (rules.get("width", size and size[0]), rules.get("height", size and size[1]))
    return float(size is not None and size == wanted)


def _file_size(result: object, expected: object, options: JsonObject) -> float:
    """Fewer bytes than that."""
    file, most = file_of(result), _rules(expected).get("max_size")
    if not isinstance(most, int | float):
        raise RuleError(f"check_image_file_size: expected max_size in bytes, found {most!r:.40}")
    return float(file is not None and len(file.data) < most)


METRICS: Mapping[str, Metric] = {
    "check_include_exclude": _include_exclude,
    "exact_match": _exact,
    "match_in_list": _one_of,
    "is_in_list": _contains,
    "literal_match": _literal,
    "fuzzy_match": _fuzzy,
    "is_utc_0": _utc,
    "check_gnome_favorite_apps": _same_apps,
    "check_text_enlarged": _enlarged,
    "check_moved_jpgs": _moved,
    "check_accessibility_tree": _tree,
    "compare_text_file": _same_text,
    "diff_text_file": _line_ratio,
    "compare_python_pure_text": _same_code,
    "file_contains": _holds_texts,
    "compare_csv": _same_csv,
    "check_csv": _csv_rows,
    "check_list": _patterns,
    "check_line_number": _times,
    "check_json": _json_values,
    "check_json_settings": _json_settings,
    "check_json_keybindings": _json_entry,
    "compare_config": _config,
    "compare_terminal_and_txt": lambda result, expected, options: float(text_of(result) == expected),
    "compare_archive": compare_archives,
    "check_image_size": _picture_size,
    "check_image_file_size": _file_size,
}
"""OSWorld's names. A function on documents of an office suite, on media, or on a browser's state isn't among them."""
