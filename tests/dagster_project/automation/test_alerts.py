"""A run that failed, and a check that has begun to warn, are told: to real HTTP and SMTP servers on loopback."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from toy_stage import toy_stage

from dagster_project import definitions
from dagster_project.assets import factory
from dagster_project.assets.resources import JudgeResource, StoreResource
from dagster_project.automation import alerts
from dagster_project.automation.alerts import Alert, AlertError
from dagster_project.settings import deployment
from dagster_project.settings.deployment import Alerts, Email
from dagster_project.stages.stage import StageWork
from pipelines.store import CheckSpec, Manifest

FAILURE = Alert("refresh_sources", "1234", (("raw__aitw", "expected native files, found none"),), url="http://ui/1234")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "WAIT_S", 0.01)
    for name in ("VESPER_ALERT_WEBHOOK", "VESPER_ALERT_SMTP_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]  # type: ignore[misc,index]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def webhook(*statuses: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(URL, bodies posted). It answers with `statuses` in turn, then with 200."""
    waiting, got = list(statuses), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status = waiting.pop(0) if waiting else 200
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with _running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/room/secret", got


@contextmanager
def smtp(refuse: str | None = None) -> Iterator[tuple[int, list[Message]]]:
    """(port, mails). It speaks what a client needs to hand in a mail; RFC 5321, section 3. `refuse`: recipients whose
    address holds this text ("" for all)."""
    got: list[Message] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 test")
            while line := self.rfile.readline().decode().strip():
                word = line[:4].upper()
                if word == "DATA":
                    self._say("354 go on")
                    lines = []
                    while (one := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                        lines.append(one.removeprefix("."))
                    got.append(message_from_string("\n".join(lines)))
                    self._say("250 taken")
                elif word == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    refused = word == "RCPT" and refuse is not None and refuse in line
                    self._say("550 not you" if refused else "250 test")

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with _running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield port, got


def _email(port: int) -> Email:
    return Email.parsed(
        {"to": ["a@example.org", "b@example.org"], "from": "vesper@example.org", "host": "127.0.0.1", "port": port}
    )


def test_both_ways_tell_the_same() -> None:
    with webhook() as (url, posted), smtp() as (port, mailed):
        assert alerts.deliver(FAILURE, Alerts(webhook=url, email=_email(port))) == ["webhook", "email"]
    [body], [message] = posted, mailed
    assert body["job"] == "refresh_sources" and body["run_id"] == "1234" and body["url"] == "http://ui/1234"
    assert "- raw__aitw: expected native files, found none" in body["text"].splitlines()
    assert message["Subject"] == "Vesper: refresh_sources failed" and message["To"] == "a@example.org, b@example.org"
    assert str(message.get_payload()).strip() == body["text"]


def test_a_busy_server_is_asked_again_and_nobody_keeps_others_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook(503, 500) as (url, posted):
        assert alerts.deliver(FAILURE, Alerts(webhook=url)) == ["webhook"]
        assert len(posted) == 3
    monkeypatch.setenv("VESPER_ALERT_WEBHOOK", url)
    with smtp() as (port, mailed), pytest.raises(AlertError) as told:
        alerts.deliver(FAILURE, Alerts(email=_email(port)))
    assert len(mailed) == 1 and "webhook: 127.0.0.1 can't be reached" in str(told.value)
    assert "secret" not in str(told.value)


def test_what_cannot_be_delivered_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with smtp(refuse="") as (port, mailed):
        with pytest.raises(AlertError, match="email: 127.0.0.1"):
            alerts.deliver(FAILURE, Alerts(email=_email(port)))
        with pytest.raises(AlertError, match="set \\$VESPER_ALERT_SMTP_PASSWORD"):
            alerts.deliver(FAILURE, Alerts(email=_email(port).changed(user="vesper")))
        assert mailed == []
    with webhook(302, 302, 302) as (url, _), pytest.raises(AlertError, match="HTTP 302"):
        alerts.deliver(FAILURE, Alerts(webhook=url))
    assert alerts.deliver(FAILURE, Alerts()) == []


class _Silent(socketserver.StreamRequestHandler):
    """A port where something answers that speaks no HTTP."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"-ERR what?\r\n")


def test_a_port_that_speaks_no_http_keeps_no_mail_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with _running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Silent)) as other, smtp() as (port, mailed):
        with pytest.raises(AlertError, match=r"webhook: 127.0.0.1 can't be reached \(BadStatusLine\)"):
            alerts.deliver(FAILURE, Alerts(webhook=f"http://127.0.0.1:{other}/room/secret", email=_email(port)))
        assert len(mailed) == 1
        monkeypatch.setenv("VESPER_ALERT_WEBHOOK", f"http://127.0.0.1:{other}/room/my secret")
        with pytest.raises(AlertError, match="without blanks in \\$VESPER_ALERT_WEBHOOK") as told:
            alerts.deliver(FAILURE, Alerts(email=_email(port)))
        assert len(mailed) == 2 and "secret" not in str(told.value)


def test_a_way_that_breaks_is_told_by_the_errors_type_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(url: str, alert: Alert) -> None:
        raise RuntimeError(f"no idea what to do with {url}")

    monkeypatch.setattr(alerts, "post", broken)
    with smtp() as (port, mailed), pytest.raises(AlertError, match=r"webhook: not sent \(RuntimeError\)") as told:
        alerts.deliver(FAILURE, Alerts(webhook="http://127.0.0.1/room/secret", email=_email(port)))
    assert len(mailed) == 1 and "secret" not in str(told.value) and told.value.__context__ is None


def test_a_recipient_who_was_refused_is_named_and_the_others_are_told_once() -> None:
    with smtp(refuse="b@") as (port, mailed), pytest.raises(AlertError, match=r"refused b@example.org \(550\)"):
        alerts.deliver(FAILURE, Alerts(email=_email(port)))
    assert len(mailed) == 1, "a would have it twice"


def test_a_reason_with_lines_changes_no_header() -> None:
    evil = replace(FAILURE, job="x", failed=(("step", "a\r\nBcc: c@example.org"),))
    with smtp() as (port, mailed):
        alerts.mail(_email(port), evil)
    assert mailed[0]["Bcc"] is None


def test_a_failed_run_is_told_by_the_sensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dg.op
    def good() -> int:
        return 1

    @dg.op
    def bad(one: int) -> None:
        raise ValueError("expected 2, found 1\nmore")

    @dg.op
    def lacking() -> None:
        raise dg.Failure("judge: nobody answers", allow_retries=False)

    @dg.job(tags={"source": "aitw"})
    def refresh_sources() -> None:
        bad(good())
        lacking()

    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d.yaml"))
    instance = dg.DagsterInstance.ephemeral()
    run = refresh_sources.execute_in_process(
        {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}, instance=instance, raise_on_error=False
    )
    loaded = definitions.build(deployment.Deployment(raw_root=tmp_path))
    sensor = loaded.resolve_sensor_def("tell_of_failures")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    context = dg.build_run_status_sensor_context(
        sensor.name, run.get_run_failure_event(), instance, run.dagster_run
    ).for_run_failure()
    with webhook() as (url, posted):
        (tmp_path / "d.yaml").write_text(f'alerts: {{webhook: "{url}", ui: "http://127.0.0.1:3000/"}}\n')
        sensor(context)
    [body] = posted
    assert body["url"] == f"http://127.0.0.1:3000/runs/{run.run_id}" and "source: aitw" in body["text"]
    told = {one["step"]: one["reason"] for one in body["failed"]}
    assert told == {"bad": "ValueError: expected 2, found 1", "lacking": "judge: nobody answers"}
    (tmp_path / "d2.yaml").write_text("alerts: {webhook: null}\n")
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d2.yaml"))
    assert isinstance(sensor(context), dg.SkipReason)


QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def test_a_check_that_begins_to_warn_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Night after night, as a check of a source finds nothing, a new column, the same, another one, and a fault."""
    found: list[str] = []
    blocking: list[bool] = []

    @dg.asset(key=["unified", "aitw"], check_specs=[dg.AssetCheckSpec("vocabulary_known", asset=["unified", "aitw"])])
    def unified() -> Iterator[dg.MaterializeResult[None]]:
        severity = dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN
        told = f"found {found[-1]}, expected none\nmore" if found else None
        check = dg.AssetCheckResult(passed=not found, severity=severity, description=told)
        yield dg.MaterializeResult(check_results=[check])

    job = dg.Definitions([unified], jobs=[dg.define_asset_job("refresh_sources")]).resolve_job_def("refresh_sources")
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d.yaml"))
    sensor = definitions.build(deployment.Deployment(raw_root=tmp_path)).resolve_sensor_def("tell_of_warnings")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    with webhook() as (url, posted), dg.DagsterInstance.ephemeral() as instance:
        (tmp_path / "d.yaml").write_text(f'alerts: {{webhook: "{url}", ui: "http://ui"}}\n')

        def night() -> Any:
            return told_of(job.execute_in_process(QUIET, instance=instance))

        def told_of(run: dg.ExecuteInProcessResult) -> Any:
            return sensor(
                dg.build_run_status_sensor_context(sensor.name, run.get_run_success_event(), instance, run.dagster_run)
            )

        assert isinstance(night(), dg.SkipReason) and not posted
        found.append("1 new: color")
        assert night() is None and len(posted) == 1
        assert posted[0]["warned"] == [
            {"asset": "unified/aitw", "check": "vocabulary_known", "found": "found 1 new: color, expected none"}
        ]
        lines = posted[0]["text"].splitlines()
        assert lines[1] == "- unified/aitw: vocabulary_known: found 1 new: color, expected none"
        assert lines[0] == "Vesper: refresh_sources has 1 new warning" and lines[-1].startswith("http://ui/runs/")
        assert isinstance(night(), dg.SkipReason) and len(posted) == 1, "it was told"
        found.append("2 new: color, size")
        late, after = (job.execute_in_process(QUIET, instance=instance) for _ in range(2))
        assert told_of(late) is None and len(posted) == 2, "though the next run has ended meanwhile"
        assert isinstance(told_of(after), dg.SkipReason) and len(posted) == 2
        blocking.append(True)
        assert isinstance(night(), dg.SkipReason) and len(posted) == 2, "what blocks fails the run, or what comes after"
        (tmp_path / "d2.yaml").write_text("alerts: {webhook: null}\n")
        monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d2.yaml"))
        blocking.clear()
        found.append("3 new: color, size, x")
        assert "nobody" in str(night().skip_message)


@pytest.mark.parametrize(
    ("groups", "told"),
    [(("checkpoints",), "checkpoints/one, checkpoints/two"), (("checkpoints", "evaluations"), "4 assets of ")],
)
def test_a_run_without_a_job_is_named_by_its_assets(groups: tuple[str, ...], told: str) -> None:
    """As the training tail starts them, and who materialises a few assets from the lineage view."""

    def made(group: str, name: str) -> dg.AssetsDefinition:
        @dg.asset(key=[group, name])
        def broken() -> None:
            raise ValueError("expected a GPU, found none")

        return broken

    assets = [made(group, name) for group in groups for name in ("one", "two")]
    with dg.DagsterInstance.ephemeral() as instance:
        job = dg.Definitions(assets).resolve_implicit_global_asset_job_def()
        chosen = [key for asset in assets for key in asset.keys]
        done = job.execute_in_process(
            {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=instance,
            raise_on_error=False,
            asset_selection=chosen,
        )
        context = dg.build_run_status_sensor_context(
            "tell_of_failures", done.get_run_failure_event(), instance, done.dagster_run
        ).for_run_failure()
        failure = alerts.failure_of(context, Alerts())
    wanted = told + ", ".join(groups) if told.endswith("of ") else told
    assert done.dagster_run.job_name.startswith("__") and failure.subject == f"Vesper: {wanted} failed"
    assert {step for step, _ in failure.failed} == {f"{group}__{name}" for group in groups for name in ("one", "two")}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("{webhook: ftp://x}", "d.yaml: alerts.webhook: expected an http"),
        ("{email: {to: a@b.org, from: c@d.org}}", "alerts.email.to: expected a list, found"),
        ('{email: {to: ["a@b.org\\nBcc: x@y.org"], from: c@d.org}}', "alerts.email.to.0: expected an address"),
        (
            "{email: {to: [a@b.org], from: c@d.org, port: 0}}",
            "alerts.email.port: expected a whole number, 1 or more and",
        ),
        ("{email: {to: [a@b.org], from: c@d.org, password: x}}", "unknown 'password'"),
    ],
)
def test_settings_that_nobody_could_use_are_refused(tmp_path: Path, said: str, wanted: str) -> None:
    (tmp_path / "d.yaml").write_text(f"alerts: {said}\n")
    with pytest.raises(deployment.DeploymentError, match=wanted):
        deployment.load(tmp_path / "d.yaml")


def test_a_failed_check_that_blocks_is_told_by_its_name_and_in_plain_words(tmp_path: Path) -> None:
    lost = CheckSpec("nothing lost", "Items are gone")
    known = CheckSpec("vocabulary known", "A new word", blocking=False)
    found = [lost.check(False, "2 of `a_*.json`", "<3>"), known.check(False, "a|b", "none")]

    def run(work: StageWork) -> Manifest:
        with work.store.build("reports/x", code_version="1") as build:
            return build.commit(checks=found)

    assets = factory.build({"reports/x": toy_stage("reports/x", lost, known, run=run)})
    resources = {"store": StoreResource(home=str(tmp_path)), "judge": JudgeResource()}
    job = dg.Definitions(assets, jobs=[dg.define_asset_job("nightly")], resources=resources)
    with dg.DagsterInstance.ephemeral() as instance:
        run_ = job.resolve_job_def("nightly").execute_in_process(QUIET, instance=instance, raise_on_error=False)
        context = dg.build_run_status_sensor_context(
            "s", run_.get_run_failure_event(), instance, run_.dagster_run
        ).for_run_failure()
        alert = alerts.failure_of(context, deployment.Deployment(raw_root=tmp_path).alerts)
        [evaluation] = [one for one in run_.get_asset_check_evaluations() if one.check_name == "nothing_lost"]
    assert alert.failed == (("reports__x", "nothing_lost: found 2 of `a_*.json`, expected <3>"),)
    assert alert.warned == (("reports/x", "vocabulary_known", "found a|b, expected none"),)
    assert evaluation.description == "found 2 of \\`a\\_\\*.json\\`, expected &lt;3&gt;"
