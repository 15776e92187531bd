"""The page's frame: its style and its script, around the data of a call."""

TEMPLATE = r"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@@TITLE@@, program by program</title>
<style>
:root { --ink: #1b1f24; --faint: #6b7280; --line: #d7dbe0; --held: #2f6fed; --shared: #b9c4d6; --now: #f59e0b; }
* { box-sizing: border-box }
body { margin: 0; padding: 16px 20px; font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: #fff }
h1 { font-size: 18px; margin: 0 0 8px } h2 { font-size: 14px; margin: 12px 0 4px }
.controls { display: grid; grid-template-columns: 5em 1fr 12em; gap: 4px 10px; align-items: center; max-width: 900px }
.note { background: #fff7e0; border-left: 3px solid var(--now); padding: 3px 8px; margin: 6px 0; max-width: 900px }
.sides { display: flex; gap: 28px; align-items: flex-start; margin-top: 10px; flex-wrap: wrap }
.sides > div { min-width: 300px } #lines { flex: 1 1 480px }
.legend, .faint { color: var(--faint); font-size: 12px }
.swatch { display: inline-block; width: 11px; height: 11px; margin: 0 3px 0 10px; vertical-align: -1px }
.grid { display: grid; gap: 1px; width: max-content; max-width: 100%; overflow: auto; padding: 1px }
.cell { background: #eef0f3; border-radius: 1px }
.cell.shared { background: var(--shared) } .cell.held { background: var(--held) }
.cell.held.shared { background: linear-gradient(135deg, var(--held) 50%, #9333ea 50%) }
.cell.now { outline: 2px solid var(--now); outline-offset: -2px }
.over { background: repeating-linear-gradient(45deg, #fff 0 3px, #e0596b 3px 5px) }
pre { margin: 0; padding: 2px 6px; font: 13px/1.5 ui-monospace, monospace; white-space: pre; cursor: pointer }
pre.now { background: #fff1cf } pre .number { color: var(--faint); user-select: none }
.value { margin: 6px 0 10px } table { border-collapse: collapse; font: 12px ui-monospace, monospace }
td { border: 1px solid var(--line); padding: 1px 5px; text-align: right }
td.over { color: #a01930; min-width: 2em; background: #fdeef0 }
.scroll { overflow: auto; max-height: 300px; max-width: 640px }
</style></head><body>
<h1 id="title"></h1><div id="notes"></div>
<div class="controls">
<label for="program">program</label><input id="program" type="range" min="0" value="0"><span id="at"></span>
<label for="step">line</label><input id="step" type="range" min="0" value="0"><span id="line"></span>
</div>
<p class="legend">Keys: left and right for programs, up and down for lines.
<span class="swatch" style="background:var(--held)"></span>held by this program
<span class="swatch" style="background:var(--shared)"></span>touched by several programs
<span class="swatch" style="background:linear-gradient(135deg,var(--held) 50%,#9333ea 50%)"></span>both
<span class="swatch" style="outline:2px solid var(--now);outline-offset:-2px"></span>touched by this line
<span class="swatch over"></span>overhang</p>
<div class="sides"><div id="parameters"></div><div id="lines"><h2>Application</h2><div id="source"></div>
<h2>Values of this line</h2><div id="values"></div></div></div>
<script id="data" type="application/json">@@DATA@@</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = id => document.getElementById(id);
const make = (tag, parent, text, name) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  parent.appendChild(made);
  return made;
};
const state = { program: 0, step: 0 };
const cells = {}, headings = {};
find("title").textContent = data.name + ": " + data.programs.length + " programs";
for (const note of data.notes) make("div", find("notes"), note, "note");
for (const [name, parameter] of Object.entries(data.parameters)) {
  headings[name] = make("h2", find("parameters"));
  const size = Math.max(5, Math.min(20, Math.floor(520 / Math.max(parameter.columns, 1))));
  const grid = make("div", find("parameters"), undefined, "grid");
  grid.style.gridTemplateColumns = "repeat(" + parameter.columns + "," + size + "px)";
  cells[name] = [];
  for (let i = 0; i < parameter.rows * parameter.columns; i++) {
    const cell = make("div", grid, undefined, "cell");
    cell.style.height = size + "px";
    cells[name].push(cell);
  }
}
const indent = Math.min(...Object.values(data.source).map(text => text.length - text.trimStart().length));
const lines = {};
for (const [number, text] of Object.entries(data.source)) {
  const line = make("pre", find("source"));
  make("span", line, number.padStart(4) + "  ", "number");
  line.append(text.slice(indent));
  line.onclick = () => {
    const found = data.programs[state.program].steps.findIndex(step => step.line == number);
    if (found >= 0) { state.step = found; draw(); }
  };
  lines[number] = line;
}
function table(value, parent) {
  const rank = value.shape.length, columns = rank ? value.shape[rank - 1] : 1;
  const body = make("table", make("div", parent, undefined, "scroll"));
  for (let i = 0; i < value.elements.length; i += Math.max(columns, 1)) {
    const row = make("tr", body);
    for (const each of value.elements.slice(i, i + columns)) {
      make("td", row, each === null ? "--" : each, each === null ? "over" : "");
    }
  }
  if (value.cut) make("div", parent, "cut: " + value.cut + " more elements", "faint");
}
function draw() {
  const program = data.programs[state.program];
  if (!program) return;
  state.step = Math.max(0, Math.min(state.step, program.steps.length - 1));
  const step = program.steps[state.step] || { values: {}, touched: {} };
  find("program").max = data.programs.length - 1; find("program").value = state.program;
  find("step").max = program.steps.length - 1; find("step").value = state.step;
  find("at").textContent = "(" + program.index.join(", ") + ")";
  find("line").textContent = (state.step + 1) + " of " + program.steps.length;
  for (const [name, parameter] of Object.entries(data.parameters)) {
    const held = program.held[name] || { places: [], overhang: 0, how: [] };
    for (const cell of cells[name]) cell.className = "cell";
    for (const place of parameter.shared) cells[name][place].classList.add("shared");
    for (const place of held.places) cells[name][place].classList.add("held");
    for (const place of step.touched[name] || []) cells[name][place].classList.add("now");
    headings[name].textContent = name + " (" + parameter.shape.join(", ") + ")"
      + (held.how.length ? ", " + held.how.join(" and ") : "");
    if (held.overhang) {
      make("span", headings[name], undefined, "swatch over");
      headings[name].append(held.overhang + " lanes of its tile are overhang");
    }
  }
  for (const [number, line] of Object.entries(lines)) line.className = number == step.line ? "now" : "";
  find("values").replaceChildren();
  for (const [name, value] of Object.entries(step.values)) {
    const block = make("div", find("values"), undefined, "value");
    make("div", block, name + ": " + value.type + "[" + value.shape.join(", ") + "]");
    table(value, block);
  }
}
const go = (program, step) => {
  state.program = Math.max(0, Math.min(program, data.programs.length - 1)); state.step = step; draw();
};
find("program").oninput = event => go(+event.target.value, state.step);
find("step").oninput = event => go(state.program, +event.target.value);
document.addEventListener("keydown", event => {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  go(state.program + move[0], state.step + move[1]);
});
const asked = location.hash.slice(1).split(",").map(Number);
go(asked[0] || 0, asked[1] || 0);
</script></body></html>
"""
