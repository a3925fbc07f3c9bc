"""The shape of the package: its public names, and dependencies that run one way."""

import ast
from pathlib import Path

import directloss
from directloss import update
from directloss.kernels import average_precision as kernels
from directloss.tasks import average_precision

SOURCE = Path(directloss.__file__).parent

LAYERS = {  # a module may import from lower numbers only, and from its own folder
    "checks": 0,
    "kernels": 0,
    "operators": 1,
    "update": 1,
    "task": 2,
    "enumeration": 3,
    "tasks": 3,
    "loss": 4,
    "files": 0,
    "processes": 0,
    "networks": 0,
    "data": 5,
    "vision": 6,
    "training": 5,
    "experiments": 7,
    "store": 8,
    "execution": 9,
    "report": 9,
    "cli": 10,
    "__main__": 11,
    "__init__": 11,
}
CORE = {"checks", "kernels", "operators", "update", "task", "enumeration", "tasks", "loss", "__init__"}
EXTRAS = {"sklearn", "matplotlib", "rich", "typer", "joblib", "ray", "PIL", "defusedxml", "cv2"}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield parts, ast.parse(path.read_text())


def imports(parts, tree):
    """Top-level packages that a module imports, and modules of this package, by their first part."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield "outside", alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield "outside", (node.module or "").split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            base = parts[:-1][: len(parts) - node.level] + tuple((node.module or "").split("."))
            names = [base[0]] if base[0] else [alias.name for alias in node.names]
            for name in names:
                yield "inside", name


def test_dependencies_run_one_way():
    found = 0
    for parts, tree in modules():
        for kind, name in imports(parts, tree):
            if kind == "inside" and name != parts[0]:
                found += 1
                assert LAYERS[name] < LAYERS[parts[0]], f"{'.'.join(parts)} imports {name}"
    assert found > 20


def test_kernels_never_import_torch_and_core_never_imports_an_extra():
    for parts, tree in modules():
        outside = {name for kind, name in imports(parts, tree) if kind == "outside"}
        if parts[0] == "kernels":
            assert "torch" not in outside, parts
        if parts[0] in CORE:
            assert not outside & EXTRAS, parts
            assert outside - {"torch", "numpy", "numba"} <= STANDARD, (parts, outside)


STANDARD = {
    "abc", "collections", "dataclasses", "functools", "importlib", "itertools", "math", "numbers", "types", "typing",
}  # fmt: skip


def test_every_module_has_a_place_and_says_why_it_exists():
    for parts, tree in modules():
        assert parts[0] in LAYERS, f"{parts[0]} has no layer"
        assert ast.get_docstring(tree), f"{'.'.join(parts)} has no docstring"


def test_kernels_and_updates_mean_the_same_by_their_weights():
    assert update.TRUTH == kernels.TRUTH
    assert average_precision.NOTHING == kernels.NOTHING


def test_public_names():
    assert sorted(directloss.__all__) == sorted(
        [
            "TASKS", "UPDATES", "AveragePrecision", "AveragePrecisionLoss", "CentralDirect", "Hinge", "NegativeDirect",
            "Output", "Perceptron", "PositiveDirect", "StructuredLoss", "Task", "TaskError", "Update", "ZeroOne",
            "average_precision_loss", "check_task", "direct_loss", "structured_loss",
        ]
    )  # fmt: skip
    for name in directloss.__all__:
        assert getattr(directloss, name).__doc__
