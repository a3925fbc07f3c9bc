"""A table that a reader can filter, average and sort, by a script within the page; it needs no network."""

import json
from html import escape

from ..harness.study import Leaderboard

__all__ = ["SCRIPT", "leaderboard_html"]

SCRIPT = """
document.querySelectorAll('.leaderboard').forEach(board => {
  const data = JSON.parse(board.querySelector('script').textContent);
  const width = data.keys.length, selects = [...board.querySelectorAll('select')];
  for (const row of data.rows) for (let k = 0; k < width; k++) row[k] = data.names[k][row[k]];
  const [head, body, count] = ['thead tr', 'tbody', 'output'].map(name => board.querySelector(name));
  let sorted = width, down = true;
  const rows = () => {
    const asked = selects.map(select => select.value), groups = new Map();
    const shown = asked.map((value, k) => value === 'each' ? k : -1).filter(k => k >= 0);
    for (const row of data.rows) {
      if (asked.some((value, k) => value !== 'each' && value !== 'mean' && value !== row[k])) continue;
      const name = JSON.stringify(shown.map(k => row[k]));
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    return [...groups.values()].map(group => {
      const first = group[0].slice(0, width).map((value, k) => asked[k] === 'mean' ? '' : value);
      const numbers = data.values.map((_, k) => {
        const known = group.map(row => row[width + k]).filter(value => value !== null);
        return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
      });
      return [...first, ...numbers, group.length];
    });
  };
  const compare = (a, b) => {
    const x = a[sorted], y = b[sorted];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === 'number' ? x - y : x.localeCompare(y);
    return down ? -order : order;
  };
  const draw = () => {
    const found = rows().sort(compare);
    const visible = [...data.keys, ...data.values, 'rows'].map((_, k) => k >= width || selects[k].value === 'each');
    [...head.children].forEach((cell, k) => {
      cell.hidden = !visible[k];
      cell.setAttribute('aria-sort', k === sorted ? (down ? 'descending' : 'ascending') : 'none');
    });
    body.replaceChildren(...found.map(row => {
      const line = document.createElement('tr');
      row.forEach((value, k) => {
        const cell = document.createElement('td');
        const number = typeof value === 'number' && k < row.length - 1;
        cell.textContent = value === null ? '–' : number ? value.toFixed(3).replace('-', '−') : value;
        cell.hidden = !visible[k];
        line.append(cell);
      });
      return line;
    }));
    count.textContent = found.length + ' rows';
  };
  [...head.children].forEach((cell, k) => cell.querySelector('button').addEventListener('click', () => {
    down = k === sorted ? !down : k >= width;
    sorted = k;
    draw();
  }));
  selects.forEach(select => select.addEventListener('change', draw));
  draw();
});
"""


def leaderboard_html(board: Leaderboard) -> str:
    """The choices, an empty table, and the rows as JSON, which `SCRIPT` shows."""
    choices, names = "", []
    for place, (key, begin) in enumerate(zip(board.keys, board.begin, strict=True)):
        values = dict.fromkeys(str(row[place]) for row in board.rows)
        names.append({value: number for number, value in enumerate(values)})
        given = {"each": f"each {key}", "mean": f"mean over all: {key}", **{value: value for value in values}}
        options = ""
        for value, text in given.items():
            chosen = " selected" if value == begin else ""
            options += f'<option value="{escape(value, quote=True)}"{chosen}>{escape(text)}</option>'
        choices += f"<label>{escape(key)} <select>{options}</select></label>\n"
    header = [*board.keys, *board.values, "rows"]
    head = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in header)
    rows = []
    for row in board.rows:  # a third of the text, with numbers in the place of names
        numbers = (of[str(value)] for of, value in zip(names, row, strict=False))
        rows.append([*numbers, *row[len(names) :]])
    data = {"keys": board.keys, "names": [list(of) for of in names], "values": board.values, "rows": rows}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<h3>{escape(board.title)}</h3>\n<div class="leaderboard">\n'
        f'<div class="choices">\n{choices}<output></output></div>\n'
        "<noscript><p>To filter and sort, allow scripts. All tables are below.</p></noscript>\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(board.title, quote=True)}">'
        f'<table class="numbers"><thead><tr>{head}</tr></thead>\n<tbody></tbody></table></div>\n'
        f'<script type="application/json">{text}</script>\n</div>\n'
    )
