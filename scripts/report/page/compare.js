// The comparison with other runs: its filter and its dialogs. Every verdict, change and interval comes from allocmark.
const COMPARISONS = DATA.comparisons.map((one) => ({...one, byId: new Map(one.cells.map((cell) => [cell.id, cell]))}));

function comparisonOf(element) { return COMPARISONS[element.closest(".comparison").dataset.index - 1]; }

function changeText(share) {
  if (share === null || share === undefined) return "-";
  if (Math.abs(share) < 5e-5) return "0 %";
  return share >= 9 ? `×${(share + 1).toPrecision(3)}` : `${share >= 0 ? "+" : "−"}${+(Math.abs(share) * 100).toPrecision(3)} %`;
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
  if (!block.querySelector(".compared")) continue;
  block.addEventListener("input", (event) => { if (event.target.matches(".k-verdict, .k-text")) filterComparison(block); });
  block.addEventListener("click", (event) => {
    const button = event.target.closest("button.numbers");
    if (button) openComparison(block, button.closest("tr").dataset.cell);
  });
  filterComparison(block);
}
document.documentElement.dataset.ready = "yes";
