"""Do the tests notice a fault? Plant small ones in the core, one at a time, and run the tests against each.

A fault is a mutant: a module of the library with one comparison, operator, number, `min`, statement or result changed.
A mutant that fails a test, hangs or crashes is killed. One that passes all of them survives. It shows a law that no
test holds, a line that does nothing, or a change that only costs time. results/mutation.txt says which, for each.

    python -m tests.mutation                                          # all modules, all tests
    python -m tests.mutation --module kernels/ranking.py --tests ranking_kernels --sample 50 --seed 1
    python -m tests.mutation --again                                  # only what survived, with changed tests
    python -m tests.mutation --again --compiled --module tasks/ndcg.py

Compiled code is off, so a mutant of a kernel needs no compiler. Tests that need compiled code are left out, and so are
those that take long without it. With --compiled it is on, for modules that are no kernels; then nearly all tests take
part. One process imports the library and collects the tests once. It runs each file of tests
under a tracer, in a process of its own, which notes the lines that each test executes. For each mutant it forks: the
child exchanges the code of one function, and runs only the tests that reach the statement, up to the first that fails.
Faults in what runs at import need another way: a child of a process that has not imported the library imports the
module with the fault in it. Outcomes are appended to a file in --folder, so a run that is stopped goes on where it was.
An outcome holds as long as the function around the fault is the same.
"""

import argparse
import ast
import functools
import gc
import hashlib
import inspect
import json
import math
import os
import random
import re
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import accumulate, product
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Mutant", "main", "mutants"]

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "directloss"
TESTS = "tests/library"
PARTS = "families", "tasks", "kernels"
MODULES = (
    "task.py", "update.py", "loss.py", "layout.py", "groups.py", "advice.py", "checks.py", "autograd.py",
    "families/plans.py", "families/scale.py", "families/ranking.py", "families/arrays.py", "families/counts.py",
    "families/discounted_gain.py", "families/linear_loss.py", "tasks/average_precision.py", "tasks/zero_one.py",
    "tasks/alignment.py", "tasks/balanced_error.py", "tasks/counts.py", "tasks/dag_path.py", "tasks/grid_path.py",
    "tasks/linear_chain.py", "tasks/multiclass.py", "tasks/ndcg.py", "tasks/ranking.py", "tasks/selection.py",
    "kernels/lists.py", "kernels/alignment.py", "kernels/counts.py", "kernels/discounted_gain.py",
    "kernels/grid_path.py", "kernels/linear_chain.py", "kernels/ranking.py", "kernels/average_precision.py",
)  # fmt: skip
NEVER = (  # by a part of the name: tests that need other processes or threads
    "ctrl_c", "inductor", "into_one_graph", "workers", "threads", "import_is_silent", "cache", "test_distributed",
    "command_prints_its_counts",
)  # fmt: skip
LEFT_OUT = (  # and those that need compiled code, or have lists too long without it
    *NEVER, "test_average_precision.py::test_every_kind", "fast_oracle", "few_cells", "any_magnitude",
    "reference_attains", "long_list", "many_lists", "common_offset", "good_task_passes", "items_have_an_order",
    "converge", "trains_a_score", "pass_the_check_for_tasks", "copies_of_a_task", "order_of_one",
    "test_epsilon_is_in_units", "walk_is_as_good", "discounts_of_your_own", "right_oracles_pass", "wrong_oracle",
)  # fmt: skip
COMPILING = ("compile", "graph", "traced")  # tests in which torch's compiler reads the library, unseen by a tracer
LONGEST = 6.0  # seconds that a test may take under the tracer; one that takes longer is left out
PATIENCE = 1.5  # times the processor time of the unchanged module, before a mutant hangs
MEMORY = 3 << 30  # bytes that a mutant may add


# --- faults ----------------------------------------------------------------------------------------------------------


class Mutant(NamedTuple):
    """A fault: where it is, what it changes, and how to plant it in the tree that it was found in."""

    name: str  # module, function, number in the function
    line: int
    statement: range  # its lines; of a compound statement, those of its head
    function: range  # the lines in the body of the function of the module, or method, that it is in
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
    statements, functions = _statements(tree), _functions(tree)
    found: list[Mutant] = []
    numbers: Counter[str] = Counter()
    for function, digest, before, line, after, plant in _sites(tree, "", hashlib.sha256(b"").hexdigest()):
        numbers[function] += 1
        name = f"{module}:{function or 'module'}:{numbers[function]}"
        around = functions.get(line, range(0))
        found.append(Mutant(name, line, statements[line], around, f"{before}  →  {after}", digest, plant))
    return tree, found


def _statements(tree: ast.Module) -> dict[int, range]:
    """The lines of the statement that a line belongs to, without those of the statements inside it."""
    found: dict[int, range] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            inner = getattr(node, "body", None)
            stop = inner[0].lineno if inner else (node.end_lineno or node.lineno) + 1
            lines = range(node.lineno, max(stop, node.lineno + 1))
            found.update(dict.fromkeys(lines, lines))
    return found


def _functions(node: ast.Module | ast.ClassDef) -> dict[int, range]:
    """The lines in the body of a function of the module, or a method of a class, for each of them."""
    found: dict[int, range] = {}
    for part in node.body:
        if isinstance(part, ast.ClassDef):
            found |= _functions(part)
        elif isinstance(part, ast.FunctionDef):
            lines = range(part.body[0].lineno, (part.end_lineno or part.lineno) + 1)
            found |= dict.fromkeys(lines, lines)
    return found


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


# --- how a fault gets into the library -------------------------------------------------------------------------------


def exchange(module: str, tree: ast.Module, mutant: Mutant) -> bool:
    """Give a function of an imported module the code that it has in a tree. False if that is not where the fault is."""
    mutant.plant()
    code, live = compile(tree, str(SOURCE / module), "exec"), sys.modules[_dotted(module)]
    for part in mutant.name.split(":")[1].split("."):
        code = next((one for one in code.co_consts if getattr(one, "co_name", None) == part), None)
        live = inspect.getattr_static(live, part, None)
        if code is None or live is None:
            return False
        if not isinstance(live, type):
            break
    if isinstance(live, property):
        live = live.fget
    live = inspect.unwrap(getattr(live, "__func__", live))  # pyright: ignore
    if getattr(live, "__code__", code) == code:
        return False
    live.__code__ = code  # pyright: ignore
    return True


def _dotted(module: str) -> str:
    return ".".join(("directloss", *module.removesuffix(".py").split("/")))


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


# --- the tests, in a process of its own ------------------------------------------------------------------------------


class Tracer:
    """Which lines of some files are executed; a function for sys.settrace."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = {str(SOURCE / module): module for module in modules}
        self.lines: dict[str, set[int]] = {module: set() for module in modules}

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        """Note a line."""
        module = self.modules.get(frame.f_code.co_filename)
        if module is None:
            return None
        self.lines[module].add(frame.f_lineno)
        return self

    def take(self) -> dict[str, list[int]]:
        """The lines since the last time."""
        found = {module: sorted(lines) for module, lines in self.lines.items() if lines}
        for lines in self.lines.values():
            lines.clear()
        return found


class Recorder:
    """A pytest plugin: collects tests, keeps hypothesis from shrinking, and remembers what failed first."""

    def __init__(self, work: Callable[[dict[str, Any]], None]) -> None:
        self.work, self.failed = work, ""

    def pytest_configure(self) -> None:
        """After conftest.py, which sets a profile of its own."""
        import hypothesis

        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        hypothesis.settings.register_profile(
            "mutation", hypothesis.settings.get_profile("default"), phases=phases, report_multiple_bugs=False
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_runtestloop(self, session: Any) -> bool:
        """Give the tests to those who run them."""
        if not self.failed:
            tests = {item.nodeid: item for item in session.items}
            left_out = NEVER if _is_compiled() else LEFT_OUT
            self.work({name: tests[name] for name in tests if not any(part in name for part in left_out)})
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember the first failure."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """Remember a file that could not be imported."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def run(self, tests: Sequence[Any]) -> str:
        """Run tests up to the first that fails, and return its name."""
        for test, following in zip(tests, [*tests[1:], None], strict=False):
            test.ihook.pytest_runtest_protocol(item=test, nextitem=following)
            if self.failed:
                break
        return self.failed


def collect(files: Sequence[str], work: Callable[[Recorder, dict[str, Any]], None]) -> str:
    """Collect the tests of some files, and do some work with them; returns what failed."""
    import numpy as np
    import pytest

    np.seterr(all="ignore")  # as compiled code does
    recorder = Recorder(lambda tests: work(recorder, tests))
    options = ["-q", "-s", "-W", "ignore", "--tb=short", "--assert=plain"]
    for plugin in ("cacheprovider", "xdist", "unraisableexception", "threadexception", "faulthandler", "playwright"):
        options += ["-p", f"no:{plugin}"]
    code = pytest.main([*options, *files], plugins=[recorder])
    return recorder.failed or ("" if code in (0, 5) else f"pytest: {code!r}")


class TooSlowError(BaseException):
    """A test that takes longer than LONGEST."""


def trace(recorder: Recorder, tests: dict[str, Any], modules: Sequence[str]) -> dict[str, Any]:
    """The seconds of each test and the lines that it executes; None for one that takes too long, or fails."""
    tracer, caches = Tracer(modules), library_caches()

    def stop(*_: Any) -> None:
        raise TooSlowError

    signal.signal(signal.SIGPROF, stop)
    found = {}
    for name, test in tests.items():
        for cache in caches:  # so that this test makes what it remembers itself
            cache.cache_clear()
        start = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, LONGEST, LONGEST)
            sys.settrace(tracer)
            recorder.run([test])
        except (TooSlowError, Exception):  # pytest may fail to report what was stopped
            test.session._setupstate.teardown_exact(None)
            recorder.failed = name
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
        lines, seconds = tracer.take(), time.process_time() - start
        found[name] = None if recorder.failed else {"seconds": seconds, "lines": lines}
        recorder.failed = ""
    return found


def library_caches() -> list[Any]:
    """The functions of the library that remember their results."""
    wrappers = (thing for thing in gc.get_objects() if isinstance(thing, functools._lru_cache_wrapper))
    return [wrapper for wrapper in wrappers if wrapper.__module__.startswith("directloss")]


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


def _is_compiled() -> bool:
    return not sys.modules["numba"].config.DISABLE_JIT


def compile_kernels() -> None:
    """Load what is compiled, so that the children have it."""
    import torch

    from directloss import NegativeDirect, PositiveDirect, StructuredLoss
    from directloss.tasks import TASKS

    generator = torch.Generator().manual_seed(0)
    for task, update, _ in product([kind() for kind in TASKS.values()], (PositiveDirect, NegativeDirect), range(8)):
        scores, target, mask = task.random_problem(8, generator)
        for dtype in (torch.float32, torch.float64):
            StructuredLoss(task, update(1.0))(scores.to(dtype), target, mask)


def preload(compiled: bool) -> None:
    """Import once what the children share."""
    os.environ["NUMBA_DISABLE_JIT"] = str(int(not compiled))
    sys.path[:0] = [str(ROOT / part) for part in ("src", "", "tests")]
    os.chdir(ROOT)
    for name in PRELOADED:
        import_module(name)
    if _is_compiled() != compiled or "directloss" in sys.modules:
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
        del entry["plant"], entry["statement"], entry["function"]
        self.entries[mutant.name, mutant.digest] = entry
        with self.path.open("a") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


class Reach:
    """Which tests reach a statement. Written to a file, for each file of tests by what it and the library hold."""

    def __init__(self, path: Path, modules: Sequence[str]) -> None:
        self.path, self.modules = path, modules
        self.files: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def trace(self, recorder: Recorder, tests: dict[str, Any]) -> None:
        """Trace the files of tests that have changed, or that were never traced."""
        by_file: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for name, test in tests.items():
            by_file[name.split("::")[0]][name] = test
        members = ROOT / "tests" / "members.py"
        library = [*SOURCE.glob("*.py"), *(path for part in PARTS for path in (SOURCE / part).glob("*.py"))]
        for file, some in by_file.items():
            read = b"".join(path.read_bytes() for path in [ROOT / file, ROOT / "conftest.py", members, *library])
            key = hashlib.sha256(read + repr(self.modules).encode()).hexdigest()
            if self.files.get(file, {}).get("key") == key:
                continue
            part = self.path.with_name("part.json")
            log = self.path.with_name(f"{Path(file).stem}.log")
            outcome, reason, cpu = run_child(
                lambda some=some, part=part: (part.write_text(json.dumps(trace(recorder, some, self.modules))), "")[1],
                3600.0,
                log,
            )
            if outcome == "killed":
                raise SystemExit(f"mutation: {file}: {reason}; see {log}")
            self.files[file] = {"key": key, "tests": json.loads(part.read_text())}
            self.path.write_text(json.dumps(self.files))
            slow = [name for name, entry in self.files[file]["tests"].items() if entry is None]
            print(f"mutation: {file}: {cpu:.0f} s; left out: {slow}", file=sys.stderr, flush=True)
        self.files = {file: self.files[file] for file in by_file}
        for entry in self.files.values():
            entry["tests"] = {name: found for name, found in entry["tests"].items() if name in tests}

    def tests(self) -> dict[str, Any]:
        """All tests that are fast enough."""
        files = (entry["tests"] for entry in self.files.values())
        return {name: entry for tests in files for name, entry in tests.items() if entry is not None}

    def of(self, module: str, mutant: Mutant) -> dict[str, float]:
        """The tests that reach a mutant, with their seconds."""
        lines = set(mutant.statement)
        return {
            name: entry["seconds"]
            for name, entry in self.tests().items()
            if not lines.isdisjoint(entry["lines"].get(module, ())) or any(part in name for part in COMPILING)
        }


class Run:
    """The mutants of some modules, run against the tests that reach them."""

    def __init__(
        self, trees: dict[str, ast.Module], todo: list[tuple[str, Mutant]], known: Outcomes, seconds: float
    ) -> None:
        self.trees, self.todo, self.known, self.seconds = trees, todo, known, seconds
        traced = [module for module in MODULES if module in trees or not module.startswith("kernels/")]
        self.reach = Reach(known.path.with_name("reach-compiled.json" if _is_compiled() else "reach.json"), traced)
        self.later = known.path.with_name("later.json")  # mutants of what runs at import
        self.kills = Counter(entry["by"] for entry in known.entries.values())

    def order(self, tests: dict[str, float]) -> list[str]:
        """First the tests that are likely to fail soon, as many as there is time for."""
        names = sorted(tests, key=lambda name: (tests[name] + 0.002) / (self.kills[name] + 0.1))
        totals = accumulate(map(tests.__getitem__, names))
        return [name for name, total in zip(names, totals, strict=True) if total <= self.seconds]

    def exchange_all(self, files: Sequence[str]) -> str:
        """Import the library, trace the tests, and run every mutant that can be exchanged."""
        tracer = Tracer(list(self.trees))
        sys.settrace(tracer)
        import_module("directloss")
        for module in self.trees:
            import_module(_dotted(module))
        sys.settrace(None)
        imported = tracer.take()
        if _is_compiled():
            compile_kernels()

        def work(recorder: Recorder, tests: dict[str, Any]) -> None:
            caches = library_caches()
            self.reach.trace(recorder, tests)
            gc.freeze()
            later = []
            for number, (module, mutant) in enumerate(self.todo, 1):
                reaching = self.reach.of(module, mutant)
                names = self.order(reaching)
                chosen = [tests[name] for name in names]
                limit = PATIENCE * sum(reaching[name] for name in names) + 2

                def run(module: str = module, mutant: Mutant = mutant, chosen: list[Any] = chosen) -> str:
                    for cache in caches:
                        cache.cache_clear()
                    return recorder.run(chosen) if exchange(module, self.trees[module], mutant) else "import"

                outcome, reason, cpu = run_child(run, limit)
                early = not set(mutant.function).isdisjoint(imported.get(module, ()))
                if reason == "import" or (early and outcome == "survived"):
                    later.append(mutant.name)
                    outcome, reason = "later", ""
                else:
                    self.add(mutant, outcome, reason, cpu)
                said = f"{outcome} {reason} {cpu:.1f} s, {len(chosen)} tests"
                print(f"{number}/{len(self.todo)} {mutant.name} {said}", file=sys.stderr, flush=True)
            self.later.write_text(json.dumps([later, imported]))

        return collect(files, work)

    def import_all(self) -> None:
        """Run the other mutants: each is imported with the module, and meets all tests if it is executed then."""
        later, imported = json.loads(self.later.read_text())
        self.reach = Reach(self.reach.path, self.reach.modules)
        every = {name: entry["seconds"] for name, entry in self.reach.tests().items()}
        for module, mutant in self.todo:
            if mutant.name not in later:
                continue
            executed = not set(mutant.statement).isdisjoint(imported.get(module, ()))
            reaching = every if executed else self.reach.of(module, mutant)

            def run(module: str = module, mutant: Mutant = mutant, reaching: dict[str, float] = reaching) -> str:
                mutant.plant()
                sys.meta_path.insert(0, Finder(_dotted(module), self.trees[module]))

                def work(recorder: Recorder, tests: dict[str, Any]) -> None:
                    recorder.run([tests[name] for name in self.order(reaching) if name in tests])

                return collect(sorted({name.split("::")[0] for name in reaching}), work)

            limit = PATIENCE * sum(reaching[name] for name in self.order(reaching)) + 60  # all tests are collected
            outcome, reason, cpu = run_child(run, limit)
            self.add(mutant, outcome, reason, cpu)
            said = f"{outcome} {reason} {cpu:.1f} s, {len(reaching)} tests"
            print(f"{mutant.name} {said}, imported", file=sys.stderr, flush=True)

    def add(self, mutant: Mutant, outcome: str, reason: str, seconds: float) -> None:
        """Write an outcome down."""
        self.kills[reason] += 1
        self.known.add(mutant, outcome, reason, seconds)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="mutation", description="Run the tests against small faults in the core.")
    parser.add_argument("--module", action="append", choices=MODULES, help="only this one; may be given again")
    parser.add_argument("--only", default="", help="only mutants whose names match this pattern, such as a function")
    parser.add_argument("--sample", type=int, help="only so many mutants of each module, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--tests", nargs="+", help="only these files of tests, such as laws for test_laws.py")
    parser.add_argument("--again", action="store_true", help="run only those that survived, once more")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of tests for a mutant, the likeliest first")
    parser.add_argument("--compiled", action="store_true", help="with compiled kernels, for modules that are none")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutation", help="of outcomes.jsonl")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    known = Outcomes(options.folder.resolve() / "outcomes.jsonl")
    files = [f"{TESTS}/test_{name}.py" for name in options.tests] if options.tests else [TESTS]
    trees: dict[str, ast.Module] = {}
    counts: dict[str, int] = {}
    chosen: list[tuple[str, Mutant]] = []
    modules = options.module or MODULES
    for module in (module for module in modules if not (options.compiled and module.startswith("kernels/"))):
        trees[module], every = mutants((SOURCE / module).read_text(), module)
        every = [mutant for mutant in every if re.search(options.only, mutant.name)]
        counts[module] = len(every)
        drawn = set(random.Random(options.seed).sample(range(len(every)), min(options.sample or 0, len(every))))
        chosen += [(module, mutant) for k, mutant in enumerate(every) if options.sample is None or k in drawn]
    if options.list:
        print(*(f"{mutant.name}, line {mutant.line}: {mutant.change}" for _, mutant in chosen), sep="\n")
        return 0
    wanted = "survived" if options.again else None
    todo = [(module, mutant) for module, mutant in chosen if (known.of(mutant) or {}).get("outcome") == wanted]
    if todo:
        preload(options.compiled)
        run = Run(trees, todo, known, options.seconds)
        child = os.fork()  # this process does not import the library
        if child == 0:
            failed = run.exchange_all(files)
            sys.stderr.write(f"mutation: {failed}\n" if failed else "")
            os._exit(bool(failed))
        if os.waitpid(child, 0)[1]:
            return 1
        run.known = known = Outcomes(known.path)
        run.import_all()
    for module, number in counts.items():
        entries = [(mutant, entry) for of, mutant in chosen if of == module and (entry := known.of(mutant)) is not None]
        survivors = [mutant for mutant, entry in entries if entry["outcome"] == "survived"]
        print(
            f"{module}: {number} mutants, {len(entries)} run, {len(entries) - len(survivors)} killed, "
            f"{len(survivors)} survived"
        )
        for mutant in survivors:
            print(f"  {mutant.name}, line {mutant.line}: {mutant.change}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
