"""What to take away from the runs of a study, in at most three sentences, all of it computed."""

from collections.abc import Sequence

from ..harness.study import Claim
from .outcomes import Outcomes
from .verdicts import Block, Verdict, blocks, counted, interval, judge
from .words import difference, interval_in_words

__all__ = ["headline", "takeaway"]

BASELINE = "x-ent"
NAMED = 3  # claims that a sentence names; where there are more it gives their number alone


def headline(
    outcomes: Outcomes,
    variant: str,
    noise: float,
    methods: Sequence[str],
    where: str,
    pairs: Outcomes | None = None,
    ours: str = "pos-AP",
    metric: str = "AP",
) -> str:
    """Which method has the highest mean, and how far it and ours are from cross-entropy; empty without runs.

    `where` opens the sentence: With 20 % of the training labels flipped. `pairs` has the numbers to compare by, if not
    those that the means are of: of every class, where `outcomes` has means over classes.
    """
    means = {
        method: sum(values) / len(values) for method in methods if (values := outcomes.values(variant, noise, method))
    }
    if len(means) < 2:
        return ""
    best = max(means, key=lambda method: means[method])
    parts = []
    for method in dict.fromkeys((best, ours)):
        if method in means:
            part = f"{method} has the highest test {metric} ({means[method]:.3f})" if method == best else ""
            part = part or f"{method} has {means[method]:.3f}"
            compared = (pairs or outcomes).compare(variant, noise, method, BASELINE, "")
            if method != BASELINE and compared.differences:
                part += f", {difference(compared)} against {BASELINE}"
                part += f" (95 % interval {interval_in_words(compared)})" if interval(compared) else ""
            parts.append(part)
    return f"{where}, {'; '.join(parts)}."


def takeaway(headline: str, claims: Sequence[Claim], seeds: int, missing: int) -> list[str]:
    """The headline, what became of the claims, and what is open. Less where there is nothing to say."""
    sentences = [headline] if headline else []
    judged: dict[Verdict, list[Block]] = {}
    for block in blocks(claims):
        judged.setdefault(judge(block.claims), []).append(block)
    known = {verdict: some for verdict, some in judged.items() if verdict is not Verdict.TOO_FEW}
    if known:
        parts = [_named(verdict, known[verdict]) for verdict in Verdict if verdict in known]
        number = sum(map(len, judged.values()))
        sentences.append(f"Of {number} claims, {_list(parts)}." if number > 1 else f"The claim {parts[0][2:]}.")
    counts = counted(claims)
    number, of_seeds = sum(counts.values()), f"{seeds} seed{'s' if seeds != 1 else ''}"
    if missing:
        runs = "1 run is" if missing == 1 else f"{missing} runs are"
        judged_all = bool(claims) and all(one.complete for one in claims)
        sentences.append(
            f"{runs} missing, "
            + ("of methods that no claim is about." if judged_all else "so nothing is concluded yet.")
        )
    elif claims and counts.keys() == {Verdict.TOO_FEW}:
        sentences.append(f"There are too few runs to judge any claim: {of_seeds}, and at least three are needed.")
    elif open_ := counts.get(Verdict.UNDECIDED, 0):
        sentences.append(
            f"With {of_seeds}, {open_} of {number} comparisons {'is' if open_ == 1 else 'are'} undecided: "
            f"{'its interval contains' if open_ == 1 else 'their intervals contain'} zero."
        )
    elif claims:
        decided = "the only comparison is" if number == 1 else f"all {number} comparisons are"
        sentences.append(f"With {of_seeds}, {decided} decided.")
    return sentences


def _named(verdict: Verdict, some: Sequence[Block]) -> str:
    """2 hold (this; that)."""
    words = "hold" + str(verdict)[5:] if str(verdict).startswith("holds") else f"are {verdict}"
    if len(some) == 1:
        words = str(verdict) if str(verdict).startswith("holds") else f"is {verdict}"
    names = f" ({'; '.join(block.says for block in some)})" if len(some) <= NAMED else ""
    return f"{len(some)} {words}{names}"


def _list(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
