"""A run has failed, or a check has begun to warn: alert people, by a webhook and by e-mail.

Where to is said in `deployment.yaml`; secrets come from the environment alone: $VESPER_ALERT_WEBHOOK (the URL of a chat
room is one) and $VESPER_ALERT_SMTP_PASSWORD. What runs and data say goes out as plain text.
"""

import http.client
import json
import smtplib
import ssl
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

import dagster as dg

from dagster_project.assets.checks import WORDS
from dagster_project.settings import deployment
from dagster_project.settings.deployment import Alerts, Email
from dagster_project.settings.environment import Environment

ATTEMPTS = 3
WAIT_S = 1.0
TIMEOUT_S = 20.0
STEPS, REASON = 10, 400
"""Failed steps, and assets that warn, that a message names, and how much of each one's reason."""
NOBODY = "nobody is named to be alerted (alerts of deployment.yaml)"
LOOKED_BACK = 50
"""Newest evaluations of a check among which those of a run and the one before it are."""
NAMED = 3
"""Assets of a run without a job that a message names; of more their groups."""


class AlertError(RuntimeError):
    """A message that couldn't be delivered, in one line without secrets."""


class PartlyDelivered(AlertError):
    """A message that some of its recipients have; sent again, they would have it twice."""


@dataclass(frozen=True, slots=True)
class Alert:
    """What is reported of a run. `job`: its name, or the assets of a run that is of no job. `failed`: (step, why) in
    the order in which they failed. `warned`: (asset, check, what it found) where that is new."""

    job: str
    run_id: str
    failed: tuple[tuple[str, str], ...] = ()
    warned: tuple[tuple[str, str, str], ...] = ()
    succeeded: bool = False
    """Whether the run did, so that there is nothing to report but warnings."""
    retried: bool = False
    """Whether Dagster takes it up again by itself."""
    url: str = ""
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def subject(self) -> str:
        if self.succeeded:
            return f"Vesper: {self.job} has {len(self.warned)} new warning{'s' * (len(self.warned) > 1)}"
        return f"Vesper: {self.job} failed" + (", and is tried again" if self.retried else "")

    @property
    def text(self) -> str:
        """The message, a line a fact."""
        lines = [self.subject, *(f"{name}: {value}" for name, value in self.tags)]
        for facts in (self.failed, self.warned):
            lines += [f"- {': '.join(fact)}" for fact in facts[:STEPS]]
            lines += [f"- and {len(facts) - STEPS} more"] * (len(facts) > STEPS)
        if not self.failed and not self.succeeded:
            lines.append("- no step failed: the run's process died, or it never started")
        return "\n".join([*lines, self.url or f"run {self.run_id}"])

    def plain(self) -> dict[str, Any]:
        """As JSON; chat rooms show `text`."""
        failed = [{"step": step, "reason": reason} for step, reason in self.failed]
        warned = [{"asset": asset, "check": check, "found": found} for asset, check, found in self.warned]
        return {
            "text": self.text,
            "job": self.job,
            "run_id": self.run_id,
            "failed": failed,
            "warned": warned,
            "retried": self.retried,
            "url": self.url,
        }


def deliver(alert: Alert, alerts: Alerts) -> list[str]:
    """Send an alert to everyone; returns the names of those that it reached. One that can't be reached stops no other;
    then raises `AlertError` naming it."""
    # The environment goes first: the URL of a chat room is a secret.
    webhook = Environment.read().alert_webhook or alerts.webhook
    ways: dict[str, Callable[[], None]] = {}
    if webhook:
        ways["webhook"] = lambda: post(webhook, alert)
    if (email := alerts.email) is not None:
        ways["email"] = lambda: mail(email, alert)
    problems = []
    for name, way in ways.items():
        for attempt in range(ATTEMPTS):
            try:
                way()
                break
            except Exception as error:  # whatever it is, the other way is still gone
                # Delivered to some: a second try would reach them twice.
                if attempt == ATTEMPTS - 1 or isinstance(error, PartlyDelivered):
                    # an error that isn't ours may hold the secret URL or password, so its type has to do
                    text = str(error) if isinstance(error, AlertError) else f"not sent ({type(error).__name__})"
                    problems.append(f"{name}: {text}")
                    break
                time.sleep(WAIT_S)
    if problems:
        raise AlertError("; ".join(problems))
    return list(ways)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is sent elsewhere becomes a GET that reaches nobody: better an error."""

    def redirect_request(self, *args: object, **more: object) -> None:
        return None


def post(url: str, alert: Alert) -> None:
    """POST an alert as JSON. Raises `AlertError`."""
    if urlsplit(url).scheme not in ("http", "https") or any(one.isspace() for one in url):
        raise AlertError("expected an http(s) URL without blanks in $VESPER_ALERT_WEBHOOK")
    body = json.dumps(alert.plain()).encode()
    requested = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    host = urlsplit(url).hostname
    try:
        with urllib.request.build_opener(_NoRedirect).open(requested, timeout=TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        # Closed here, as nobody reads the answer's body.
        error.close()
        raise AlertError(f"{host} answered with HTTP {error.code}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:  # the last one: what answers speaks no HTTP
        raise AlertError(f"{host} can't be reached ({type(error).__name__})") from None


def mail(settings: Email, alert: Alert) -> None:
    """Send an alert by SMTP. Raises `AlertError`; `PartlyDelivered` if only some recipients were refused."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = alert.subject, settings.sender, ", ".join(settings.to)
    message.set_content(alert.text)
    password = Environment.read().alert_smtp_password
    if settings.user and not password:
        raise AlertError(f"{settings.host} wants the password of {settings.user}: set $VESPER_ALERT_SMTP_PASSWORD")
    try:
        with smtplib.SMTP(settings.host, settings.port, timeout=TIMEOUT_S) as server:
            if settings.starttls:
                server.starttls(context=ssl.create_default_context())
            if settings.user:
                server.login(settings.user, password)
            refused = server.send_message(message)  # raises only where it refuses all of them
    except (smtplib.SMTPException, OSError) as error:
        code = getattr(error, "smtp_code", None)
        text = f"answered with {code}" if code else f"can't be reached ({type(error).__name__})"
        raise AlertError(f"{settings.host}:{settings.port} {text}") from None
    if refused:
        codes = ", ".join(f"{name} ({code})" for name, (code, _) in sorted(refused.items()))
        raise PartlyDelivered(
            f"{settings.host}:{settings.port} refused {codes}; the others have it: correct "
            "alerts.email.to of deployment.yaml"
        )


def failure_of(context: dg.RunFailureSensorContext, alerts: Alerts) -> Alert:
    """What is to be reported of a failed run."""
    run = context.dagster_run
    failed = []
    blocked = defaultdict(list)  # by step: what Dagster itself says of them has their names on later lines
    # A failed check's own words say more than Dagster's "check failed".
    for step, one in failed_checks(context.instance, run, dg.AssetCheckSeverity.ERROR):
        blocked[step].append(f"{one.asset_check_key.name}: {_said(one)}")
    for event in context.get_step_failure_events():
        data = event.step_failure_data
        # Our own failures have a description; others the error that they came from.
        said = data.user_failure_data.description if data.user_failure_data is not None else None
        error = data.error.cause or data.error if data.error is not None else None
        reason = said or (error.message if error is not None else "") or "no reason given"
        step = str(event.step_key)
        failed.append((step, _line("; ".join(blocked[step]) or reason)))
    retried = run.tags.get("dagster/will_retry") == "true"
    return replace(_of(run, alerts), failed=tuple(failed), warned=new_warnings(context.instance, run), retried=retried)


def _of(run: dg.DagsterRun, alerts: Alerts) -> Alert:
    tags = tuple((name, run.tags[name][:80]) for name in ("dagster/partition", "source", "because") if name in run.tags)
    url = f"{alerts.ui.rstrip('/')}/runs/{run.run_id}" if alerts.ui else ""
    return Alert(name_of(run), run.run_id, url=url, tags=tags)


def _line(reason: str) -> str:
    return reason.strip().splitlines()[0][:REASON] if reason.strip() else ""


def failed_checks(
    instance: dg.DagsterInstance, run: dg.DagsterRun, severity: dg.AssetCheckSeverity
) -> Iterator[tuple[str, dg.AssetCheckEvaluation]]:
    """(step, evaluation) of the checks of a severity that failed in a run."""
    for record in instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records:
        event = record.event_log_entry.dagster_event
        one = event.asset_check_evaluation_data if event is not None else None
        if event is not None and one is not None and not one.passed and one.severity == severity:
            yield str(event.step_key), one


def new_warnings(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[tuple[str, str, str], ...]:
    """(asset, check, what it found) of each check that failed in a run without blocking and didn't say the same the
    time before: what warns every night is reported once."""
    found = set()
    for _, one in failed_checks(instance, run, dg.AssetCheckSeverity.WARN):
        said = _said(one)
        if said != _said_before(instance, one.asset_check_key, run.run_id):
            found.add((one.asset_key.to_user_string(), one.check_name, said))
    return tuple(sorted(found))


def _said(one: dg.AssetCheckEvaluation) -> str:
    """What a check found, in plain text: descriptions are Markdown."""
    words = one.metadata.get(WORDS)
    return _line(str(words.value) if words is not None else one.description or "failed")


def _said_before(instance: dg.DagsterInstance, check: dg.AssetCheckKey, run_id: str) -> str | None:
    """What a check's last evaluation before a run found; None if it passed, or there was none."""
    reached = False  # the newest come first, and a run may be reported after the next has ended
    for record in instance.event_log_storage.get_asset_check_execution_history(check, limit=LOOKED_BACK):
        one = record.evaluation
        if record.run_id == run_id:
            reached = True
        elif reached and one is not None:
            return None if one.passed else _said(one)
    return None


def name_of(run: dg.DagsterRun) -> str:
    """A run's job; of a run that was started for assets alone (by a condition, or from the lineage view) these assets,
    or their groups where they are many, instead of the name that Dagster gives all such runs."""
    # Names with two underscores are Dagster's own for runs of assets.
    if not run.job_name.startswith("__"):
        return run.job_name
    keys = sorted(key.to_user_string() for key in run.asset_selection or ())
    if not keys:
        return ", ".join(sorted(run.step_keys_to_execute or ())[:NAMED]) or "a run of assets"
    if len(keys) <= NAMED:
        return ", ".join(keys)
    return f"{len(keys)} assets of {', '.join(sorted({key.partition('/')[0] for key in keys}))}"


@dg.run_failure_sensor(
    name="tell_of_failures",
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=30,
    description="Alerts people of runs that failed, by webhook and e-mail (alerts of deployment.yaml).",
)
def alert_failures(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
    """What can't be delivered is logged with the run, and shown as this sensor's error."""
    alerts = deployment.load().alerts
    stated = deliver(failure_of(context, alerts), alerts)
    return None if stated else dg.SkipReason(NOBODY)


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    name="tell_of_warnings",
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=30,
    description="Alerts people of checks that have begun to warn in a run that succeeded, such as a column never seen "
    "before (alerts of deployment.yaml).",
)
def alert_warnings(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
    """As `alert_failures`."""
    alerts = deployment.load().alerts
    warned = new_warnings(context.instance, context.dagster_run)
    if not warned:
        return dg.SkipReason("no check has begun to warn")
    stated = deliver(replace(_of(context.dagster_run, alerts), warned=warned, succeeded=True), alerts)
    return None if stated else dg.SkipReason(NOBODY)
