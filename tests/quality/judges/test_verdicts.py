"""Verdicts of a source under a nightly ceiling: pending items wait, nothing is scored null, nothing is asked twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from openai_server import OpenAIServer

from pipelines.store import PartSpec, Store
from pipelines.store.manifest import Manifest
from quality.items.part import load_part
from quality.judges.judge import Verdict
from quality.judges.nightly import ceiling_of, clients_of, prices_of
from quality.judges.openai_judge import OpenAIJudge
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.rules import RulesJudge
from quality.judges.verdicts import judge_source, read_pending, split_items, split_pending
from quality.model_client.client import Ceiling, ModelClient, Prices, Request, Retry
from quality.model_client.errors import ModelError
from schemas.actions import Click, Wait
from schemas.tables import Samples, Steps

PARTS, EPISODES = 3, 4
REQUESTS = PARTS * EPISODES * 3  # an episode and its two steps
QUICK = Retry(attempts=4, base_s=0.01, cap_s=0.05, timeout_s=5, deadline_s=30, breaker_limit=6)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(latency_s=0.005) as made:
        yield made


@pytest.fixture
def store(tmp_path, world, buttons) -> Store:
    """A unified source of three parts, four episodes each."""
    made = Store(tmp_path)
    page, after = world.page(buttons), world.page(buttons, note="x")
    for data in world.data.values():
        made.put_screen(data)
    specs = [PartSpec(f"{k}", f"d{k}") for k in range(PARTS)]
    with made.build("unified/made", code_version="1", parts=specs) as build:
        for part, spec in enumerate(specs):
            rows = []
            for number in range(EPISODES):
                more = {"episode_id": f"e{part}{number}", "instruction": f"goal {part} {number}"}
                rows.append(world.row(0, Click((750, 195)), page, step_instruction="Tap Search", **more))
                rows.append(world.row(1, Wait(), after, **more))

            def run(out, rows=rows):
                out.table("steps", Steps.table(rows))
                out.table("samples", Samples.schema.empty_table())
                out.table("screens", world.bank()._screens)

            build.run_part(spec, run)
        build.commit()
    return made


def judge_of(server: OpenAIServer, store: Store, ceiling: Ceiling | None = None, **more) -> OpenAIJudge:
    return OpenAIJudge(
        server.url, "m", store.home / "cache" / "judge", retry=QUICK, ceiling=ceiling, concurrency=4, **more
    )


def ids_of(manifest: Manifest) -> tuple[list[str], set[str]]:
    """(ids with a verdict, pending ids)"""
    pending = {item_id for key in manifest.part_hashes for item_id in read_pending(manifest, key)}
    return manifest.read("verdicts").column("item_id").to_pylist(), pending


def files_of(manifest: Manifest) -> dict[str, bytes]:
    return {entry.path: (manifest.root / entry.path).read_bytes() for entry in manifest.files}


def test_what_a_night_leaves_is_pending_and_asked_the_next(server, store):
    free = judge_of(server, store)
    everything = {v.item_id for k in range(PARTS) for v in free.judge(load(store, k))}
    server.asked.clear()
    (store.home / "cache" / "judge").rename(store.home / "elsewhere")

    tonight = Ceiling(requests=17, night="2026-01-01")
    first = judge_source(store, "made", judge_of(server, store, tonight))
    judged, pending = ids_of(first)
    assert server.asked.total() == 17 and pending
    assert sorted([*judged, *pending]) == sorted(everything) and None not in first.read("verdicts")["score"].to_pylist()
    assert first.checks_passed and first.counts["pending"] == sum(i.startswith("step:") for i in pending)
    assert first.counts["items"] == PARTS * EPISODES * 2 and first.counts["keep"] + first.counts["pending"] == 24
    assert [check.name for check in first.checks if not check.passed] == ["nothing is pending"]
    kept = files_of(first)

    again = judge_source(store, "made", judge_of(server, store, tonight))
    assert (again.version, again.data_version, server.asked.total()) == (first.version, first.data_version, 17)

    second = judge_source(store, "made", judge_of(server, store, Ceiling(requests=17, night="2026-01-02")))
    third = judge_source(store, "made", judge_of(server, store, Ceiling(requests=17, night="2026-01-03")))
    assert 17 < server.asked.total() == REQUESTS and set(server.asked.values()) == {1}
    judged, pending = ids_of(third)
    assert sorted(judged) == sorted(everything) and not pending and third.counts["pending"] == 0
    assert files_of(first) == kept and len({first.version, second.version, third.version}) == 3
    assert all(check.passed for check in third.checks)

    later = judge_source(store, "made", judge_of(server, store, Ceiling(requests=0, night="2026-02-01")))
    unlimited = judge_source(store, "made", judge_of(server, store))
    assert later.version == unlimited.version == third.version and server.asked.total() == REQUESTS
    without_ceiling(server, store, third)


def without_ceiling(server: OpenAIServer, store: Store, finished: Manifest) -> None:
    """A source judged in one go has the same bytes as one judged over three nights."""
    other = Store(store.home / "other")
    (other.home / "assets").mkdir(parents=True)
    for name in ("assets/unified", "screens"):
        (other.home / name).symlink_to(store.home / name)
    once = judge_source(other, "made", judge_of(server, store))
    assert once.data_version == finished.data_version and once.version == finished.version


def load(store: Store, part: int):
    return load_part(store.require("unified/made"), str(part), store).items


def test_a_raised_ceiling_counts_in_the_same_night(server, store):
    judge_source(store, "made", judge_of(server, store, Ceiling(requests=5, night="2026-01-01")))
    raised = judge_source(store, "made", judge_of(server, store, Ceiling(requests=500, night="2026-01-01")))
    assert raised.counts["pending"] == 0 and server.asked.total() == REQUESTS


def test_an_unchanged_rerun_asks_nothing_and_the_bill_is_of_the_answers(server, store):
    prices = Prices(prompt=1.0, completion=2.0)
    first = judge_source(store, "made", judge_of(server, store, prices=prices))
    bill = first.counts["bill"]
    assert (bill["answers"], bill["prompt_tokens"]) == (REQUESTS, 100 * REQUESTS)
    assert bill["cost"] == pytest.approx(REQUESTS * 120 / 1e6)
    assert bill["cost_per_verdict"] == pytest.approx(120 / 1e6)
    judge = judge_of(server, store, prices=prices)
    again = judge_source(store, "made", judge)
    assert again.to_json() == first.to_json() and judge.client.requests_sent == 0
    assert "costs" not in {entry.table for entry in first.files}  # money stays out of the hashed files


@pytest.mark.parametrize("name", ["cascade", "ensemble"])
def test_the_bill_of_several_clients_is_in_their_prices(server, store, name):
    prices = Prices(prompt=1.0, completion=2.0)
    config = JudgeConfig(
        name, server.url, "m", second_model="n", members=("openai", "second"), client={"prices": prices, "retry": QUICK}
    )
    judge = build_judge(config)
    bill = judge_source(store, "made", judge).counts["bill"]
    assert bill["cost"] == pytest.approx((bill["prompt_tokens"] + 2 * bill["completion_tokens"]) / 1e6)
    assert bill["cost"] > 0 and "note" not in bill
    assert [client.model for client in clients_of(judge)] == ["m", "n"] and prices_of(judge) == prices
    assert clients_of(RulesJudge()) == [] and prices_of(RulesJudge()) == Prices()


def test_an_interrupt_stops_all_clients_of_a_judge(server, store):
    class Interrupted(RulesJudge):
        first, second = (ModelClient(server.url, model, None, retry=QUICK) for model in "mn")

        def judge(self, *_):
            for client in (self.first, self.second):
                assert client.ask(question)
            raise KeyboardInterrupt

    question = Request("t", "system", "question", (), {"alignment": int})
    with pytest.raises(KeyboardInterrupt):
        judge_source(store, "made", Interrupted())
    for client in (Interrupted.first, Interrupted.second):
        with pytest.raises(ModelError, match="interrupted"):
            client.ask(replace(question, text="another"))
        client.close()


def test_parts_are_judged_side_by_side(server, store):
    server.latency_s = 0.7
    judge = OpenAIJudge(server.url, "m", None, retry=QUICK, concurrency=24)
    judge_source(store, "made", judge)
    assert server.most_busy > EPISODES * 3  # more than a part has requests


def test_a_dead_endpoint_stops_the_asset_and_what_was_answered_stays(server, store):
    server.script = ["right"] * 10 + ["500"] * 1000
    with pytest.raises(ModelError, match="is dead"):
        judge_source(store, "made", judge_of(server, store))
    assert store.current("verdicts/made") is None
    answered = server.delivered.total()
    server.script = []
    judge_source(store, "made", judge_of(server, store))
    assert server.delivered.total() == REQUESTS and answered >= 10 and set(server.delivered.values()) == {1}


def test_an_episode_waits_as_a_whole(server, store):
    ceiling = Ceiling(requests=8, night="2026-01-01")
    judge = OpenAIJudge(server.url, "m", None, retry=QUICK, ceiling=ceiling, concurrency=1)
    items = load(store, 0)
    verdicts = judge.judge(items)
    judged, waiting = split_pending(verdicts)
    whole, left = split_items(items, waiting)
    assert [v.disposition for v in verdicts if v.item_id in waiting] == ["pending"] * len(waiting)
    assert len(judged) == 3 * len(whole) and len(waiting) == 3 * len(left)
    assert len(whole) in (1, 2) and len(whole) + len(left) == EPISODES  # eight answers, of at most three at a time
    assert all(v.score is None for v in verdicts if v.item_id in waiting)
    with pytest.raises(ValueError, match="pending items have no row"):
        verdicts[-1].as_row()
    with pytest.raises(ValueError, match="so it has no score"):
        Verdict("x", 8, None, "", 1.0, "j", "m", "v", pending=True)


def test_the_ceiling_of_a_judge_is_its_client_s_or_a_member_s(server, store):
    class Both:
        members = (RulesJudge(), judge_of(server, store, Ceiling(tokens=5, night="2026-01-01")))

    assert ceiling_of(Both()).tokens == 5 and ceiling_of(Both.members[1]).night == "2026-01-01"
    assert ceiling_of(RulesJudge()).requests is None
