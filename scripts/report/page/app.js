// What the page does: filters, sorting, details, light and dark, and charts drawn when they come into view.
const DATA = JSON.parse(document.getElementById("data").textContent);
const CELLS = new Map();
for (const row of DATA.cells) {
  const cell = {letter: row.letter, raw: row, tails: row.tails};
  DATA.fields.forEach((name, index) => { cell[name] = row.v[index]; });
  cell.measured = cell.status === "ok" || cell.status === "oom_stopped";
  CELLS.set(cell.cell_id, cell);
}
const byId = (id) => document.getElementById(id);
const experiments = [...document.querySelectorAll(".experiment")];

// Plotly is by far the largest part of the page; it is only text until the first chart is near.
function plotly() {
  if (!window.Plotly) {
    const script = document.createElement("script");
    script.textContent = byId("plotly-source").textContent;
    document.head.append(script);
  }
  return window.Plotly;
}

function make(name, text, attributes = {}) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// ---- Charts
function chartOptions() {
  const operation = byId("c-operation").value, part = byId("c-part").value;
  return {operation, part, prefix: `${operation}_${part}`, view: byId("c-view").value};
}

function shownCells(article) {
  return [...article.querySelectorAll(".cells tbody tr:not([hidden])")].map((row) => CELLS.get(row.id.slice(2)));
}

function timelineOf(article) { return DATA.timelines[article.querySelector(".t-cell").value]; }

function snapshotsOf(article) { return timelineOf(article)?.maps || []; }

function figureOf(kind, article, narrow) {
  const options = chartOptions();
  if (kind === "latency") return (options.view === "rows" ? latencyRows : latencyTails)(shownCells(article), options, narrow);
  if (kind === "memory") return memoryChart(shownCells(article), options, narrow);
  if (kind === "oom") return oomChart(shownCells(article), options, narrow);
  if (kind === "slow") return slowChart(shownCells(article), options, narrow);
  prepareTimelines(article);
  if (kind === "timeline") return timelineChart(timelineOf(article), narrow);
  const scrub = article.querySelector(".t-scrub"), snapshots = snapshotsOf(article);
  const snapshot = snapshots[Math.min(scrub.value, scrub.max)];
  const timeline = article.querySelector("[data-chart=timeline]");
  if (snapshot && timeline.drawn) plotly().relayout(timeline.querySelector(".plot"), {shapes: [momentLine(snapshot)]});
  article.querySelector(".t-at").textContent = snapshot ? snapshot[0].toLocaleString("en") : "-";
  return snapshot ? mapChart(snapshot, narrow) : {traces: [], layout: baseLayout(narrow), marks: 0};
}

function momentLine(snapshot) {
  return {type: "line", x0: snapshot[0], x1: snapshot[0], y0: 0, y1: 1, yref: "paper", line: {width: 1.5, color: colour("--text")}};
}

// The map begins at the first failed request where there is one, else at the last moment.
function resetScrub(article) {
  const scrub = article.querySelector(".t-scrub"), snapshots = snapshotsOf(article), failed = timelineOf(article).oom[0];
  const at = snapshots.findIndex((one) => one[0] === failed);
  scrub.max = Math.max(0, snapshots.length - 1);
  scrub.value = at < 0 ? scrub.max : at;
}

function prepareTimelines(article) {
  const select = article.querySelector(".t-cell");
  if (select.options.length) return;
  for (const row of article.querySelectorAll(".cells tbody tr")) {
    const id = row.id.slice(2);
    if (DATA.timelines[id]) select.append(make("option", `${CELLS.get(id).letter} ${settingText(CELLS.get(id))}`, {value: id}));
  }
  const redraw = (kinds) => article.querySelectorAll(".chart").forEach((one) => { if (kinds.includes(one.dataset.chart) && one.drawn) draw(one); });
  select.addEventListener("change", () => { resetScrub(article); redraw(["timeline", "map"]); });
  resetScrub(article);
  article.querySelector(".t-scrub").addEventListener("input", () => redraw(["map"]));
}

function draw(figure) {
  const block = figure.closest(".comparison"), plot = figure.querySelector(".plot"), narrow = plot.clientWidth < 430;
  const options = chartOptions(), kind = figure.dataset.chart;
  const {traces, layout, marks} = block ? comparisonFigure(kind, block, narrow) : figureOf(kind, figure.closest(".experiment"), narrow);
  if (kind === "latency") {
    const part = {"": "", host_: ", host part", driver_: ", driver part"}[options.part];
    figure.querySelector(".what").textContent = `of ${options.operation === "allocate" ? "allocate" : "free"}${part}`;
  }
  figure.drawn = true;
  if (!marks) {
    if (plot.classList.contains("js-plotly-plot")) plotly().purge(plot);
    plot.textContent = "Nothing to draw: these cells have no such samples.";
    return;
  }
  if (!plot.classList.contains("js-plotly-plot")) plot.textContent = "";
  delete layout.narrow;
  plot.style.minHeight = `${layout.height}px`;
  plotly().react(plot, traces, layout, {displayModeBar: false, responsive: true});
  addSave(figure);
}

function addSave(figure) {
  if (figure.querySelector(".save")) return;
  const button = make("button", "SVG", {type: "button", class: "save", "aria-label": "Save this chart as SVG"});
  button.addEventListener("click", () => {
    const plot = figure.querySelector(".plot");
    plotly().downloadImage(plot, {format: "svg", width: plot.clientWidth, height: plot.clientHeight, filename: `${figure.closest(".experiment, .comparison").id}-${figure.dataset.chart}`});
  });
  figure.querySelector("figcaption").append(button);
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    draw(entry.target);
  }
}, {rootMargin: "300px"});
document.querySelectorAll(".chart").forEach((figure) => watcher.observe(figure));

// What has been drawn is drawn again when it next comes into view.
function redrawAll() {
  document.querySelectorAll(".chart").forEach((figure) => { if (figure.drawn) { watcher.unobserve(figure); watcher.observe(figure); } });
}

// ---- Filters
function applyFilters() {
  const text = byId("f-text").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const [workload, capacity, allocator, outcome] = ["workload", "capacity", "allocator", "outcome"].map((name) => byId(`f-${name}`).value);
  let shown = 0;
  for (const article of experiments) {
    const {workload: ofWorkload, capacity: ofCapacity} = article.dataset;
    const fits = (!workload || ofWorkload === workload) && (!capacity || ofCapacity === capacity);
    let rows = 0;
    for (const row of article.querySelectorAll(".cells tbody tr")) {
      const words = `${ofWorkload} ${ofCapacity} ${row.dataset.allocator} ${row.dataset.conf || "unset"}`.toLowerCase();
      const keep = fits && (!allocator || row.dataset.allocator === allocator) && (!outcome || row.dataset.outcome === outcome) && text.every((word) => words.includes(word));
      row.hidden = !keep;
      rows += keep;
    }
    article.hidden = rows === 0;
    shown += rows;
  }
  byId("f-count").textContent = `${shown} of ${CELLS.size} cells`;
  byId("nothing").hidden = shown > 0;
  redrawAll();
}

let pending = 0;
byId("filters").addEventListener("input", () => { clearTimeout(pending); pending = setTimeout(applyFilters, 120); });
byId("filters").addEventListener("reset", () => setTimeout(applyFilters));
document.querySelectorAll("form[role=search]").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));

// A link to a row that the filters hide shows everything again.
function showTarget() {
  const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  if (target && target.closest("[hidden]")) { byId("filters").reset(); setTimeout(() => target.scrollIntoView(), 150); }
}
window.addEventListener("hashchange", showTarget);

// ---- Sorting: ascending, descending, and back to the order of the file. Cells without a value stay last.
for (const table of document.querySelectorAll(".sortable")) {
  const body = table.tBodies[0], original = [...body.rows];
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const heading = button.closest("th"), next = {ascending: "descending", descending: null}[heading.getAttribute("aria-sort")];
    const order = heading.hasAttribute("aria-sort") ? next : "ascending";
    const buttons = [...table.tHead.querySelectorAll("button")], column = buttons.indexOf(button) + 1;
    table.tHead.querySelectorAll("[aria-sort]").forEach((one) => one.removeAttribute("aria-sort"));
    const key = (row) => { const cell = row.cells[column]; return cell && cell.dataset.v !== undefined && cell.dataset.v !== "" ? Number(cell.dataset.v) : null; };
    const sorted = [...original];
    if (order) {
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      sorted.sort((a, b) => { const x = key(a), y = key(b); return x === null ? (y === null ? 0 : 1) : y === null ? -1 : sign * (x - y); });
    }
    body.append(...sorted);
    const article = table.closest(".experiment");
    if (article) article.querySelectorAll(".chart").forEach((figure) => { if (figure.drawn) draw(figure); });
  });
}

// ---- Everything about one cell
function valueText(name, value) {
  if (value === null) return "-";
  if (typeof value !== "number") return String(value) || "-";
  if (/_ns(_|$)/.test(name)) return timeText(value);
  if (/bytes/.test(name)) return `${bytesText(value)}`;
  if (/_share|_rate/.test(name)) return `${(value * 100).toFixed(2)} %`;
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4);
}

// A field's name as a link to its definition.
function defined(name) { return DATA.anchors[name] ? make("a", name, {href: `#${DATA.anchors[name]}`}) : name; }

function pairs(entries) {
  const list = make("ul", undefined, {class: "pairs"});
  for (const [name, value] of entries) {
    const item = make("li"), label = make("span");
    label.append(defined(name));
    item.append(label, make("span", valueText(name, value)));
    list.append(item);
  }
  return list;
}

function grid(headings, rows) {
  const box = make("div", undefined, {class: "scroll", tabindex: "0"}), table = make("table"), head = make("tr");
  headings.forEach((name) => { const one = make("th"); one.append(defined(name)); head.append(one); });
  table.append(make("thead"), make("tbody"));
  table.tHead.append(head);
  for (const row of rows) {
    const line = make("tr");
    row.forEach((value, index) => line.append(make("td", index && typeof value === "number" ? valueText(headings[index], value) : value === null ? "-" : String(value))));
    table.tBodies[0].append(line);
  }
  box.append(table);
  return box;
}

function openDetail(cell) {
  const body = byId("detail-body"), raw = cell.raw;
  byId("detail-title").textContent = `${cell.letter} · ${settingText(cell)} · ${cell.workload} · ${cell.capacity}`;
  body.textContent = "";
  const section = (title, node) => body.append(make("h3", title), node);
  if (cell.reason) section("Why it ended", make("p", cell.reason));
  if (raw.warnings.length) { const list = make("ul"); raw.warnings.forEach((text) => list.append(make("li", text))); section("Warnings", list); }
  section("All fields", pairs(DATA.fields.filter((name) => name !== "reason").map((name) => [name, cell[name]])));
  if (raw.requests) section("Requests to the server", pairs(Object.entries(raw.requests)));
  if (raw.first) section("First failed request", pairs(Object.entries(raw.first)));
  if (Object.keys(raw.counters).length) section("The allocator's own counters", pairs(Object.entries(raw.counters)));
  if (raw.passes.length) section("Passes", grid(["pass", ...DATA.passFields], raw.passes.map((pass, index) => [String(index), ...pass])));
  if (raw.classes.length) section("By requested size", grid(["size", ...DATA.classFields], raw.classes));
  byId("detail").showModal();
  byId("detail").scrollTop = 0;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.open");
  if (button) openDetail(CELLS.get(button.closest("tr").id.slice(2)));
  if (event.target.closest("#detail a")) byId("detail").close();
});

// ---- Light and dark
const system = matchMedia("(prefers-color-scheme: dark)");
function setTheme(dark) { document.documentElement.dataset.theme = dark ? "dark" : "light"; redrawAll(); }
let chosen = null;
try { chosen = localStorage.getItem("allocmark-theme"); } catch { /* Some browsers keep no storage for files. */ }
setTheme(chosen ? chosen === "dark" : system.matches);
system.addEventListener("change", () => { if (!chosen) setTheme(system.matches); });
byId("theme").addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("allocmark-theme", chosen); } catch { /* It holds until the page is closed. */ }
  setTheme(chosen === "dark");
});
document.documentElement.dataset.ready = "yes";
