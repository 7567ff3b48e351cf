"""Assets that a night's ceiling may leave unfinished: what is pending waits, the rest is committed.

`run_part` skips by the digest of a part's inputs. A finished part has its usual digest, so it is never run again. A
part that was left with pending items has one that holds the night and its ceiling as well: it is skipped in that
night, and run again in another one, or under another ceiling; what was answered by then comes from the answer cache.
Its files lie in a folder of that night, so that a version committed earlier keeps its own.

A part with items that the model can't answer is finished, and skipped, until people raise `ask_again`: then it is run
again, and only those items are asked about. Its files have a folder of their own, too.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.store import PartFunction, PartResult, PartSpec, Store, find_part, run_part
from pipelines.store.manifest import Check, Manifest
from quality.judges.judge import Judge
from quality.model_client.client import ModelClient
from quality.model_client.prices import Prices
from quality.model_client.spending import Ceiling
from schemas.ids import digest


@dataclass(frozen=True, slots=True)
class PartWork:
    """A part worked out: how many items are pending, how to write it (counts as `run_part` takes them), and how many
    the model can't answer."""

    pending: int
    write: PartFunction
    unanswered: int = 0


@dataclass(frozen=True, slots=True)
class Nightly:
    """An asset built part by part; `inputs`, `config` and `code_version` as in `Store.build`."""

    asset: str
    code_version: str
    config: Mapping[str, Any]
    inputs: Mapping[str, str]
    specs: Sequence[PartSpec]
    ceiling: Ceiling
    ask_again: int = 0

    def build(
        self,
        store: Store,
        run: Callable[[str], Sequence[PartResult]],
        counts: Callable[[Counter[str]], Mapping[str, Any]],
        checks: Callable[[Counter[str]], Sequence[Check]],
    ) -> Manifest:
        """Have the parts run that aren't there, then commit. Without pending items the version is the usual one.

        `run` is told the version and gives the results of all parts, in order (`in_threads`, or an engine's workers).
        """
        how = {"code_version": self.code_version, "config": self.config, "inputs": self.inputs}
        with store.build(self.asset, **how, parts=self.specs) as build:  # type: ignore[arg-type]
            # First under the usual name: which parts stay unfinished is known only when they have run.
            results = run(build.version)
            left = [self._left(build.root, spec) for spec in self.specs]
            totals: Counter[str] = Counter()
            for result in results:
                totals.update(result.counts)
            # Nothing was left over, so the version that was begun is the one.
            if left == list(self.specs):
                return _commit(build, results, counts(totals), checks(totals))
        # Something was left, so the version is another: its name says which parts are tonight's.
        with store.build(self.asset, **how, parts=left) as build:  # type: ignore[arg-type]
            return _commit(build, results, counts(totals), checks(totals))

    def run_part(self, root: Path, version: str, spec: PartSpec, work: Callable[[], PartWork]) -> PartResult:
        """Work out and write one part of a version, unless it is there as this night can leave it."""
        # Finished, without answers, or as this night left it: the first that is there.
        for known in self.receipts(spec):
            if (found := find_part(root, known)) is not None:
                return found
        built = work()
        if built.pending:
            # A folder of the night's own: files of a version that names the finished part aren't overwritten.
            night = digest([version, *self._night()])[:16]
            return run_part(root, night, self.unfinished(spec), built.write)
        if built.unanswered:
            folder = digest([version, "unanswered", self.ask_again])[:16]
            return run_part(root, folder, self.unanswered(spec), built.write)
        return run_part(root, version, spec, built.write)

    def receipts(self, spec: PartSpec) -> tuple[PartSpec, ...]:
        """As what a part may be there: finished, with items that have no answer, as this night left it."""
        return spec, self.unanswered(spec), self.unfinished(spec)

    def without_parts(self) -> "Nightly":
        """What a worker needs of it to run one part."""
        return replace(self, specs=())

    def _left(self, root: Path, spec: PartSpec) -> PartSpec:
        return next(known for known in self.receipts(spec) if find_part(root, known) is not None)

    def unfinished(self, spec: PartSpec) -> PartSpec:
        """The spec of the part as this night leaves it, if items of it are pending."""
        # Only once people had asked again, so that digests from before stay as they are.
        again = ["again", self.ask_again] if self.ask_again else []
        return PartSpec(spec.key, digest([spec.inputs_digest, "pending", *self._night(), *again]))

    def unanswered(self, spec: PartSpec) -> PartSpec:
        """The spec of the part if the model can't answer about items of it, however often people had it asked again."""
        return PartSpec(spec.key, digest([spec.inputs_digest, "unanswered", self.ask_again]))

    def _night(self) -> list[Any]:
        # The ceiling is part of it: under another one the part is run again the same night.
        money = [] if self.ceiling.money is None else [self.ceiling.money, *asdict(self.ceiling.prices).values()]
        return [self.ceiling.night, self.ceiling.requests, self.ceiling.tokens, *money]


def in_threads(
    run: Callable[[PartSpec], PartResult],
    specs: Sequence[PartSpec],
    parts_at_once: int,
    interrupted: Callable[[], None] = lambda: None,
) -> list[PartResult]:
    """Run parts in this process, several side by side, as a judge is asked that waits for a model; results in order.

    The first error of a part is raised once the parts under way have ended; those that ended well stay. `interrupted`
    is called on Ctrl-C and the like, to let them end soon.
    """
    with ThreadPoolExecutor(parts_at_once) as pool:
        try:
            return list(pool.map(run, specs) if parts_at_once > 1 else map(run, specs))
        except BaseException as error:
            if not isinstance(error, Exception):
                interrupted()
            raise


def _commit(build: Any, results: Sequence[PartResult], counts: Any, checks: Any) -> Manifest:
    for result in results:
        build.add(result)
    manifest: Manifest = build.commit(counts=counts, checks=checks)
    return manifest


def clients_of(judge: Judge) -> list[ModelClient]:
    """The clients through which a judge asks, its members' last; each once."""
    of_members = [client for member in getattr(judge, "members", ()) for client in clients_of(member)]
    # By identity, as several names of a judge may stand for one client.
    return list({id(client): client for client in (*_own_clients(judge), *of_members)}.values())


def _own_clients(judge: Judge) -> list[ModelClient]:
    found = (getattr(judge, name, None) for name in ("client", "first", "second"))
    return [client for client in found if client is not None]


def ask_again_of(judge: Judge) -> int:
    """How often people had what had no answer asked again: the highest of the judge's clients."""
    return max([0, *(client.ask_again for client in clients_of(judge))])


def prices_of(judge: Judge) -> Prices:
    """What a judge's tokens cost: the first prices of its clients that are known, as they have one configuration."""
    found = [client.prices for client in clients_of(judge)]
    return next((prices for prices in found if prices.known), found[0] if found else Prices())


def ceiling_of(judge: Judge) -> Ceiling:
    """The ceiling under which a judge asks: its own, its client's or a member's; that of tonight without limits for a
    judge that asks no model."""
    for holder in (judge, *_own_clients(judge)):
        if isinstance(found := getattr(holder, "ceiling", None), Ceiling):
            return found
    members = [ceiling_of(member) for member in getattr(judge, "members", ())]
    # A member without limits says nothing of the ensemble's.
    limited = [one for one in members if (one.requests, one.tokens, one.money) != (None, None, None)]
    return (limited or members or [Ceiling()])[0]
