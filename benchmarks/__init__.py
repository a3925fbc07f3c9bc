"""Benchmarks: ratios to a floor or a peer, taken in one run. `python -m benchmarks.speed`, or `./dev bench`."""
