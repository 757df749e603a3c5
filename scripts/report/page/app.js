// What the page does: filters, sorting, details, copying, saving charts, light and dark. Charts are part of the page already.
const DATA = JSON.parse(document.getElementById("data").textContent);
const CELLS = new Map();
for (const row of DATA.cells) {
  const cell = {letter: row.letter, raw: row};
  DATA.fields.forEach((name, index) => { cell[name] = row.v[index]; });
  CELLS.set(cell.cell_id, cell);
}
const byId = (id) => document.getElementById(id);
const experiments = [...document.querySelectorAll(".experiment")];

function make(name, text, attributes = {}) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function timeText(ns) {
  if (ns === null || ns === undefined) return "-";
  if (ns < 1e3) return `${ns.toPrecision(3).replace(/\.0+$/, "")} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(4)} us`;
  return `${(ns / 1e6).toPrecision(4)} ms`;
}
function bytesText(bytes) {
  if (bytes === null || bytes === undefined) return "-";
  for (const [scale, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (bytes >= scale) return `${(bytes / scale).toFixed(2)} ${unit}`;
  }
  return `${bytes} B`;
}
function settingText(cell) { return `${cell.allocator} ${cell.conf || "unset"}`; }

// ---- Copying and saving
async function copyText(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.text);
  } catch {
    // Pages opened from a file may have no clipboard.
    const area = make("textarea");
    area.value = button.dataset.text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}

// The chart as it stands, with its colours written into it: a file has no style sheet of the page.
function saveChart(figure) {
  const shown = figure.querySelector(".plot:not([hidden]) svg");
  if (!shown) return;
  const copy = shown.cloneNode(true), [, , width, height] = shown.getAttribute("viewBox").split(" ");
  const originals = [shown, ...shown.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
    const style = getComputedStyle(originals[index]);
    if (element.hasAttribute("class")) { element.setAttribute("fill", style.fill); element.setAttribute("stroke", style.stroke); element.removeAttribute("class"); }
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("style", `background:${getComputedStyle(document.body).backgroundColor}`);
  const link = make("a", undefined, {download: `${figure.closest(".experiment, .comparison").id}-${figure.dataset.chart}.svg`});
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], {type: "image/svg+xml"}));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

document.addEventListener("click", (event) => {
  const copy = event.target.closest("button.copy"), save = event.target.closest("button.save");
  if (copy) copyText(copy);
  if (save) saveChart(save.closest("figure"));
});

// ---- Filters
const cellCount = document.querySelectorAll(".cells tbody tr").length;
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
  byId("f-count").textContent = `${shown} of ${cellCount} cells`;
  byId("nothing").hidden = shown > 0;
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
  const cell = button && CELLS.get(button.closest("tr").id.slice(2));
  if (cell) openDetail(cell);
  if (event.target.closest("#detail a")) byId("detail").close();
});

// ---- Light and dark
const system = matchMedia("(prefers-color-scheme: dark)");
function setTheme(dark) { document.documentElement.dataset.theme = dark ? "dark" : "light"; }
let chosen = null;
try { chosen = localStorage.getItem("allocmark-theme"); } catch { /* Some browsers keep no storage for files. */ }
setTheme(chosen ? chosen === "dark" : system.matches);
system.addEventListener("change", () => { if (!chosen) setTheme(system.matches); });
byId("theme").addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("allocmark-theme", chosen); } catch { /* It holds until the page is closed. */ }
  setTheme(chosen === "dark");
});
