"""Suites asked and read as the authors of a published model do (`generators.policies.profiles`)."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from generators.policies.policy import PastTurn, PolicyView
from generators.policies.profiles.asking import ProfilePrompter, sampling_of
from generators.policies.profiles.profile import Profile
from generators.policies.profiles.replies import read_place
from pipelines.prompts import reply_text
from pipelines.store.images import encode_png
from schemas.action_types import REFUSED, Scroll
from schemas.actions import parse
from trainer.modeling.batches import Row, row_images
from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.generation import Completion
from trainer.reading.read import read
from trainer.serving.serve import ChatServer, serving
from trainer.settings.reading import Mode, Reading
from trainer.suites.answering import EndpointAnswers, SuiteAnswer, checkpoint_name
from trainer.suites.options import EvaluationSubject


class ProfiledAnswers(EndpointAnswers):
    """A model behind `/v1/chat/completions`, asked by several threads at once. `max_new_tokens` and `reading` are in
    the place of the profile's; with `zoom` a grounding question is asked again of the part around its first answer."""

    def __init__(
        self,
        base_url: str,
        model: str,
        profile: Profile,
        *,
        workers: int = 4,
        max_new_tokens: int | None = None,
        reading: Mode | None = None,
    ) -> None:
        most = max_new_tokens or profile.sampling.max_tokens
        super().__init__(base_url, model, workers=workers, max_answer_tokens=most)
        self._profile, self._most, self._prompter = profile, max_new_tokens, ProfilePrompter(profile)
        # a profile's own zoom wins over the mode's usual one
        zoom = 0.0 if reading == "whole" else profile.zoom or (2.0 if reading == "zoom" else 0.0)
        self._reading = Reading(mode="zoom", zoom=zoom) if zoom else Reading()

    def _answer(self, row: Row, max_new_tokens: int) -> SuiteAnswer:
        try:
            # Steps are read by the profile whole; only points are looked at a second time.
            if row["objective"] != "grounding":
                return self._step(row)
            return self._point(row) if self._reading.mode == "whole" else self._zoomed(row)
        except ValueError as bad:  # a picture that can't be decoded or resized
            return SuiteAnswer("", f"unreadable: {bad}"[:300])

    def _zoomed(self, row: Row) -> SuiteAnswer:
        replies: list[str] = []

        def ask(rows: Sequence[Row]) -> list[Completion]:
            answers = [self._point(one) for one in rows]
            replies.extend(answer.said for answer in answers)
            # `read` wants tokens for nothing here: the text decides
            return [Completion(0, 0, text=answer.text) for answer in answers]

        [found] = read([row], self._reading, ask, encode_png)
        return SuiteAnswer(found.text, said="\n".join(replies), profiled=True)

    def _point(self, row: Row) -> SuiteAnswer:
        """Where something is, with decimals: what a frame of pixels says isn't rounded to thousandths."""
        profile, [png, *_] = self._profile, row_images(row)
        sampling = sampling_of(profile, profile.grounding, most=self._most)
        said = self._endpoint.ask(self._prompter.grounding(row["goal"], png), sampling).text
        place = read_place(said, profile, self._prompter.size(png))
        # three decimals: a thousandth of a thousandth is far below a pixel
        text = "" if place is None else "[-1,-1]" if place == REFUSED else f"[{place[0]:.3f},{place[1]:.3f}]"
        return SuiteAnswer(text, said=said, profiled=True)

    def _step(self, row: Row) -> SuiteAnswer:
        """The next action, in the three tags, without what was thought, which may hold tags."""
        past = tuple(
            PastTurn(parse(action) if action else None, *words)
            for action, words in zip(row["past"], row["past_words"], strict=True)
        )
        view = PolicyView(row["goal"], row_images(row)[0], (1, 1), row["platform"], past)
        sampling = sampling_of(self._profile, self._profile.prompt(view.platform), most=self._most)
        reply_said = self._endpoint.ask(self._prompter.messages(view), sampling).text
        reply = self._prompter.read(reply_said, view)
        text = ""
        if reply.action is not None:  # the form of a phone keeps a scroll's points
            pointed = isinstance(reply.action, Scroll) and reply.action.start is not None
            text = reply_text(reply.action, "mobile" if pointed else "web")
        return SuiteAnswer(text, said=reply_said, profiled=True)


@contextmanager
def served(subject: EvaluationSubject) -> Iterator[EvaluationSubject]:
    """A checkpoint as a served model of this machine, for as long as it is evaluated: profiles ask by the protocol. It
    sees pictures of as many pixels as the profile sends."""
    assert subject.checkpoint is not None and subject.profile is not None
    loaded = _seeing(load_checkpoint(subject.checkpoint, device=subject.device), subject.profile)
    server = ChatServer(loaded, name=checkpoint_name(loaded))
    with serving(server) as (url, _):
        yield replace(subject, checkpoint=None, base_url=url, model=server.name, here=True)


def _seeing(checkpoint: Checkpoint, profile: Profile) -> Checkpoint:
    processor = checkpoint.processor.apart()
    # A copy: the processor's pictures are shared with whoever else holds the checkpoint.
    images: Any = copy.copy(processor.images)
    if profile.picture.factor > 1:
        images.size = {"shortest_edge": profile.picture.least, "longest_edge": profile.picture.most}
    processor.images = images
    # the profile says how screens are looked at, so the server looks once
    processor.preset = replace(processor.preset, reading=Reading())
    return replace(checkpoint, processor=processor)
