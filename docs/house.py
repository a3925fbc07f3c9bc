"""The map of the house: which part of the package imports which, as docs/figures/house.svg.

A box is a file or a folder of `src/directloss`; all studies share one. A line goes down from it to what it imports. A
line that follows from others is left out: if a imports b and b imports c, there is no line from a to c.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["draw", "rooms"]

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "directloss"
STUDIES = "a study"
WIDTH, HEIGHT, GAP, FLOOR = 106, 26, 12, 64
STYLE = (
    "text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#1c2330}.wing{font-weight:600;font-size:15px}"
    "rect{fill:#eef2f9;stroke:#5b6b85;rx:5}rect.folder{fill:#dbe7fb}path{fill:none;stroke:#8a97ab;stroke-width:1.2}"
    ".back{fill:#fff;stroke:none}"
)


def rooms(folder: Path) -> dict[str, set[str]]:
    """For each file and folder of a package, the others that it imports; without `__init__` and `__main__`."""
    names = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    names = {name for name in names if not name.startswith("__")}
    found: dict[str, set[str]] = {name: set() for name in names}
    package = folder.relative_to(SOURCE.parent).parts
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        own = parts[len(package)]
        if own not in names:
            continue
        for target in _imports(parts, ast.parse(path.read_text())):
            if target[: len(package)] == package and len(target) > len(package):
                found[own] |= {target[len(package)]} & names - {own}
    studies = {name for name in names if "report" in found[name] and name != "cli"}
    if studies:
        found[STUDIES] = {other for name in studies for other in found[name]}
    return {name: some for name, some in found.items() if name not in studies}


def _imports(parts: tuple[str, ...], tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """The modules of this package that a module imports, also those that it imports on first use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parts[: len(parts) - node.level]
            ends = [node.module.split(".")] if node.module else [[alias.name] for alias in node.names]
            yield from ((*base, *end) for end in ends)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_module":
            yield from (tuple(str(one.value).split(".")) for one in node.args if isinstance(one, ast.Constant))


def _reach(graph: dict[str, set[str]], name: str) -> set[str]:
    return {far for near in graph[name] for far in {near} | _reach(graph, near)}


def _floors(graph: dict[str, set[str]]) -> list[list[str]]:
    """Each part above all that it imports."""

    def height(name: str) -> int:
        return 1 + max((height(other) for other in graph[name]), default=-1)

    tall = 1 + max(map(height, graph))
    return [sorted(name for name in graph if height(name) == floor) for floor in range(tall)]


def _wing(title: str, folder: Path, left: float, width: float, bottom: float) -> list[str]:
    graph = rooms(folder)
    place: dict[str, tuple[float, float]] = {}
    floors = _floors(graph)
    for floor, names in enumerate(floors):
        if floor:  # near what they import
            names = sorted(names, key=lambda name: (sum(place[o][0] for o in graph[name]) / len(graph[name]), name))
        start = left + (width - len(names) * (WIDTH + GAP) + GAP) / 2
        for k, name in enumerate(names):
            place[name] = start + k * (WIDTH + GAP) + WIDTH / 2, bottom - floor * FLOOR
    lines, boxes = [], []
    for name, (x, y) in sorted(place.items()):
        direct = graph[name] - {far for near in graph[name] for far in _reach(graph, near)}
        for other in sorted(direct):
            to_x, to_y = place[other]
            start, middle = y + HEIGHT, (y + HEIGHT + to_y) / 2
            curve = f"M{x:.0f},{start:.0f}C{x:.0f},{middle:.0f} {to_x:.0f},{middle:.0f} {to_x:.0f},{to_y:.0f}"
            lines.append(f'<path d="{curve}"/>')
        kind = ' class="folder"' if name == STUDIES or (folder / name).is_dir() else ""
        boxes.append(f'<rect{kind} x="{x - WIDTH / 2:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}"/>')
        boxes.append(f'<text x="{x:.0f}" y="{y + 18:.0f}">{name}</text>')
    top = bottom - (len(floors) - 1) * FLOOR - 22
    return [*lines, *boxes, f'<text class="wing" x="{left + width / 2:.0f}" y="{top:.0f}">{title}</text>']


def draw() -> str:
    """Both wings. The experiments import the library, never the reverse."""
    library, experiments = _floors(rooms(SOURCE)), _floors(rooms(SOURCE / "experiments"))
    wide, other = (max(map(len, floors)) * (WIDTH + GAP) for floors in (library, experiments))
    tall = FLOOR * len(library) + 30
    whole = wide + other + 60
    parts = [
        *_wing("the library: directloss", SOURCE, 10, wide, tall - HEIGHT - 20),
        *_wing("inside directloss_studies", SOURCE / "experiments", wide + 50, other, tall - HEIGHT - 20),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole:.0f} {tall:.0f}"><style>{STYLE}</style>'
    return "\n".join([head, f'<rect class="back" width="{whole:.0f}" height="{tall:.0f}"/>', *parts, "</svg>"]) + "\n"
