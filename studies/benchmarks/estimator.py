"""Time of `DirectLossClassifier.fit` beside scikit-learn's `MLPClassifier`.

Both train the same hidden layers in batches of the same size for the same number of epochs, without early stopping, in
the same process, with one thread. Times are of the processor, which other programs on the machine disturb little. The
ratio is the median over rounds, both times taken in the same round.

With --data also average precision on clean test rows, trained on flipped labels: both estimators with their defaults
but for the same hidden layers, and ours with the weak decay and plain last weights that it had by default before. The
tables are those on which `studies.benchmarks.recipes` confirmed the recipe that became the default.

    python -m studies.benchmarks.estimator                 # times, into results/estimator.json
    python -m studies.benchmarks.estimator --data DIR      # average precision, into results/estimator-tables.json
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from directloss_studies.tables.config import Noise, Part
from directloss_studies.tables.sets import Boundary, find, noisy, split
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from benchmarks.speed import _processor
from directloss import __version__
from directloss.sklearn import DirectLossClassifier
from studies.benchmarks.recipes import SEARCHED
from studies.benchmarks.tables import Runs

RESULTS = Path(__file__).parent.parent / "results" / "estimator.json"
HIDDEN, BATCH_SIZE, EPOCHS, FEATURES = (64, 64), 512, 10, 30
NOISES, QUALITY_SEEDS = (0.0, 0.2, 0.4), (300, 301)


def table(rows: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Features N(0, 1), and a fifth of positives that a linear function with noise finds."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(rows, FEATURES))
    signal = features @ generator.normal(size=FEATURES) + 3 * generator.normal(size=rows)
    return features, signal > np.quantile(signal, 0.8)


def compare(features: NDArray[Any], positive: NDArray[np.bool_], rounds: int) -> dict[str, float]:
    """Fit both in turn, round by round, after one round that does not count."""
    sizes: Any = {"batch_size": BATCH_SIZE, "random_state": 0}
    both = {
        "MLPClassifier": MLPClassifier(HIDDEN, max_iter=EPOCHS, n_iter_no_change=EPOCHS + 1, **sizes),
        "DirectLossClassifier": DirectLossClassifier(hidden=HIDDEN, epochs=EPOCHS, **sizes),
    }
    times: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(rounds + 1):
        for name, classifier in both.items():
            start = time.process_time()
            classifier.fit(features, positive)
            times[name].append(time.process_time() - start)
    theirs, ours = (counted[1:] for counted in times.values())
    return {
        **{f"{name}, seconds": statistics.median(counted[1:]) for name, counted in times.items()},
        "ratio": statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
        "rounds": rounds,
    }


def measure(rows: int, rounds: int) -> dict[str, Any]:
    """Both estimators, by type of the features."""
    features, positive = table(rows)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = {kind: compare(features.astype(kind), positive, rounds) for kind in ("float64", "float32")}
    finally:
        torch.set_num_threads(threads)
    return {
        "command": "python -m studies.benchmarks.estimator",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {_processor()}",
        "versions": {
            "directloss": __version__, "python": platform.python_version(), "torch": torch.__version__,
            "numpy": np.__version__, "scikit-learn": sklearn.__version__,
        },
        "rows": rows, "features": FEATURES, "hidden": HIDDEN, "batch size": BATCH_SIZE, "epochs": EPOCHS,
        "fit": found,
    }  # fmt: skip


def trained_on(part: Part, noise: float, seed: int) -> dict[str, float]:
    """Average precision on test rows of every estimator, trained on labels of which a share is flipped."""
    of = split(part, seed)
    rows, _, _ = noisy(part, of, Noise("symmetric", noise), seed, Boundary(100, BATCH_SIZE, 0.005))
    weak: Any = {"learning_rate": 1e-3, "weight_decay": 1e-2, "average": 1}
    estimators = {
        "MLPClassifier": MLPClassifier(HIDDEN, random_state=seed),
        "DirectLossClassifier": DirectLossClassifier(random_state=seed),
        "DirectLossClassifier, weak decay": DirectLossClassifier(random_state=seed, **weak),
    }
    found = {}
    for name, classifier in estimators.items():
        classifier.fit(rows.inputs.numpy(), rows.target.numpy())
        score = getattr(classifier, "decision_function", classifier.predict_proba)
        scores = np.asarray(score(of.test.inputs.numpy())).reshape(len(of.test.target), -1)[:, -1]
        found[name] = round(float(average_precision_score(of.test.target.numpy(), scores)), 5)
    return found


def quality(folder: Path, out: Path) -> None:
    """Train on every table that took no part in the search, with each share of flips and each seed."""
    torch.set_num_threads(1)
    settings = {"hidden": HIDDEN, "compared": "defaults"}
    runs = Runs(out.with_name("estimator-tables.json"), settings)
    tables = [part for part in find(folder)[0] if part.name not in SEARCHED]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed, noise, part in product(QUALITY_SEEDS, NOISES, tables):
            name = {"table": part.name, "noise": noise, "seed": seed}
            if runs.has(**name) or split(part, seed).test.lists is not None:
                continue
            runs.add({**name, "test_ap": trained_on(part, noise, seed)})
            print(f"{part.name}, {noise:.0%} flipped, seed {seed}", file=sys.stderr, flush=True)


def in_words(results: dict[str, Any]) -> str:
    """What was measured, in sentences."""
    layers = " and ".join(map(str, results["hidden"]))
    double, single = (results["fit"][kind]["ratio"] for kind in ("float64", "float32"))
    return "\n".join(
        [
            f"`DirectLossClassifier.fit` on {results['rows']:,} rows of {results['features']} features takes",
            f"{double:.2f} times as long as scikit-learn's `MLPClassifier` if the features are float64, and",
            f"{single:.2f} times if they are float32. Both have hidden layers of {layers}, batches of",
            f"{results['batch size']}, {results['epochs']} epochs and one thread. Neither stops early.",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m studies.benchmarks.estimator", description="Time the estimator.")
    parser.add_argument("--data", type=Path, help="folder with the tables of the study `tables`; then no times")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table (default 200000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is timed (default 3)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where it goes (default results/estimator.json)")
    options = parser.parse_args(arguments)
    if options.data is not None:
        quality(options.data, options.out)
        return 0
    results = measure(options.rows, options.rounds)
    partial = options.out.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    partial.replace(options.out)  # whole or not at all
    print(in_words(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
