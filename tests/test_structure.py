"""The shape of the package: its public names, and dependencies that run one way."""

import ast
import re
from pathlib import Path

from directloss_studies import EXPERIMENTS

import directloss

SOURCE = Path(directloss.__file__).parent

LAYERS = {  # a module may import from lower numbers only, and from its own folder
    "interrupts": 0,
    "checks": 0,
    "kernels": 0,
    "group_module": 0,
    "threads": 0,
    "update": 1,
    "distributed": 1,
    "groups": 1,
    "autograd": 2,
    "task": 3,
    "verification": 4,
    "families": 4,
    "tasks": 5,
    "flat": 5,
    "shapes": 5,
    "diagnosis": 5,
    "loss": 6,
    "retrieval": 7,
    "memory": 8,
    "training": 7,
    "sklearn": 8,
    "experiments": 8,
    "__main__": 9,
    "__init__": 9,
}
LIBRARY = LAYERS.keys() - {"experiments", "__main__", "interrupts", "sklearn"}  # these are of the command or an extra
ROOMS = {  # of the experiments: the same rule
    "harness": 0,
    "networks": 1,
    "vision": 2,
    "data": 3,
    "methods": 1,
    "trainers": 2,
    "sweep": 3,
    "linear_models": 4,
    "report": 5,
    "synthetic": 6,
    "label_noise": 6,
    "separable": 6,
    "own_metric": 6,
    "tables": 6,
    "paths": 6,
    "actions": 6,
    "detection": 6,
    "segmentation": 6,
    "__init__": 7,
    "cli": 8,
}
EXTRAS = {
    "sklearn", "matplotlib", "rich", "typer", "joblib", "ray", "PIL", "defusedxml", "lightgbm",
    "accelerate", "pytorch_lightning", "skorch", "transformers", "xgboost", "scipy", "pyarrow",
}  # fmt: skip


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield parts, ast.parse(path.read_text())


def imports(parts, tree):
    """What a module imports: packages from elsewhere by name, modules of this package by their parts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield "outside", (alias.name.split(".")[0],)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield "outside", ((node.module or "").split(".")[0],)
        elif isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level]
            names = [tuple(node.module.split("."))] if node.module else [(alias.name,) for alias in node.names]
            for name in names:
                yield "inside", base + name


def check_one_way(rooms, depth):
    found = 0
    for parts, tree in modules():
        if len(parts) <= depth or parts[:depth] != ("experiments",) * depth:
            continue
        for kind, name in imports(parts, tree):
            if kind == "inside" and len(name) > depth and name[:depth] == parts[:depth] and name[depth] != parts[depth]:
                found += 1
                room = name[depth] if name[depth] in rooms else "__init__"
                assert rooms[room] < rooms[parts[depth]], f"{'.'.join(parts)} imports {'.'.join(name)}"
    return found


def test_dependencies_run_one_way():
    assert check_one_way(LAYERS, 0) > 20


def test_experiments_have_rooms_of_their_own():
    assert check_one_way(ROOMS, 1) > 20


def texts(tree):
    """The strings of a module that are not docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and node.body
                  and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_command_line_harness_and_report_name_no_experiment():
    names = re.compile(rf"\b({'|'.join(EXPERIMENTS.keys() - {'tables'})})\b")  # a plain word too
    seen = 0
    for parts, tree in modules():
        if parts[0] == "experiments" and parts[1] in ("cli", "harness", "report"):
            for text in texts(tree):
                seen += 1
                assert not names.search(text), (".".join(parts), text)
    assert seen > 100


def test_kernels_never_import_torch_and_core_never_imports_an_extra():
    for parts, tree in modules():
        outside = {name[0] for kind, name in imports(parts, tree) if kind == "outside"}
        if parts[0] == "kernels":
            assert "torch" not in outside, parts
        if parts[0] in LIBRARY:
            assert not outside & EXTRAS, parts
            assert outside - {"torch", "numpy", "numba"} <= STANDARD, (parts, outside)


def test_scikit_learn_is_imported_only_by_who_asks_for_it():
    asking = [parts for parts, tree in modules() for kind, name in imports(parts, tree) if name == ("sklearn",)]
    assert asking
    assert set(asking) == {("sklearn",), ("experiments", "tables", "sets"), ("experiments", "linear_models")}


STANDARD = {
    "abc", "collections", "contextlib", "copy", "ctypes", "dataclasses", "enum", "functools", "hashlib", "importlib",
    "inspect", "itertools", "logging", "math", "numbers", "os", "pathlib", "threading", "time", "types", "typing",
    "warnings", "weakref",
}  # fmt: skip


def test_every_module_has_a_place_and_says_why_it_exists():
    for parts, tree in modules():
        assert parts[0] in LAYERS, f"{parts[0]} has no layer"
        assert parts[0] != "experiments" or parts[1] in ROOMS, f"{parts[1]} has no room"
        assert ast.get_docstring(tree), f"{'.'.join(parts)} has no docstring"


def test_public_names():
    tasks = {member.__name__ for member in directloss.TASKS.values()}
    doors = {name.removesuffix("Loss") for name in directloss.__all__ if name.endswith("Loss")} - {
        "Retrieval",
        "Structured",
    }
    assert doors == {
        "AveragePrecision", "FMeasure", "IoU", "NDCG", "PartialAUC", "PrecisionAtK", "ROCAUC", "ReciprocalRank",
        "Tversky",
    }  # fmt: skip
    assert doors <= tasks <= set(directloss.__all__)
    assert set(directloss.__all__) - tasks - {f"{name}Loss" for name in doors} == {
        "TASKS", "TRUTH", "UPDATES",
        "ByNegatives", "ByRank", "CountTask", "LinearLossTask", "RankingTask", "explain",
        "CentralDirect", "Hinge", "NegativeDirect", "Perceptron", "PositiveDirect", "Row", "Update",
        "Diagnosis", "Output", "Problem", "RetrievalLoss", "ScoreMemory", "StructuredLoss", "Task",
        "TaskError",
        "average_precision_loss", "f_measure_loss", "iou_loss", "ndcg_loss", "partial_auc_loss", "precision_at_k_loss",
        "reciprocal_rank_loss", "roc_auc_loss", "tversky_loss",
        "check_task", "diagnose", "direct_loss", "edge_potentials", "metric", "structured_loss", "typical_epsilon",
    }  # fmt: skip
    for name in directloss.__all__:
        assert getattr(directloss, name).__doc__
