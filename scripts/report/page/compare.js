// The comparison with other runs: its filter, its dialogs, and its charts. Every verdict, change and interval comes from allocmark.
const VERDICT_COLOURS = {worse: "--bad", better: "--good", "not comparable": "--cause1", changed: "--cause2", undecided: "--soft", same: "--m-active"};
const CHANGES_SHOWN = 40;
const COMPARISONS = DATA.comparisons.map((one) => ({...one, byId: new Map(one.cells.map((cell) => [cell.id, cell]))}));

function comparisonOf(element) { return COMPARISONS[element.closest(".comparison").dataset.index]; }

function numberOf(cell, name) {
  const values = cell.numbers.find((one) => one[0] === name);
  return values && Object.fromEntries(DATA.comparisonFields.map((field, index) => [field, values[index]]));
}

function changeText(share) {
  if (share === null || share === undefined) return "-";
  if (Math.abs(share) < 5e-5) return "0 %";
  return share >= 9 ? `×${(share + 1).toPrecision(3)}` : `${share >= 0 ? "+" : "−"}${+(Math.abs(share) * 100).toPrecision(3)} %`;
}

function shownComparisons(block) {
  return [...block.querySelectorAll(".compared tbody tr:not([hidden])")].map((row) => comparisonOf(block).byId.get(row.dataset.cell)).filter(Boolean);
}

// Changes as ratios on a logarithmic axis, so that twice and half are equally far from no change.
function changesChart(block, narrow) {
  const layout = baseLayout(narrow), name = block.querySelector(".k-number").value;
  const shown = shownComparisons(block).map((cell) => ({cell, number: numberOf(cell, name)})).filter(({number}) => number && number.change !== null).slice(0, CHANGES_SHOWN);
  const letterOf = (cell) => CELLS.get(cell.now)?.letter || "";
  const rows = rowAxis(layout, shown.map(({cell}) => ({letter: letterOf(cell), allocator: `${cell.where} · ${cell.name}`, conf: ""})), narrow);
  const ratio = (share) => 1 + Math.max(share, -0.9999);
  const traces = Object.keys(VERDICT_COLOURS).map((verdict) => {
    const at = shown.flatMap(({number}, index) => number.verdict === verdict ? [index] : []), of = (field) => at.map((index) => ratio(shown[index].number[field] ?? shown[index].number.change));
    const x = of("change");
    return {type: "scatter", mode: "markers", name: verdict, x, y: at.map((index) => rows[index]), hoverinfo: "text",
      marker: {color: colour(VERDICT_COLOURS[verdict]), size: 9, symbol: verdict === "same" || verdict === "undecided" ? "circle-open" : "circle"},
      error_x: {type: "data", symmetric: false, array: of("change_high").map((one, i) => one - x[i]), arrayminus: of("change_low").map((one, i) => x[i] - one), color: colour(VERDICT_COLOURS[verdict]), thickness: 1.5, width: 4},
      hovertext: at.map((index) => { const {cell, number} = shown[index]; return `<b>${plain(cell.name)}</b><br>${plain(cell.where)}<br>${verdict}: ${changeText(number.change)}${number.change_low === null ? "" : ` (${changeText(number.change_low)} to ${changeText(number.change_high)})`}${number.reason ? `<br>${plain(number.reason)}` : ""}`; })};
  }).filter((trace) => trace.x.length);
  const reach = Math.max(1.02, ...shown.flatMap(({number}) => ["change", "change_low", "change_high"].map((field) => { const one = ratio(number[field] ?? 0); return Math.max(one, 1 / one); })));
  // Round changes, those near no change first, as long as they do not touch.
  const apart = Math.log(reach) * (narrow ? 0.42 : 0.3), ticks = [1];
  for (const one of [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 1000, 10000]) if (one < reach && Math.log(one / ticks.at(-1)) >= apart) ticks.push(one);
  for (const one of [0.99, 0.98, 0.95, 0.9, 0.8, 0.67, 0.5, 0.33, 0.2, 0.1, 0.03, 0.01]) if (one > 1 / reach && Math.log(ticks[0] / one) >= apart) ticks.unshift(one);
  layout.xaxis = {...layout.xaxis, type: "log", tickvals: ticks, ticktext: ticks.map((tick) => changeText(tick - 1)), range: [-Math.log10(reach * 1.06), Math.log10(reach * 1.06)], tickangle: 0};
  layout.shapes = [{type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: {width: 1.5, color: colour("--soft")}}];
  return {traces, layout, marks: shown.length};
}

function overlayChart(block, narrow) {
  const layout = baseLayout(narrow), id = block.querySelector(".k-cell").value, cdf = block.querySelector(".k-view").value === "cdf", operation = block.querySelector(".k-operation").value;
  const sides = [["BASE", comparisonOf(block).tails[id], "--m-requested", "dash"], ["NEW", CELLS.get(comparisonOf(block).byId.get(id).now)?.tails, "--accent", "solid"]];
  const traces = sides.filter(([, tails]) => tails?.[operation]).map(([side, tails, token, dash]) => {
    const points = tails[operation][0].map((ns, index) => [ns, tails[operation][1][index]]).filter(([, share]) => cdf || share > 0);
    return {type: "scatter", mode: "lines", name: side, x: points.map(([ns]) => ns), y: points.map(([, share]) => cdf ? 1 - share : share), hoverinfo: "text",
      hovertext: points.map(([ns, share]) => `<b>${side}</b><br>${+(share * 100).toPrecision(3)} % of calls take longer than ${timeText(ns)}`), line: {color: colour(token), dash, width: 2, shape: "hv"}};
  });
  layout.height = 320;
  if (traces.length) layout.xaxis = {...layout.xaxis, ...logTime(traces.flatMap((trace) => trace.x), narrow)};
  layout.yaxis = shareAxis(layout, cdf);
  return {traces, layout, marks: traces.length};
}

function comparisonFigure(kind, block, narrow) { return (kind === "changes" ? changesChart : overlayChart)(block, narrow); }

function redrawComparison(block, kinds) {
  block.querySelectorAll(".chart").forEach((one) => { if (kinds.includes(one.dataset.chart) && one.drawn) draw(one); });
}

function filterComparison(block) {
  const verdict = block.querySelector(".k-verdict").value, words = block.querySelector(".k-text").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of block.querySelectorAll(".compared tbody tr")) {
    const fits = !verdict || (verdict === "differs" ? row.dataset.verdict !== "same" : row.dataset.verdict === verdict);
    row.hidden = !fits || !words.every((word) => row.dataset.words.includes(word));
    shown += !row.hidden;
  }
  block.querySelector(".k-count").textContent = `${shown} of ${comparisonOf(block).cells.length} cells`;
  redrawComparison(block, ["changes"]);
}

function openComparison(block, id) {
  const cell = comparisonOf(block).byId.get(id), body = byId("detail-body");
  byId("detail-title").textContent = `${cell.verdict}: ${cell.name} · ${cell.where}`;
  body.textContent = "";
  const section = (title, node) => body.append(make("h3", title), node);
  if (cell.reason) section("Why", make("p", cell.reason));
  const box = make("div", undefined, {class: "scroll", tabindex: "0"}), table = make("table", undefined, {class: "judged"});
  table.append(make("thead"), make("tbody"));
  const head = make("tr");
  ["number", "verdict", "BASE", "NEW", "change", "interval", "p, corrected", "remark"].forEach((text) => head.append(make("th", text, {scope: "col"})));
  table.tHead.append(head);
  for (const values of cell.numbers) {
    const [name, verdict, base, now, change, low, high, p, reason, gated] = values, line = make("tr"), label = make("th", undefined, {scope: "row"});
    label.append(defined(name.startsWith("counters.") ? "counters" : name), name.startsWith("counters.") ? name.slice(8) : "");
    line.append(label, make("td", verdict, {class: `verdict-${verdict.replace(" ", "-")}`}));
    for (const value of [base, now]) line.append(make("td", typeof value === "number" ? valueText(name, value) : value === null ? "-" : value));
    const remark = [reason, gated ? "" : "does not decide"].filter(Boolean).join("; ");
    for (const text of [changeText(change), low === null ? "-" : `${changeText(low)} … ${changeText(high)}`, p === null ? "-" : p.toPrecision(2), remark]) line.append(make("td", text));
    table.tBodies[0].append(line);
  }
  box.append(table);
  section("Numbers", box);
  if (cell.same) body.append(make("p", `${cell.same} exact numbers are equal and not listed.`));
  if (cell.flags.length) { const list = make("ul"); cell.flags.forEach((text) => list.append(make("li", text))); section("Flags", list); }
  byId("detail").showModal();
  byId("detail").scrollTop = 0;
}

for (const block of document.querySelectorAll(".comparison")) {
  const select = block.querySelector(".k-cell"), tails = comparisonOf(block).tails;
  for (const cell of comparisonOf(block).cells) {
    if (select && tails[cell.id]) select.append(make("option", `${cell.verdict}: ${cell.name} · ${cell.where}`, {value: cell.id}));
  }
  // The curves of the first cell whose latency was judged; OOMs and bytes cannot be seen in them.
  const judged = comparisonOf(block).cells.find((cell) => tails[cell.id] && cell.numbers.some((one) => /_ns_p/.test(one[0]) && (one[1] === "worse" || one[1] === "better")));
  if (select && judged) select.value = judged.id;
  block.addEventListener("input", (event) => {
    if (event.target.matches(".k-verdict, .k-text")) filterComparison(block);
    if (event.target.matches(".k-number")) redrawComparison(block, ["changes"]);
    if (event.target.matches(".k-cell, .k-view, .k-operation")) redrawComparison(block, ["overlay"]);
  });
  block.addEventListener("click", (event) => {
    const button = event.target.closest("button.numbers");
    if (button) openComparison(block, button.closest("tr").dataset.cell);
  });
  if (block.querySelector(".k-verdict")) filterComparison(block);
}
