"""Families of tasks: a metric becomes a few lines, and its exact oracle of both signs comes with the family.

`RankingTask` is for metrics of a ranked list, `LinearLossTask` for losses that add up over the parts of an output, and
`CountTask` for metrics of true and false positives.
"""
