"""The figures of the judge bench: labelled items with risks → what is ranked, caught, missed and wrongly flagged.

Every defect is compared with the sound items (clean and hard) of its own unit. An item is flagged iff its risk is above
the cut of its unit. Cuts are chosen on the seen part of the bench and applied unchanged to what is measured: `alarms`
flags at most 5 % of the seen sound items; `f1` has the best F1 on the seen items at a prevalence of 30.3 %.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from quality.items.truth import DEFECTS, INTENT
from quality.proving import calibration as cal
from quality.proving import figure_rows
from quality.statistics import Array, confusion, cut_at, weighted_kappa, wilson
from schemas.ids import digest

Mask = npt.NDArray[np.bool_]


def figures(
    scored: Sequence[figure_rows.Scored], split: str, *, rounds: int = 200, seed: int = 0, learned: bool = False
) -> figure_rows.Figures:
    """Figures over a split ("all", "seen", "held_out") of the scored items. Pure by `seed`.

    Cuts come from the seen items. A judge that `learned` from those knows them by heart, and a cut from there would
    mean nothing elsewhere: then the split's page families are halved, and each half has the cuts of the other.
    """
    return _Bench(scored, split, rounds, seed, learned).figures()


class _Bench:
    """Scored items as columns, with the frozen cuts."""

    def __init__(self, scored: Sequence[figure_rows.Scored], split: str, rounds: int, seed: int, learned: bool) -> None:
        self.split, self.rounds, self.seed = split, rounds, seed
        self.risk = np.array([one.risk for one in scored], dtype=np.float64)
        self.bad = np.array([one.bad for one in scored], dtype=bool)
        self.seen = np.array([not one.held_out for one in scored], dtype=bool)
        self.natural = np.array([one.label == "natural" for one in scored], dtype=bool)
        self.abstained = np.array([one.abstained for one in scored], dtype=bool)
        self.band = np.array([one.band for one in scored], dtype=int)
        self.said = np.array([-1 if one.said is None else one.said for one in scored], dtype=int)
        self.unit, self.kind, self.family, self.by = (
            np.array([getattr(one, name) for one in scored], dtype=object)
            for name in ("unit", "kind", "family", "held_out_by")
        )
        self.measured = {"all": np.ones(len(scored), bool), "seen": self.seen, "held_out": ~self.seen}[split]
        self.planted = self.bad & ~self.natural
        self.plain_defect = self.planted & np.array([one.kind not in INTENT for one in scored], dtype=bool)
        self.halves = [(np.ones(len(scored), bool), self.seen)]
        if learned:
            first = np.array([int(digest(["half", one.family])[:4], 16) % 2 == 0 for one in scored], dtype=bool)
            self.halves = [(first, self.measured & ~first), (~first, self.measured & first)]
        self.cut = {"alarms": self._each(self._alarm_cut), "f1": self._each(self._f1_cut)}
        self.own = self._each(lambda unit, _: cut_at(self.risk[self._sound(unit)], figure_rows.FALSE_ALARMS))

    # --- choices
    def _of(self, unit: str) -> Mask:
        return np.asarray(self.unit == unit, dtype=bool)

    def _sound(self, unit: str) -> Mask:
        return self._of(unit) & ~self.bad & self.measured

    def _alarm_cut(self, unit: str, chosen_on: Mask) -> float:
        return cut_at(self.risk[self._of(unit) & chosen_on & ~self.bad], figure_rows.FALSE_ALARMS)

    def _f1_cut(self, unit: str, chosen_on: Mask) -> float:
        where = self._of(unit) & chosen_on & (~self.bad | self.plain_defect)
        if not (where & ~self.bad).any():
            return math.nan
        weights = cal.prevalence_weights(self.bad[where], figure_rows.PREVALENCE, list(self.kind[where]))
        return cal.best_f1_cut(self.risk[where], self.bad[where], weights) if where.any() else math.nan

    def _each(self, choose: Callable[[str, Mask], float]) -> npt.NDArray[np.float64]:
        """A cut per item: that of its unit, chosen on the items that `halves` pairs with its half."""
        cuts = np.full(len(self.risk), math.nan)
        for unit in figure_rows.UNITS:
            for half, chosen_on in self.halves:
                cuts[self._of(unit) & half] = choose(unit, chosen_on)
        return cuts

    def _flagged(self, cuts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """1 flagged, 0 not, NaN where there is no cut."""
        return np.where(np.isnan(cuts), math.nan, self.risk > cuts)

    # --- figures
    def figures(self) -> figure_rows.Figures:
        measured, notes = self.measured, []
        planted, natural = self.planted & measured, self.natural & measured
        defects = [row for name in DEFECTS for row in self._rows(name, planted & (self.kind == name))]
        if absent := [name for name in DEFECTS if not (planted & (self.kind == name)).any()]:
            notes.append(f"no planted items of {', '.join(absent)} in this split")
        notes += self._missing()
        natural_rows = self._rows("natural errors", natural)
        for name in sorted(set(self.kind[natural])):
            natural_rows += self._rows(name, natural & (self.kind == name))
        held_out = [row for by in figure_rows.HELD_OUT_BY for row in self._rows(by, planted & (self.by == by))[:1]]
        wanted = np.flatnonzero(measured)
        recalls, interval = self._macro(self.cut["alarms"])
        return figure_rows.Figures(
            split=self.split,
            sound=int((measured & ~self.bad).sum()),
            bad=int((measured & self.bad).sum()),
            abstained=int(self.abstained[wanted].sum()),
            defects=tuple(defects),
            natural=tuple(natural_rows),
            held_out=tuple(held_out),
            alarms=tuple(self._alarms()),
            cuts=tuple(self._cuts()),
            points=tuple(self._points()),
            macro_recall=recalls,
            macro_recall_interval=interval,
            macro_auroc=_mean(row.auroc for row in _one_each(defects) if row.name not in INTENT),
            agreement=self._agreement(),
            calibrated=tuple(self._calibrated()),
            notes=tuple(notes),
        )

    def _missing(self) -> list[str]:
        notes = []
        for unit in figure_rows.UNITS:
            here = self._of(unit)
            if not (here & self.measured & self.bad).any():
                continue
            if not all((here & chosen_on & ~self.bad).any() for _, chosen_on in self.halves):
                notes.append(f"no sound items of unit {unit} to choose a cut on: no cut, no recall")
            elif not all((here & chosen_on & self.plain_defect).any() for _, chosen_on in self.halves):
                notes.append(f"no defects of unit {unit} to choose a cut on: no best-F1 cut")
            if not self._sound(unit).any():
                notes.append(f"no sound items of unit {unit} in this split: no AUROC")
        return notes

    def _rows(self, name: str, where: Mask) -> list[figure_rows.DetectionRow]:
        """A row over all units the items have, then one for each unit if they are several; none without items."""
        units = [unit for unit in figure_rows.UNITS if (where & self._of(unit)).any()]
        if len(units) > 1:
            each = [self._row(name, unit, where & self._of(unit), [unit]) for unit in units]
            return [self._row(name, "all", where, units), *each]
        return [self._row(name, unit, where, units) for unit in units]

    def _row(self, name: str, unit: str, where: Mask, units: Sequence[str]) -> figure_rows.DetectionRow:
        sound = np.any([self._sound(one) for one in units], axis=0)
        pool = np.flatnonzero(where | sound)
        flagged = self._flagged(self.cut["alarms"])

        def ranked(drawn: npt.NDArray[np.int64], figure: Callable[..., float] = cal.auroc) -> float:
            index = pool[drawn]
            return self._by_unit(index[where[index]], index[sound[index]], figure)

        def caught(drawn: npt.NDArray[np.int64]) -> float:
            index = pool[drawn]
            return _mean(flagged[index[where[index]]])

        families, every = list(self.family[pool]), np.arange(len(pool))
        return figure_rows.DetectionRow(
            name=name,
            unit=unit,
            n=int(where.sum()),
            auroc=ranked(every),
            auroc_interval=cal.cluster_bootstrap(families, ranked, self.rounds, self.seed),
            average_precision=ranked(every, lambda bad, good: cal.average_precision(bad, good, figure_rows.PREVALENCE)),
            recall=caught(every),
            recall_interval=cal.cluster_bootstrap(families, caught, self.rounds, self.seed),
            recall_own=_mean(self._flagged(self.own)[where]),
            abstained=int(self.abstained[where].sum()),
        )

    def _by_unit(self, bad: npt.NDArray[np.int64], sound: npt.NDArray[np.int64], figure: Callable[..., float]) -> float:
        """Mean over units of a figure of (bad risks, sound risks), weighted by bad items; units never mix."""
        total, count = 0.0, 0
        for unit in figure_rows.UNITS:
            mine, others = bad[self.unit[bad] == unit], sound[self.unit[sound] == unit]
            if len(mine) and len(others):
                total += figure(self.risk[mine], self.risk[others]) * len(mine)
                count += len(mine)
        return total / count if count else math.nan

    def _alarms(self) -> list[figure_rows.Alarm]:
        built = []
        flagged = self._flagged(self.cut["alarms"])
        for unit in figure_rows.UNITS:
            sound = self._sound(unit)
            for kind in sorted(set(self.kind[sound])):
                found = flagged[sound & (self.kind == kind)]
                if np.isnan(found).any():
                    continue
                hits = int(found.sum())
                built.append(
                    figure_rows.Alarm(kind, unit, len(found), hits, hits / len(found), wilson(hits, len(found)))
                )
        return built

    def _cuts(self) -> list[figure_rows.FrozenCut]:
        built = []
        for rule, cuts in self.cut.items():
            for unit, (half, source) in itertools.product(figure_rows.UNITS, self.halves):
                chosen_on, sound = self._of(unit) & source & ~self.bad, self._sound(unit) & half
                if not chosen_on.any() or not (self._of(unit) & half).any():
                    continue
                cut = float(cuts[self._of(unit) & half][0])
                hits = int((self.risk[sound] > cut).sum()) if not math.isnan(cut) else 0
                built.append(
                    figure_rows.FrozenCut(
                        unit,
                        rule,
                        cut,
                        int(chosen_on.sum()),
                        cal.share_above(self.risk[chosen_on], cut),
                        int(sound.sum()),
                        cal.share_above(self.risk[sound], cut),
                        wilson(hits, int(sound.sum())),
                    )
                )
        return built

    def _macro(self, cuts: npt.NDArray[np.float64], unit: str | None = None) -> tuple[float, tuple[float, float]]:
        """Mean over defects (without intent) of their recall, and its interval."""
        where = np.flatnonzero(self.plain_defect & self.measured & (True if unit is None else self._of(unit)))
        flagged, kinds = self._flagged(cuts), self.kind

        def macro(drawn: npt.NDArray[np.int64]) -> float:
            index = where[drawn]
            return _mean(_mean(flagged[index[kinds[index] == name]]) for name in sorted(set(kinds[index])))

        everything = np.arange(len(where))
        return macro(everything), cal.cluster_bootstrap(list(self.family[where]), macro, self.rounds, self.seed)

    def _points(self) -> list[figure_rows.Point]:
        built = []
        for rule, cuts in self.cut.items():
            flagged = self._flagged(cuts)
            for unit in (*figure_rows.UNITS, "all"):
                here = np.ones(len(self.risk), bool) if unit == "all" else self._of(unit)
                bad, sound = here & self.plain_defect & self.measured, here & ~self.bad & self.measured
                names = sorted(set(self.kind[bad]))
                if not names or not sound.any():
                    continue
                recall = _mean(_mean(flagged[bad & (self.kind == name)]) for name in names)
                alarms = _mean(flagged[sound])
                if math.isnan(recall) or math.isnan(alarms):
                    continue
                at = tuple(cal.at_prevalence(recall, alarms, share) for share in figure_rows.PREVALENCES)
                built.append(figure_rows.Point(rule, unit, len(names), recall, alarms, at))
        return built

    def _weights(self, where: Mask) -> Array:
        return cal.prevalence_weights(self.bad[where], figure_rows.PREVALENCE, list(self.kind[where]))

    def _agreement(self) -> figure_rows.BandAgreement:
        where = self.measured & (self.said >= 0)
        truth, said = list(self.band[where]), list(self.said[where])
        weighted = confusion(truth, said, 3, self._weights(where)) if where.any() else np.zeros((3, 3))
        counts = confusion(truth, said, 3)
        return figure_rows.BandAgreement(
            int(where.sum()),
            int((self.measured & (self.said < 0)).sum()),
            weighted_kappa(weighted, 2),
            weighted_kappa(weighted, 1),
            tuple(tuple(int(one) for one in line) for line in counts),
        )

    def _calibrated(self) -> list[figure_rows.Calibrated]:
        """Per unit and over all; only where both sound and bad items stand, or the prevalence can't be set."""
        built = []
        for unit in (*figure_rows.UNITS, "all"):
            where = self.measured & (True if unit == "all" else self._of(unit))
            if not (where & self.bad).any() or not (where & ~self.bad).any():
                continue
            risk, bad, weights = self.risk[where], self.bad[where], self._weights(where)
            bins = cal.reliability(risk, bad, weights)
            base = cal.brier(np.full(len(risk), figure_rows.PREVALENCE), bad, weights)
            built.append(
                figure_rows.Calibrated(
                    unit, len(risk), cal.calibration_error(bins), cal.brier(risk, bad, weights), base, tuple(bins)
                )
            )
        return built


def _one_each(rows: Iterable[figure_rows.DetectionRow]) -> list[figure_rows.DetectionRow]:
    """The first row of each name (that over all units)."""
    first: dict[str, figure_rows.DetectionRow] = {}
    for row in rows:
        first.setdefault(row.name, row)
    return list(first.values())


def _mean(values: Iterable[float]) -> float:
    """Mean of what is defined; NaN for nothing."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
