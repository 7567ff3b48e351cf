"""Rewards of offline RL (docs/method.md §6) and the success of a step: pure functions of a reply text and a truth.

grounding:  R = w_format · R_format + w_answer · R_point      R_format: the form `[x,y]`, or `[x1,y1,x2,y2]` where
                                                              `w_iou` or `w_box_size` ask for boxes, or what a
                                                              `reply_profile` of other models has in their place
navigation: R = w_format · R_format + w_answer · R_action     R_format: the three tags, each once, in order
with R_action = R_type + (R_content | R_coord), the second part only if the type matches. All points and
distances are in the 0..1000 frame; distances are Euclidean and every radius is exclusive (d < δ).
A new term is one function and one entry in `TERMS`, with the range that it promises; one that stands outside this tree
is named in the settings (`trainer.rl.own_terms`).
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.mapping.items import picture_bytes
from pipelines.store.images import ImageError, image_size
from schemas import actions
from schemas.action_types import ACTION_SPACE, AT_A_POINT, POINTED, REFUSED, WIDEST, ActionSpace
from schemas.coordinates import contains
from trainer.rl.addresses import same_address
from trainer.rl.box_reward import BOX, best_iou, size_agreement
from trainer.rl.confidence import confidence_reward, without_confidence
from trainer.rl.own_terms import group_values, labelled, reply_values, total_bounds, weighted
from trainer.rl.region_consistency import region_consistency
from trainer.rl.reply_forms import WHOLE_SCREEN, Size, in_profile, profile_point, profile_step, step_in_profile
from trainer.settings.rewards import RewardConfig

Box = Sequence[float]


DEFAULT = RewardConfig()


@dataclass(frozen=True)
class ReplyTarget:
    """What a reply is held to. grounding: `boxes`, or `refusal`; navigation: `action`, with `boxes` where known.
    `space`: which actions a reply may be, those that its model was taught; `size_px`: of the picture that was sent."""

    objective: str
    action: actions.Action | None = None
    boxes: tuple[tuple[float, ...], ...] = ()
    refusal: bool = False
    space: ActionSpace = ACTION_SPACE
    size_px: Size = WHOLE_SCREEN

    def __post_init__(self) -> None:
        if self.objective not in ("grounding", "navigation"):
            raise ValueError(f"truth: rewards know grounding and navigation, found objective {self.objective!r}")
        if self.objective == "navigation" and self.action is None:
            raise ValueError("truth: a navigation sample needs a true action, found none")
        if self.objective == "grounding" and self.refusal == bool(self.boxes):
            raise ValueError(f"truth: grounding needs boxes or a refusal, and not both; found {self}")

    @classmethod
    def of_sample(cls, row: Mapping[str, Any], space: ActionSpace = ACTION_SPACE) -> "ReplyTarget":
        """From a row of the Samples table, for a model that speaks `space`. Raises `ValueError` where nothing checkable
        stands in it."""
        boxes = tuple(tuple(float(side) for side in box) for box in row.get("target_boxes") or ())
        # the truth is read in the widest action space; what a reply may be is up to `space`
        reply, size_px = actions.parse_reply(row["answer"], WIDEST), _size_px(row)
        if row["objective"] == "grounding":
            return cls("grounding", None, () if reply.refusal else boxes, reply.refusal, space, size_px)
        return cls(row["objective"], reply.action, boxes, space=space, size_px=size_px)


def _size_px(row: Mapping[str, Any]) -> Size:
    """Of a row's current screen, the last of its pictures; only replies that count pixels need it, so a row without
    pictures, or with one that can't be read, is no error here."""
    try:
        data = picture_bytes((row.get("images") or [None])[-1])
        return WHOLE_SCREEN if data is None else image_size(data)
    except ImageError:
        return WHOLE_SCREEN


_TAGS = tuple(f"<{slash}{tag}>" for tag in ("think", "action", "conclusion") for slash in ("", "/"))
_POINT = re.compile(r"\s*\[\s*-?\d+\s*,\s*-?\d+\s*\]\s*", re.ASCII)
_BOX_OR_REFUSAL = re.compile(rf"{BOX.pattern}|\s*\[\s*-1\s*,\s*-1\s*\]\s*", re.ASCII)


def r_format(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> float:
    """1 if the reply has its objective's form, else 0. Empty tags are well formed; their content isn't judged here."""
    if truth.objective == "grounding":
        form = _BOX_OR_REFUSAL if config.boxes else _POINT
        bare = _bare(text, config)
        if config.free_form:
            return float(bare is not None and in_profile(bare, config.reply_profile, config.boxes))
        return float(bare is not None and form.fullmatch(bare) is not None)
    if config.free_form:
        return float(step_in_profile(text, config.reply_profile, truth.space, truth.size_px))
    # each tag once: of two action blocks no reader could know which one counts
    return float(actions.parse_reply(text, truth.space).tags_ok and all(text.count(tag) == 1 for tag in _TAGS))


def _bare(text: str, config: RewardConfig) -> str | None:
    """A grounding reply without the confidence that it was asked for; None where it states none."""
    return without_confidence(text) if config.w_confidence else text


def r_point(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> float:
    """1 if the point lies in one of the target boxes, borders included; a refusal sample expects [-1,-1]."""
    return float(point_hit(_point(text, truth, config), truth.boxes, truth.refusal))


def _point(text: str, truth: ReplyTarget, config: RewardConfig) -> tuple[float, float] | None:
    return profile_point(text, config.reply_profile, truth.size_px)


def predicted(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> actions.Action | None:
    """The action of a navigation reply, read by the profile; None where it holds none."""
    return profile_step(text, config.reply_profile, truth.space, truth.size_px).action


def unreadable(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> bool:
    """Whether a reply holds neither the point nor the action that was asked for, so that every term of it is 0 whatever
    the model meant."""
    if truth.objective == "grounding":
        return _point(text, truth, config) is None
    return predicted(text, truth, config) is None


def r_iou(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> float:
    """Overlap of the stated box with a true one, see `box_reward.best_iou`."""
    return best_iou(_bare(text, config) or "", truth.boxes, config.reply_profile, truth.size_px)


def r_box_size(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> float:
    """What the stated box loses by its size, see `box_reward.size_agreement`."""
    return size_agreement(_bare(text, config) or "", truth.boxes, config.reply_profile, truth.size_px)


def r_confidence(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> float:
    """How near the stated confidence is to the one that the point deserves, see `confidence.confidence_reward`."""
    return confidence_reward(text, truth.boxes, truth.refusal, config.spread, config.reply_profile, truth.size_px)


def point_hit(point: tuple[float, float] | None, boxes: Sequence[Box], refusal: bool = False) -> bool:
    """Whether a grounding point is right: in one of the boxes, or (-1, -1) where refusal is the truth."""
    if point is None:
        return False
    if refusal or point == REFUSED:
        return refusal and point == REFUSED
    return any(contains(list(box), point) for box in boxes)


def r_action(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> float:
    """R_type + (R_content | R_coord), see `score_action`; an unparsable reply is 0."""
    if truth.action is None:
        raise ValueError("r_action: expected a true action, found none")
    return score_action(predicted(text, truth, config), truth.action, truth.boxes, config)


def score_action(
    prediction: actions.Action | None, truth: actions.Action, boxes: Sequence[Box] = (), config: RewardConfig = DEFAULT
) -> float:
    """R_action in 0..1 + max(1, α, 1.5 β): 1 for the type, and what the arguments earn on top.

    Actions without parameters, and Finished, whose text isn't scored, earn the type alone.
    """
    prediction, truth = as_pressed(prediction), as_pressed(truth)
    if prediction is None or not type_match(prediction, truth):
        return 0.0
    return 1.0 + _arguments(prediction, truth, boxes, config)


def _arguments(prediction: Any, truth: Any, boxes: Sequence[Box], config: RewardConfig) -> float:
    if isinstance(truth, POINTED):
        return _r_coord(prediction.box, truth.box, boxes, config)  # type: ignore[attr-defined]
    if isinstance(truth, actions.SelectOption):  # half for the list, half for the option
        return (_r_coord(prediction.box, truth.box, boxes, config) + content_f1(prediction.option, truth.option)) / 2
    if isinstance(truth, actions.Drag):
        ends = ((prediction.start, truth.start), (prediction.end, truth.end))
        return sum(_r_coord(found, expected, (), config) for found, expected in ends) / 2
    if isinstance(truth, actions.Scroll):
        return _r_scroll(prediction, truth, config)
    if isinstance(truth, actions.Hotkey):
        return config.alpha * _same_keys(prediction, truth)
    if isinstance(truth, actions.Type | actions.CallUser | actions.TakeNote):
        return content_f1(prediction.content, truth.content)
    if isinstance(truth, actions.Launch):
        return _launch_f1(prediction, truth)
    return 0.0


def _r_coord(found: actions.Point, expected: actions.Point, boxes: Sequence[Box], config: RewardConfig) -> float:
    """α if d < δ2 (box-aware: if inside a target box), 0.5 α if d < δ1, else 0."""
    distance = math.dist(found, expected)
    if config.box_aware and boxes:
        near = any(contains(list(box), found) for box in boxes)
    else:
        near = distance < config.delta2
    if near:
        return config.alpha
    return 0.5 * config.alpha if distance < config.delta1 else 0.0


def _r_scroll(found: actions.Scroll, expected: actions.Scroll, config: RewardConfig) -> float:
    """1.5 β start, end and direction; β start and direction; 0.5 β either; a truth without points: 1.5 β or 0."""
    same_way = actions.direction_of(found) == actions.direction_of(expected)
    if expected.start is None or expected.end is None:
        return 1.5 * config.beta * same_way
    start = found.start is not None and math.dist(found.start, expected.start) < config.delta3
    end = found.end is not None and math.dist(found.end, expected.end) < config.delta3
    if start and same_way:
        return config.beta * (1.5 if end else 1.0)
    return 0.5 * config.beta * (start or same_way)


def _same_keys(prediction: actions.Hotkey, truth: actions.Hotkey) -> bool:
    return set(prediction.keys) == set(truth.keys)


def _launch_f1(prediction: actions.Launch, truth: actions.Launch) -> float:
    """F1 of the name or of the address; an app for a URL, or the reverse, earns nothing."""
    if bool(prediction.app) != bool(truth.app):
        return 0.0
    if truth.url:
        return float(same_address(prediction.url, truth.url))
    return content_f1(prediction.app, truth.app)


# CJK punctuation, kana, ideographs and Hangul: written without blanks, so a character counts as a word
_CJK = "\u3001-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
_WORDS = re.compile(rf"[{_CJK}]|[^\s{_CJK}]+")


def content_f1(found: str, expected: str) -> float:
    """F1 over multisets of casefolded words (split at blanks; CJK characters one by one); both empty = 1."""
    one, other = (Counter(_WORDS.findall(text.casefold())) for text in (found, expected))
    if not one and not other:
        return 1.0
    # of each word as many as both have
    common = (one & other).total()
    return 2.0 * common / (one.total() + other.total())


def type_match(prediction: actions.Action | None, truth: actions.Action) -> bool:
    """Whether both are of the same action type; the Enter key is PressEnter, however it is written."""
    return type(as_pressed(prediction)) is type(as_pressed(truth))


def as_pressed(action: object) -> Any:
    """The Enter key alone as `PressEnter`; any other action itself."""
    return actions.pressed(action.keys) if isinstance(action, actions.Hotkey) else action


def step_success(
    prediction: actions.Action | None,
    truth: actions.Action,
    target_box: Box | None = None,
    config: RewardConfig = DEFAULT,
) -> bool:
    """Whether a predicted step would have done: the all-or-nothing measure of evaluation, beside the graded reward.

    Type equal, and: a point inside the target box or d < δ2; both ends of a drag d < δ2; scroll direction equal; the
    same set of keys; content F1 ≥ 0.5; of a choice the point, and the option's words all of them. Finished and actions
    without parameters need the type alone.
    """
    prediction, truth = as_pressed(prediction), as_pressed(truth)
    if prediction is None or not type_match(prediction, truth):
        return False
    found: Any = prediction
    if isinstance(truth, AT_A_POINT):
        # half a label is another option
        if isinstance(truth, actions.SelectOption) and content_f1(found.option, truth.option) < 1:
            return False
        near = math.dist(found.box, truth.box) < config.delta2  # type: ignore[attr-defined]
        return near or (target_box is not None and contains(list(target_box), found.box))
    if isinstance(truth, actions.Drag):
        return max(math.dist(found.start, truth.start), math.dist(found.end, truth.end)) < config.delta2
    if isinstance(truth, actions.Scroll):
        return actions.direction_of(found) == actions.direction_of(truth)
    if isinstance(truth, actions.Hotkey):
        return _same_keys(found, truth)
    if isinstance(truth, actions.Type | actions.CallUser | actions.TakeNote):
        # where the first report's content reward set in (docs/method.md §6)
        return content_f1(found.content, truth.content) >= 0.5
    if isinstance(truth, actions.Launch):
        return _launch_f1(found, truth) >= 0.5
    return True


def succeeds(text: str, truth: ReplyTarget, config: RewardConfig) -> bool:
    """Whether a reply does the step: point in box (or right refusal) for grounding, `step_success` for navigation."""
    if truth.action is None:
        return point_hit(_point(text, truth, config), truth.boxes, truth.refusal)
    action = predicted(text, truth, config)
    # without boxes the distance alone decides
    return any(step_success(action, truth.action, box, config) for box in truth.boxes or (None,))


@dataclass(frozen=True)
class Term:
    """A reward term: its objectives, its weight, and the closed range that its value never leaves.

    An `optional` one isn't asked about while it has no weight.
    """

    objectives: tuple[str, ...]
    function: Callable[[str, ReplyTarget, RewardConfig], float]
    weight: Callable[[RewardConfig], float]
    bounds: Callable[[RewardConfig], tuple[float, float]]
    optional: bool = False


TERMS: dict[str, Term] = {
    "format": Term(("grounding", "navigation"), r_format, lambda c: c.w_format, lambda c: (0.0, 1.0)),
    "point": Term(("grounding",), r_point, lambda c: c.w_answer, lambda c: (0.0, 1.0)),
    "action": Term(
        ("navigation",), r_action, lambda c: c.w_answer, lambda c: (0.0, 1.0 + max(1.0, c.alpha, 1.5 * c.beta))
    ),
    "iou": Term(("grounding",), r_iou, lambda c: c.w_iou, lambda c: (0.0, 1.0), optional=True),
    "box_size": Term(("grounding",), r_box_size, lambda c: c.w_box_size, lambda c: (-1.0, 0.0), optional=True),
    "confidence": Term(("grounding",), r_confidence, lambda c: c.w_confidence, lambda c: (0.0, 1.0), optional=True),
}


def _asked(objective: str, config: RewardConfig) -> dict[str, Term]:
    """The terms that a reply of an objective is judged by."""
    return {
        name: term
        for name, term in TERMS.items()
        if objective in term.objectives and not (term.optional and not term.weight(config))
    }


def score(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> dict[str, float]:
    """The terms of a reply by name (unweighted), and their weighted sum as `total`."""
    terms = {name: term.function(text, truth, config) for name, term in _asked(truth.objective, config).items()}
    total = sum(TERMS[name].weight(config) * value for name, value in terms.items())
    own = reply_values(config.reply_terms, text, truth)
    return {**terms, **labelled(own), "total": total + weighted(config.reply_terms, own)}


def reward(text: str, truth: ReplyTarget, config: RewardConfig = DEFAULT) -> float:
    """R of a reply: the `total` of `score`."""
    return score(text, truth, config)["total"]


def group_scores(texts: Sequence[str], truth: ReplyTarget, config: RewardConfig = DEFAULT) -> list[dict[str, float]]:
    """The `score` of each of the replies to one question, with what only the group shows: their agreement, for
    grounding, as the term `consistency`."""
    scores = [score(text, truth, config) for text in texts]
    if truth.objective == "grounding" and config.w_consistency:
        # K replies vote together: the only term that needs the group and no truth
        agreed = region_consistency(texts, config.region, config.reply_profile, truth.size_px)
        scores = [
            {**one, "consistency": more, "total": one["total"] + config.w_consistency * more}
            for one, more in zip(scores, agreed, strict=True)
        ]
    if config.group_terms:
        found = group_values(config.group_terms, texts, truth)
        scores = [
            {**one, **labelled(own), "total": one["total"] + weighted(config.group_terms, own)}
            for one, own in zip(scores, found, strict=True)
        ]
    return scores


def bounds(objective: str, config: RewardConfig = DEFAULT) -> tuple[float, float]:
    """The range of `reward` for an objective, and of `group_scores` where agreement counts."""
    terms = _asked(objective, config).values()
    low, high = (sum(term.weight(config) * term.bounds(config)[end] for term in terms) for end in (0, 1))
    own_low, own_high = map(sum, zip(total_bounds(config.reply_terms), total_bounds(config.group_terms), strict=True))
    return low + own_low, high + own_high + (config.w_consistency if objective == "grounding" else 0.0)
