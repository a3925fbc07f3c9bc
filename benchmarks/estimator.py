"""Time of `DirectLossClassifier.fit` beside scikit-learn's `MLPClassifier`.

Both train the same hidden layers in batches of the same size for the same number of epochs, without early stopping, in
the same process, with one thread. Beside them is our estimator as it comes, which trains and chooses among several.
Times are of the processor, which other programs on the machine disturb little. The ratio is the median over rounds,
both times taken in the same round.

    python -m benchmarks.estimator    # writes results/estimator.json
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from benchmarks.speed import _processor
from directloss import __version__
from directloss.sklearn import DirectLossClassifier

RESULTS = Path(__file__).parent.parent / "results" / "estimator.json"
HIDDEN, BATCH_SIZE, EPOCHS, FEATURES = (64, 64), 512, 10, 30


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
        "DirectLossClassifier": DirectLossClassifier(hidden=HIDDEN, epochs=EPOCHS, folds=1, **sizes),
        "DirectLossClassifier that chooses": DirectLossClassifier(epochs=EPOCHS, **sizes),
    }
    times: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(rounds + 1):
        for name, classifier in both.items():
            start = time.process_time()
            classifier.fit(features, positive)
            times[name].append(time.process_time() - start)
    theirs, ours, choosing = (counted[1:] for counted in times.values())
    return {
        **{f"{name}, seconds": statistics.median(counted[1:]) for name, counted in times.items()},
        "ratio": statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
        "choosing": statistics.median(a / b for a, b in zip(choosing, ours, strict=True)),
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
        "command": "python -m benchmarks.estimator",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {_processor()}",
        "versions": {
            "directloss": __version__, "python": platform.python_version(), "torch": torch.__version__,
            "numpy": np.__version__, "scikit-learn": sklearn.__version__,
        },
        "rows": rows, "features": FEATURES, "hidden": HIDDEN, "batch size": BATCH_SIZE, "epochs": EPOCHS,
        "fit": found,
    }  # fmt: skip


def in_words(results: dict[str, Any]) -> str:
    """What was measured, in sentences."""
    layers = " and ".join(map(str, results["hidden"]))
    double, single = (results["fit"][kind]["ratio"] for kind in ("float64", "float32"))
    choosing = results["fit"]["float64"]["choosing"]
    return "\n".join(
        [
            f"`DirectLossClassifier.fit` on {results['rows']:,} rows of {results['features']} features takes",
            f"{double:.2f} times as long as scikit-learn's `MLPClassifier` if the features are float64, and",
            f"{single:.2f} times if they are float32. Both have hidden layers of {layers}, batches of",
            f"{results['batch size']}, {results['epochs']} epochs, one thread, no early stopping; folds=1.",
            f"As it comes, ours chooses among models on three folds. This takes {choosing:.1f} times as long.",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimator", description="Time the estimator.")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table (default 200000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is timed (default 3)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where it goes (default results/estimator.json)")
    options = parser.parse_args(arguments)
    results = measure(options.rows, options.rounds)
    partial = options.out.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    partial.replace(options.out)  # whole or not at all
    print(in_words(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
