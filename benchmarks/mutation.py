"""Do the tests notice a fault? Plant small ones in the core, one at a time, and run the tests against each.

A fault is a mutant: a module of the library with one comparison, operator, number, `min`, statement or result changed.
A mutant that fails a test, hangs or crashes is killed. One that passes all of them survives. It shows a law that no
test holds, a line that does nothing, or a change that only costs time. results/mutation.txt says which, for each.

    python -m benchmarks.mutation                                          # all modules, all tests
    python -m benchmarks.mutation --module kernels/average_precision.py --sample 50 --seed 1
    python -m benchmarks.mutation --again                                  # only what survived, with changed tests

Compiled code is off, so a mutant of a kernel needs no compiler: tests that need compiled code, or long lists, are left
out. One process imports torch, pytest and the rest once, and forks for each mutant; the child imports the library with
the fault in it. Outcomes are appended to a file in --folder, so a run that is stopped goes on where it was. An outcome
holds as long as the function around the fault is the same.
"""

import argparse
import ast
import gc
import hashlib
import json
import os
import random
import re
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Mutant", "main", "mutants"]

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "directloss"
TESTS = "tests/library"
KERNEL = "kernels/average_precision.py"
MODULES: dict[str, Sequence[str]] = {  # which tests of the library, in stages
    "task.py": ["laws bad_input", "contract verification"],
    "update.py": ["laws bad_input", "contract theorem"],
    "loss.py": ["laws bad_input", "shapes contract theorem pytorch front_doors"],
    "checks.py": ["bad_input", "shapes linear_losses laws contract pytorch theorem ranking warm_up memory"],
    "autograd.py": ["laws", "shapes contract pytorch"],
    "families/packed.py": ["shapes", "laws small_kernels"],
    "families/plans.py": ["ranking", "laws bad_input"],
    "families/ranking.py": ["ranking shapes", "laws bad_input average_precision small_kernels contract pytorch"],
    "tasks/average_precision.py": ["laws bad_input", "average_precision small_kernels kernels contract pytorch"],
    "tasks/zero_one.py": ["laws", "verification kernels"],
    "kernels/lists.py": ["small_kernels", "kernels average_precision bad_input"],
    KERNEL: ["small_kernels", "kernels average_precision bad_input"],
}
LEFT_OUT = (  # by a part of the name: tests that need compiled code, lists too long without it, or other processes
    "test_kernels.py::test_every_kind", "fast_oracle", "few_cells", "any_magnitude", "reference_attains", "long_list",
    "ctrl_c", "common_offset", "need_only_the_oracle", "good_task_passes", "items_have_an_order", "converge",
    "trains_a_score", "pass_the_check_for_tasks", "copies_of_a_task", "inductor", "into_one_graph", "workers",
    "threads", "import_is_silent", "cache",
)  # fmt: skip
PATIENCE = 1.5  # times the processor time of the unchanged module, before a mutant hangs
MEMORY = 3 << 30  # bytes that a mutant may add


# --- faults ----------------------------------------------------------------------------------------------------------


class Mutant(NamedTuple):
    """A fault: where it is, what it changes, and how to plant it in the tree that it was found in."""

    name: str  # module, function, number in the function
    line: int
    change: str
    digest: str  # of the function
    plant: Callable[[], None]


COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


def mutants(source: str, module: str) -> tuple[ast.Module, list[Mutant]]:
    """The tree of a module and every fault that can be planted in it."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    numbers: Counter[str] = Counter()
    for function, digest, before, line, after, plant in _sites(tree, "", hashlib.sha256(b"").hexdigest()):
        numbers[function] += 1
        name = f"{module}:{function or 'module'}:{numbers[function]}"
        found.append(Mutant(name, line, f"{before}  →  {after}", digest, plant))
    return tree, found


def _sites(node: ast.AST, function: str, digest: str) -> Iterator[tuple[str, str, str, int, str, Callable[[], None]]]:
    """Function, its digest, what is there, the line, what comes in its place, and how, for all below a node."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
        digest = hashlib.sha256(ast.dump(node).encode()).hexdigest()
    elif isinstance(node, ast.Module):
        constants = [ast.dump(part) for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign)]
        digest = hashlib.sha256("".join(constants).encode()).hexdigest()
    here = [] if isinstance(node, ast.Module) else list(_changes(node))
    for before, after, plant in here:
        yield function, digest, before, getattr(node, "lineno", 0), after, plant
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        parts = value if isinstance(value, list) else [value]
        for k, part in enumerate(parts):
            if not isinstance(part, ast.AST) or _is_text(part):
                continue
            if isinstance(value, list) and isinstance(part, ast.stmt) and _may_go(part):
                yield (
                    function, digest, _words(part), part.lineno, "nothing",
                    lambda value=value, k=k: value.__setitem__(k, ast.copy_location(ast.Pass(), value[k])),
                )  # fmt: skip
            if not isinstance(part, ast.Raise):
                yield from _sites(part, function, digest)


def _is_text(part: ast.AST) -> bool:
    """Texts, types, and the list of public names."""
    if isinstance(part, ast.Expr | ast.Assign):
        names = [] if isinstance(part, ast.Expr) else part.targets
        public = any(isinstance(name, ast.Name) and name.id == "__all__" for name in names)
        return public or _is_text(part.value) or _is_union(part.value)
    return isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))


def _is_union(part: ast.AST) -> bool:
    """Types, such as float | Tensor."""
    return isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr) and isinstance(part.right, ast.Name)


def _may_go(part: ast.stmt) -> bool:
    """Statements without which the code still runs."""
    if isinstance(part, ast.Assign):
        return any(isinstance(target, ast.Subscript | ast.Attribute) for target in part.targets)
    return isinstance(part, ast.Break | ast.Continue | ast.Raise) or (
        isinstance(part, ast.Expr) and isinstance(part.value, ast.Call)
    )


def _words(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def _changes(node: Any) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """What may be changed in one node: before, after, and how."""

    def change(what: Any, field: str, value: Any) -> tuple[str, str, Callable[[], None]]:
        before, old = _words(node), getattr(what, field)
        setattr(what, field, value)
        after = _words(node)
        setattr(what, field, old)
        return before, after, lambda: setattr(what, field, value)

    def negated(test: ast.expr) -> ast.expr:
        return ast.fix_missing_locations(ast.copy_location(ast.UnaryOp(ast.Not(), test), test))

    if isinstance(node, ast.Compare):
        for k, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                yield change(node, "ops", [*node.ops[:k], other(), *node.ops[k + 1 :]])
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in OPERATORS:
        yield change(node, "op", OPERATORS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        if isinstance(node.op, ast.USub):
            yield change(node, "op", ast.UAdd())
        else:
            twice = ast.UnaryOp(type(node.op)(), node.operand)
            yield change(node, "operand", ast.copy_location(twice, node))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield change(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        one = type(node.value)(1)
        yield change(node, "value", node.value + one)
        if node.value:
            yield change(node, "value", node.value - one if isinstance(node.value, int) else 0.0)
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield change(node, "id", NAMES[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield change(node, "attr", NAMES[node.attr])
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield change(node, "value", ast.copy_location(ast.Constant(None), node.value))
    if isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        before = _words(node.test)
        yield before, f"not ({before})", lambda: setattr(node, "test", negated(node.test))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# --- one mutant, in a process of its own -----------------------------------------------------------------------------


class Planted(SourceFileLoader):
    """Loads one module from a tree."""

    tree: ast.Module

    def get_code(self, fullname: str) -> Any:
        """The tree, compiled."""
        return compile(self.tree, self.path, "exec")


class Finder:
    """Finds the module with the fault in it; it must not have been imported yet."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.tree = name, tree

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module's own place, and another loader."""
        spec = PathFinder.find_spec(name, path) if name == self.name else None
        if spec is not None:
            spec.loader = Planted(name, str(spec.origin))
            spec.loader.tree = self.tree
        return spec


class Recorder:
    """A pytest plugin: orders the tests, keeps hypothesis from shrinking, and remembers what failed first."""

    def __init__(self, order: Callable[[str], float]) -> None:
        self.order, self.failed = order, ""
        self.seconds: dict[str, float] = {}

    def pytest_configure(self) -> None:
        """After tests/conftest.py, which sets a profile of its own."""
        import hypothesis

        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        hypothesis.settings.register_profile(
            "mutation", hypothesis.settings.get_profile("default"), phases=phases, report_multiple_bugs=False
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out what cannot run, and put first what is likely to fail soon."""
        items[:] = [item for item in items if not any(part in item.nodeid for part in LEFT_OUT)]
        items.sort(key=lambda item: self.order(item.nodeid))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember the first failure, and how long each test takes."""
        if report.when == "call":
            self.seconds[report.nodeid] = report.duration
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """Remember a file that could not be imported."""
        if report.failed and not self.failed:
            self.failed = report.nodeid


def run_tests(module: str, tree: ast.Module, stages: Sequence[str], order: Callable[[str], float]) -> Recorder:
    """Import a module from a tree, and run pytest up to the first failure."""
    import numpy as np
    import pytest

    np.seterr(all="ignore")  # as compiled code does
    sys.meta_path.insert(0, Finder(module, tree))
    recorder = Recorder(order)
    options = ["-x", "-q", "-W", "ignore", "--tb=short", "--assert=plain"]
    for plugin in ("cacheprovider", "xdist", "unraisableexception", "threadexception", "faulthandler", "playwright"):
        options += ["-p", f"no:{plugin}"]
    for stage in stages:
        code = pytest.main([*options, *(f"{TESTS}/test_{test}.py" for test in stage.split())], plugins=[recorder])
        if code not in (0, 5):
            recorder.failed = recorder.failed or f"pytest: {code!r}"
            break
    return recorder


def run_child(work: Callable[[], str], seconds: float, log: Path | None = None) -> tuple[str, str, float]:
    """Run work in a forked process: killed or survived, by what, and the processor time. A hang is a kill."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            sink = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            os.write(writing, work().encode())
            os._exit(0)
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}"[:200].encode())
            os._exit(1)
    os.close(writing)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))  # for one that sleeps
    signal.setitimer(signal.ITIMER_REAL, 20 * seconds + 60)
    with os.fdopen(reading, "rb") as pipe:
        reason = pipe.read().decode(errors="replace")
    _, status, usage = os.wait4(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    cpu = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "killed", "time limit" if number in (signal.SIGPROF, signal.SIGKILL) else f"signal {number}", cpu
    return ("killed" if reason or status else "survived"), reason, cpu


# --- the command -----------------------------------------------------------------------------------------------------


PRELOADED = (  # what every child needs, but nothing of the library
    "hypothesis.strategies", "numba", "pytest", "sklearn.metrics", "torch._dynamo.testing",
    "torch.utils._python_dispatch", "benchmarks",
)  # fmt: skip


def preload() -> None:
    """Import once what the children share."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.path[:0] = [str(ROOT / part) for part in ("src", "", "tests")]
    os.chdir(ROOT)
    for name in PRELOADED:
        import_module(name)
    if not sys.modules["numba"].config.DISABLE_JIT or "directloss" in sys.modules:
        raise RuntimeError("numba or directloss is imported already. Run this as a command of its own.")
    sys.modules["torch"].set_num_threads(1)
    gc.freeze()  # a collection would copy all that a child shares with this process


class Outcomes:
    """What became of each mutant, by its name and the digest of its function; appended to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.entries = {(entry["name"], entry["digest"]): entry for entry in map(json.loads, lines)}

    def of(self, mutant: Mutant) -> dict[str, Any] | None:
        """The last one, if there is any."""
        return self.entries.get((mutant.name, mutant.digest))

    def add(self, mutant: Mutant, outcome: str, reason: str, seconds: float) -> None:
        """Write one down."""
        entry = mutant._asdict() | {"outcome": outcome, "by": reason, "seconds": round(seconds, 2)}
        del entry["plant"]
        self.entries[mutant.name, mutant.digest] = entry
        with self.path.open("a") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def run_module(module: str, tree: ast.Module, todo: Sequence[Mutant], stages: Sequence[str], known: Outcomes) -> None:
    """Run the tests against the module as it is, then against each mutant."""
    dotted = ".".join(("directloss", *module.removesuffix(".py").split("/")))
    log, timed = known.path.with_name("unchanged.log"), known.path.with_name("unchanged.json")
    seconds: dict[str, float] = {}
    kills = Counter(entry["by"] for (name, _), entry in known.entries.items() if name.startswith(f"{module}:"))

    def order(test: str) -> float:  # seconds for a kill, as far as known
        return (seconds.get(test, 0.0) + 0.002) / (kills[test] + 0.2)

    def unchanged() -> str:
        recorder = run_tests(dotted, tree, stages, order)
        timed.write_text(json.dumps(recorder.seconds))
        return recorder.failed

    def planted(mutant: Mutant) -> str:
        mutant.plant()
        return run_tests(dotted, tree, stages, order).failed

    outcome, reason, usual = run_child(unchanged, 600.0, log)
    if outcome == "killed":
        raise SystemExit(f"mutation: {module}: the unchanged library fails: {reason}; see {log}")
    seconds.update(json.loads(timed.read_text()))
    print(f"mutation: {module}: {len(todo)} mutants to run, the tests take {usual:.1f} s", file=sys.stderr)
    for number, mutant in enumerate(todo, 1):
        outcome, reason, cpu = run_child(lambda mutant=mutant: planted(mutant), PATIENCE * usual + 1)
        kills[reason] += 1
        known.add(mutant, outcome, reason, cpu)
        print(f"{number}/{len(todo)} {mutant.name} {outcome} {reason} {cpu:.1f} s", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="mutation", description="Run the tests against small faults in the core.")
    parser.add_argument("--module", action="append", choices=MODULES, help="only this one; may be given again")
    parser.add_argument("--only", default="", help="only mutants whose names match this pattern, such as a function")
    parser.add_argument("--sample", type=int, help="only so many mutants of each module, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--quick", action="store_true", help="only the first stage of the tests")
    parser.add_argument("--again", action="store_true", help="run only those that survived, once more")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutation", help="of outcomes.jsonl")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    known = Outcomes(options.folder.resolve() / "outcomes.jsonl")
    if not options.list:
        preload()
    for module in options.module or MODULES:
        tree, every = mutants((SOURCE / module).read_text(), module)
        every = [mutant for mutant in every if re.search(options.only, mutant.name)]
        drawn = set(random.Random(options.seed).sample(range(len(every)), min(options.sample or 0, len(every))))
        chosen = [mutant for k, mutant in enumerate(every) if options.sample is None or k in drawn]
        if options.list:
            print(*(f"{mutant.name}, line {mutant.line}: {mutant.change}" for mutant in chosen), sep="\n")
            continue
        survived = [mutant for mutant in chosen if (known.of(mutant) or {}).get("outcome") == "survived"]
        todo = survived if options.again else [mutant for mutant in chosen if known.of(mutant) is None]
        if todo:
            run_module(module, tree, todo, MODULES[module][:1] if options.quick else MODULES[module], known)
        entries = [(mutant, entry) for mutant in chosen if (entry := known.of(mutant)) is not None]
        survivors = [mutant for mutant, entry in entries if entry["outcome"] == "survived"]
        print(
            f"{module}: {len(every)} mutants, {len(entries)} run, {len(entries) - len(survivors)} killed, "
            f"{len(survivors)} survived"
        )
        for mutant in survivors:
            print(f"  {mutant.name}, line {mutant.line}: {mutant.change}")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
