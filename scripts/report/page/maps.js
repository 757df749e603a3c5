// Memory over time and the address map of a setting: which one is shown, and the map of the chosen moment.
const MAP_UNIT_BYTES = 512, MAP_WIDTH = 1240, MAP_LEFT = 8, MAP_RIGHT = 1150;
const BLOCK_STATES = [["free", "m-reserved"], ["handed out", "m-allocated"], ["waiting for another stream", "m-requested"]];

function shape(parent, name, attributes, tip) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (tip) { const title = document.createElementNS("http://www.w3.org/2000/svg", "title"); title.textContent = tip; element.append(title); }
  parent.append(element);
  return element;
}

function label(parent, x, y, text, attributes = {}) { shape(parent, "text", {x, y, class: "f-text", ...attributes}).textContent = text; }

// [{at, units, state}] of a packed segment, in units of 512 bytes.
function blocksOf(segment) {
  const blocks = [];
  for (let index = 1, at = 0; index < segment.length; index += 2) { blocks.push({at, units: segment[index], state: segment[index + 1]}); at += segment[index]; }
  return blocks;
}

function largestFree(segments) {
  let largest = null;
  segments.forEach((blocks, row) => blocks.forEach((block) => { if (block.state === 0 && block.units > (largest?.units || 0)) largest = {...block, row}; }));
  return largest;
}

function drawMap(article) {
  const id = article.querySelector(".t-cell").value, timeline = DATA.timelines[id], cell = CELLS.get(id), figure = article.querySelector("[data-chart=map]");
  const packed = timeline.maps[article.querySelector(".t-scrub").value], plot = figure.querySelector(".plot"), told = figure.querySelector(".t-told");
  plot.textContent = "";
  figure.querySelector(".t-at").textContent = packed ? `at event ${packed[0].toLocaleString("en")}` : "";
  if (!packed) { told.textContent = "No map was kept."; return; }
  const segments = packed.slice(1).map(blocksOf), failed = packed[0] === timeline.failed ? cell?.raw.first : null, largest = largestFree(segments);
  const free = segments.flat().reduce((sum, block) => sum + (block.state === 0 ? block.units : 0), 0) * MAP_UNIT_BYTES;
  const parts = [`${bytesText(free)} free in ${segments.length} segment${segments.length === 1 ? "" : "s"}, the largest free block ${bytesText(largest ? largest.units * MAP_UNIT_BYTES : 0)} (outlined)`];
  if (failed) parts.unshift(`The first request that failed wanted ${bytesText(failed.size_bytes)} (red)${failed.free_largest_bytes === null ? "" : `; the largest cached block that it could use had ${bytesText(failed.free_largest_bytes)}`}`);
  told.textContent = `${parts.join("; ")}.`;
  const widest = Math.max(...segments.map((blocks) => blocks.reduce((sum, block) => sum + block.units, 0)), failed ? failed.size_bytes / MAP_UNIT_BYTES : 0, 1);
  const row = Math.max(2, Math.min(18, 560 / Math.max(1, segments.length))), top = failed ? 42 : 20, x = (units) => MAP_LEFT + units / widest * (MAP_RIGHT - MAP_LEFT);
  const height = top + row * segments.length + 44, bottom = height - 40;
  const svg = shape(plot, "svg", {viewBox: `0 0 ${MAP_WIDTH} ${height}`, "font-size": 12, role: "img", "aria-label": told.textContent});
  BLOCK_STATES.forEach(([name, colour], index) => { shape(svg, "rect", {x: MAP_LEFT + index * 120, y: 2, width: 11, height: 11, class: `f-${colour}`}); label(svg, MAP_LEFT + index * 120 + 16, 12, name); });
  if (failed) {
    shape(svg, "rect", {x: MAP_LEFT, y: 22, width: Math.max(2, x(failed.size_bytes / MAP_UNIT_BYTES) - MAP_LEFT), height: 14, class: "f-bad"}, `failed request: ${bytesText(failed.size_bytes)}`);
    shape(svg, "rect", {x: MAP_LEFT + 450, y: 2, width: 11, height: 11, class: "f-bad"});
    label(svg, MAP_LEFT + 466, 12, `failed request, ${bytesText(failed.size_bytes)}`);
  }
  segments.forEach((blocks, index) => blocks.forEach((block) => {
    const y = top + index * row, tip = `${BLOCK_STATES[block.state][0]}: ${bytesText(block.units * MAP_UNIT_BYTES)} at +${bytesText(block.at * MAP_UNIT_BYTES)} of segment ${index + 1}`;
    shape(svg, "rect", {x: x(block.at).toFixed(1), y, width: Math.max(0.4, x(block.at + block.units) - x(block.at) - 0.3).toFixed(1), height: row * 0.86, class: `f-${BLOCK_STATES[block.state][1]}`}, tip);
  }));
  if (largest) shape(svg, "rect", {x: x(largest.at), y: top + largest.row * row - 1, width: Math.max(3, x(largest.at + largest.units) - x(largest.at)), height: row * 0.86 + 2, class: "f-none s-bad", "stroke-width": 2}, `largest free block: ${bytesText(largest.units * MAP_UNIT_BYTES)}`);
  for (let tick = 0; tick <= 4; ++tick) label(svg, x(widest * tick / 4), bottom + 14, bytesText(widest * tick / 4 * MAP_UNIT_BYTES), {"text-anchor": tick ? "middle" : "start", class: "f-soft"});
  label(svg, MAP_RIGHT, bottom + 32, "offset in the segment; one row is one segment, by address", {"text-anchor": "end", class: "f-soft"});
}

function chooseTimeline(article) {
  const id = article.querySelector(".t-cell").value, timeline = DATA.timelines[id], scrub = article.querySelector(".t-scrub");
  article.querySelectorAll("[data-chart=timeline] .plot").forEach((plot) => { plot.hidden = plot.dataset.cell !== id; });
  scrub.max = Math.max(0, timeline.maps.length - 1);
  scrub.value = timeline.open;
  drawMap(article);
}

const mapWatcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { mapWatcher.unobserve(entry.target); chooseTimeline(entry.target.closest(".experiment")); }
}, {rootMargin: "300px"});
for (const article of experiments) {
  const figure = article.querySelector("[data-chart=map]");
  if (!figure) continue;
  article.querySelector(".t-cell").addEventListener("change", () => chooseTimeline(article));
  article.querySelector(".t-scrub").addEventListener("input", () => drawMap(article));
  mapWatcher.observe(figure);
}
