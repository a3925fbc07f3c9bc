"""The shape of both packages: public names, imports that run one way, and what stays out of the library."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import directloss_studies
from directloss_studies import registry

import directloss
import directloss.families
import directloss.sklearn
import directloss.tasks
import directloss.testing
import directloss.update

LIBRARY = Path(directloss.__file__).parent
STUDIES = Path(directloss_studies.__file__).parent

LAYERS = {  # a module may import from lower numbers only, and from its own folder
    "checks": 0,
    "kernels": 0,
    "host": 0,
    "group_module": 0,
    "resumable": 0,
    "update": 1,
    "distributed": 1,
    "groups": 1,
    "autograd": 2,
    "task": 3,
    "layout": 4,
    "families": 4,
    "tasks": 5,
    "testing": 5,
    "advice": 5,
    "loss": 6,
    "metric": 7,
    "diagnosis": 7,
    "uncompiled": 0,
    "retrieval": 8,
    "perturbed": 7,
    "adaptive_decay": 8,
    "training": 7,
    "memory": 8,
    "population": 9,
    "sklearn": 10,
    "integrations": 10,
    "__init__": 11,
}
STUDY, ABOVE_STUDIES = 10, {"registry": 11, "cli": 12, "__main__": 13}
LAYERS_OF_STUDIES = {  # what studies share; a study stands above it and imports no other study
    "__init__": 0,
    "interrupts": 0,
    "harness": 0,
    "networks": 1,
    "methods": 1,
    "trainers": 2,
    "vision": 2,
    "data": 3,
    "sweep": 3,
    "linear_models": 4,
    "report": 5,
    **{study: STUDY for study in vars(registry) if (STUDIES / study).is_dir() or (STUDIES / f"{study}.py").is_file()},
    **ABOVE_STUDIES,
}
DEPENDENCIES = {"torch", "numpy", "numba"}
STANDARD = {  # of the standard library; neither signal nor sys: an import must change nothing and look at no argument
    "abc", "ast", "collections", "concurrent", "contextlib", "copy", "dataclasses", "enum", "functools", "hashlib",
    "importlib", "inspect", "itertools", "logging", "math", "numbers", "os", "pathlib", "threading", "time", "types",
    "typing", "uuid", "warnings", "weakref",
}  # fmt: skip
EXTRAS = {  # the modules that import a package of an extra, and which; a callback fits both names of Lightning
    ("sklearn",): {"sklearn"},
    ("integrations", "lightning"): {"lightning", "pytorch_lightning"},
    ("integrations", "torchmetrics"): {"torchmetrics"},
    ("integrations", "transformers"): {"transformers"},
}
MODULES = (
    directloss, directloss.families, directloss.sklearn, directloss.tasks, directloss.testing, directloss.update,
)  # fmt: skip
PUBLIC = {module.__name__: module.__all__ for module in MODULES}
"""What studies may import of the library, by module."""


def modules(package):
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package).with_suffix("").parts, ast.parse(path.read_text())


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


def outside(parts, tree):
    return {name[0] for kind, name in imports(parts, tree) if kind == "outside"}


def check_one_way(package, layers):
    found = 0
    for parts, tree in modules(package):
        assert parts[0] in layers, f"{package.name}: {parts[0]} has no layer"
        for kind, name in imports(parts, tree):
            if kind == "inside" and name and name[0] != parts[0]:
                found += 1
                layer = name[0] if name[0] in layers else "__init__"
                assert layers[layer] < layers[parts[0]], f"{package.name}: {'.'.join(parts)} imports {'.'.join(name)}"
    return found


def test_imports_run_one_way_in_the_library():
    assert check_one_way(LIBRARY, LAYERS) > 20


def test_imports_run_one_way_in_the_studies():
    assert check_one_way(STUDIES, LAYERS_OF_STUDIES) > 20
    assert list(LAYERS_OF_STUDIES.values()).count(STUDY) >= len(registry.STUDIES)


def test_every_module_has_a_docstring():
    for package in (LIBRARY, STUDIES):
        for parts, tree in modules(package):
            assert ast.get_docstring(tree), f"{package.name}.{'.'.join(parts)} has no docstring"


def test_the_library_imports_its_dependencies_only():
    """No package of an extra but in the module that is for it, nothing of the studies, no signals."""
    for parts, tree in modules(LIBRARY):
        allowed = DEPENDENCIES | STANDARD | EXTRAS.get(parts, set())
        assert outside(parts, tree) <= allowed, (parts, outside(parts, tree) - allowed)


def test_nothing_imports_a_module_of_an_extra_and_each_says_what_to_install():
    for parts, tree in modules(LIBRARY):
        inside = {name for kind, name in imports(parts, tree) if kind == "inside"}
        assert not any(name[: len(extra)] == extra for name in inside for extra in EXTRAS), parts
        if parts in EXTRAS:
            assert any("pip install" in text for text in texts(tree)), parts


def test_the_library_imports_without_any_extra():
    packages = {package for packages in EXTRAS.values() for package in packages}
    code = f"import sys\nsys.modules |= dict.fromkeys({packages})\nimport directloss.integrations.observer"
    environment = {**os.environ, "PYTHONPATH": str(LIBRARY.parent)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)


def test_kernels_never_import_torch():
    for parts, tree in modules(LIBRARY):
        if parts[0] == "kernels":
            assert "torch" not in outside(parts, tree), parts


def test_the_library_never_reads_the_command_line():
    for parts, tree in modules(LIBRARY):
        for node in ast.walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            assert name not in ("argv", "orig_argv"), parts


def test_importing_the_library_changes_no_signal_handler(tmp_path):
    """Also in a script that is called directloss, as the command is."""
    script = tmp_path / "directloss"
    script.write_text("""
import signal
def handlers():
    return {number: signal.getsignal(number) for number in signal.valid_signals()}
before = handlers()
import directloss, directloss.sklearn, directloss.testing
assert handlers() == before
""")
    environment = {**os.environ, "PYTHONPATH": str(LIBRARY.parent)}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=300)


def test_studies_import_public_names_of_the_library_only():
    found = 0
    for parts, tree in modules(STUDIES):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not any(alias.name.split(".")[0] == "directloss" for alias in node.names), parts
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("directloss."):
                assert node.module in PUBLIC, f"{'.'.join(parts)} imports {node.module}"
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in PUBLIC:
                found += 1
                private = {alias.name for alias in node.names} - set(PUBLIC[node.module])
                assert not private, f"{'.'.join(parts)} imports {private} from {node.module}"
    assert found > 10


def test_studies_import_scikit_learn_only_when_they_use_it():
    """It takes seconds to import."""
    code = "import sys\nfrom directloss_studies import registry\nsys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def texts(tree):
    """The strings of a module that are not docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and node.body
                  and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_command_line_harness_and_report_name_no_study():
    names = re.compile(rf"\b({'|'.join(registry.STUDIES.keys() - {'tables'})})\b")  # a plain word too
    seen = 0
    for parts, tree in modules(STUDIES):
        if parts[0] in ("cli", "harness", "report"):
            for text in texts(tree):
                seen += 1
                assert not names.search(text), (".".join(parts), text)
    assert seen > 100


def test_public_names():
    """Few, each with a docstring; tasks, and what only their authors need, in modules of their own."""
    tasks = {member.__name__ for member in directloss.tasks.TASKS.values()}
    assert tasks <= set(directloss.__all__)
    assert set(directloss.__all__) - tasks == {
        "AveragePrecisionLoss", "IoULoss", "NDCGLoss", "ROCAUCLoss", "RetrievalLoss", "StructuredLoss",
        "direct_loss", "structured_loss", "TrainingWarning", "Perturbed",
        "CentralDirect", "Hinge", "NegativeDirect", "Perceptron", "PositiveDirect", "Update",
        "WindowDirect",
        "AdaptiveDecay", "ClassesSampler", "PositivesSampler", "ScoreMemory", "WarmUp", "accumulate", "falling_k",
        "Diagnosis", "Output", "Task", "diagnose", "metric", "retrieval_metric",
    }  # fmt: skip
    for module in MODULES:
        for name in module.__all__:
            assert getattr(module, name).__doc__, name
