"""A measured number beside the limits that it is held to, as benches print it."""

from dataclasses import dataclass

from quality.statistics import wilson


@dataclass(frozen=True)
class Figure:
    """A number with its limits; without any it stands there for comparison alone. `of`: what it was counted over."""

    name: str
    value: float
    of: str = ""
    least: float | None = None
    most: float | None = None
    examples: tuple[str, ...] = ()
    """What to look at first when it is past a limit."""

    @property
    def fine(self) -> bool:
        """Whether it is within its limits."""
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    def __str__(self) -> str:
        limits = [f"at least {self.least:g}"] if self.least is not None else []
        limits += [f"at most {self.most:g}"] if self.most is not None else []
        line = f"{self.name:58} {round(self.value, 4):9.10g}  {self.of:34} {', '.join(limits)}".rstrip()
        return line if self.fine else "\n    ".join((f"{line}   <-- past its limit", *self.examples[:12]))


def share(name: str, right: int, whole: int, least: float | None = None) -> Figure:
    """So many of so many, with Wilson's interval in percent; 0 of nothing, since what was to be measured then hasn't
    been."""
    low, high = wilson(right, whole)
    return Figure(
        name, right / whole if whole else 0.0, f"{right} of {whole} [{100 * low:.1f}, {100 * high:.1f}]", least
    )
