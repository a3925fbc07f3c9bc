"""The map of both packages: which part imports which, as docs/figures/package-map.svg.

A box is a file or a folder of `src/directloss` or of `studies/src/directloss_studies`; all studies share one. A line
goes down from it to what it imports of its own package. A line that follows from others is left out: if a imports b
and b imports c, there is no line from a to c.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["draw", "parts"]

ROOT = Path(__file__).parent.parent
LIBRARY = ROOT / "src" / "directloss"
STUDIES = ROOT / "studies" / "src" / "directloss_studies"
STUDY = "a study"
WIDTH, HEIGHT, GAP, LAYER, BETWEEN = 106, 26, 12, 64, 90
STYLE = (
    "text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#1c2330}"
    ".package{font-weight:600;font-size:15px}.note{font-size:12px;fill:#5b6b85}"
    "rect{fill:#eef2f9;stroke:#5b6b85;rx:5}rect.folder{fill:#dbe7fb}"
    "path{fill:none;stroke:#8a97ab;stroke-width:1.2}path.packages{stroke:#5b6b85;stroke-width:2}"
    ".back{fill:#fff;stroke:none}"
)

Graph = dict[str, set[str]]
"""For each part of a package, the others that it imports."""


def parts(package: Path) -> Graph:
    """The files and folders of a package without `__init__` and `__main__`, and what each imports of the others."""
    names = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    names = {name for name in names if not name.startswith("__")}
    graph: Graph = {name: set() for name in names}
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package.parent).with_suffix("").parts
        if module[1] in names:
            for target in _imports(module, ast.parse(path.read_text())):
                if target[0] == package.name and len(target) > 1:
                    graph[module[1]] |= {target[1]} & names - {module[1]}
    studies = graph.get("registry", set()) - {"harness"}  # what the registry lists
    if studies:
        graph[STUDY] = {other for name in studies for other in graph[name]}
        graph = {
            name: (others - studies) | ({STUDY} if others & studies else set())
            for name, others in graph.items()
            if name not in studies
        }
    return graph


def _imports(module: tuple[str, ...], tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """The modules of this package that a module imports, also those that it imports on first use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = module[: len(module) - node.level]
            ends = [node.module.split(".")] if node.module else [[alias.name] for alias in node.names]
            yield from ((*base, *end) for end in ends)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_module":
            yield from (tuple(str(one.value).split(".")) for one in node.args if isinstance(one, ast.Constant))


def _all_below(graph: Graph, name: str) -> set[str]:
    return {far for near in graph[name] for far in {near} | _all_below(graph, near)}


def _layers(graph: Graph) -> list[list[str]]:
    """Each part above all that it imports."""

    def height(name: str) -> int:
        return 1 + max((height(other) for other in graph[name]), default=-1)

    heights = {name: height(name) for name in graph}
    return [sorted(name for name in graph if heights[name] == k) for k in range(1 + max(heights.values()))]


def _package(title: str, package: Path, left: float, width: float, bottom: float) -> list[str]:
    graph = parts(package)
    place: dict[str, tuple[float, float]] = {}
    layers = _layers(graph)
    for k, names in enumerate(layers):
        if k:  # near what they import
            names = sorted(names, key=lambda name: (sum(place[o][0] for o in graph[name]) / len(graph[name]), name))
        start = left + (width - len(names) * (WIDTH + GAP) + GAP) / 2
        for column, name in enumerate(names):
            place[name] = start + column * (WIDTH + GAP) + WIDTH / 2, bottom - k * LAYER
    lines, boxes = [], []
    for name, (x, y) in sorted(place.items()):
        direct = graph[name] - {far for near in graph[name] for far in _all_below(graph, near)}
        for other in sorted(direct):
            to_x, to_y = place[other]
            start, middle = y + HEIGHT, (y + HEIGHT + to_y) / 2
            curve = f"M{x:.0f},{start:.0f}C{x:.0f},{middle:.0f} {to_x:.0f},{middle:.0f} {to_x:.0f},{to_y:.0f}"
            lines.append(f'<path d="{curve}"/>')
        kind = ' class="folder"' if name == STUDY or (package / name).is_dir() else ""
        boxes.append(f'<rect{kind} x="{x - WIDTH / 2:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}"/>')
        boxes.append(f'<text x="{x:.0f}" y="{y + 18:.0f}">{name}</text>')
    top = bottom - (len(layers) - 1) * LAYER - 22
    return [*lines, *boxes, f'<text class="package" x="{left + width / 2:.0f}" y="{top:.0f}">{title}</text>']


def draw() -> str:
    """The library on the left, the studies on the right. The studies import the library, never the reverse."""
    library, studies = _layers(parts(LIBRARY)), _layers(parts(STUDIES))
    of_library, of_studies = (max(map(len, layers)) * (WIDTH + GAP) for layers in (library, studies))
    tall = LAYER * max(len(library), len(studies)) + 30
    wide = of_library + of_studies + BETWEEN + 20
    left, right, middle = 10 + of_library, 10 + of_library + BETWEEN - GAP, tall / 2
    arrow = f"M{right:.0f},{middle:.0f}H{left:.0f}m8,-5l-8,5l8,5"
    drawn = [
        *_package("the library: directloss", LIBRARY, 10, of_library, tall - HEIGHT - 20),
        *_package(
            "the studies: directloss_studies", STUDIES, 10 + of_library + BETWEEN, of_studies, tall - HEIGHT - 20
        ),
        f'<path class="packages" d="{arrow}"/>',
        f'<text class="note" x="{(left + right) / 2:.0f}" y="{middle - 10:.0f}">import</text>',
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {tall:.0f}"><style>{STYLE}</style>'
    return "\n".join([head, f'<rect class="back" width="{wide:.0f}" height="{tall:.0f}"/>', *drawn, "</svg>"]) + "\n"
