"use strict";
// The charts: for each kind a function from the shown cells of one experiment to what Plotly draws. Names are escaped, since Plotly
// reads a little HTML in its texts.
const QUANTILES = [["P50", "p50", 0.5], ["P90", "p90", 0.1], ["P99", "p99", 0.01], ["P99.9", "p999", 0.001], ["max", "max", 0]];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "line-ns-open"];
const LINE_COLOURS = ["#0b6bcb", "#d9480f", "#2b8a3e", "#9c36b5", "#c99400", "#0c8599", "#c2255c", "#5c6f82"];
const LINE_DASHES = ["solid", "dash", "dot", "dashdot"];
const ROW_PX = 27;

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function plain(text) { return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); }

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

// What stands at a row: the letter alone where there is no room for more.
function rowLabel(cell, narrow) {
  if (narrow) return cell.letter;
  const text = cell.conf ? `${cell.allocator} ${cell.conf}` : cell.allocator;
  return `${plain(text.length > 36 ? text.slice(0, 35) + "…" : text)}  <b>${cell.letter}</b>`;
}

function baseLayout(narrow) {
  const text = colour("--text"), line = colour("--line");
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, barmode: "overlay", hovermode: "closest",
    font: {color: text, size: 12, family: getComputedStyle(document.body).fontFamily},
    margin: {l: 10, r: 14, t: 8, b: 40}, separators: ".,",
    xaxis: {gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true},
    yaxis: {gridcolor: line, zerolinecolor: line, automargin: true},
    legend: {orientation: "h", y: 1, yanchor: "bottom", x: 0, font: {size: 11}},
    hoverlabel: {align: "left", bgcolor: colour("--panel"), bordercolor: line, font: {color: text, size: 12}},
    narrow,
  };
}

// Rows from top to bottom, one per cell; Plotly counts from the bottom.
function rowAxis(layout, cells, narrow) {
  const rows = cells.map((_, index) => cells.length - 1 - index);
  layout.height = cells.length * ROW_PX + 95;
  layout.yaxis = {...layout.yaxis, tickvals: rows, ticktext: cells.map((cell) => rowLabel(cell, narrow)), range: [-0.6, cells.length - 0.4],
    showgrid: false, zeroline: false, tickfont: {size: 11}};
  return rows;
}

function latencyRows(cells, options, narrow) {
  const layout = baseLayout(narrow), shown = cells.filter((cell) => cell[`${options.prefix}latency_count`] > 0);
  const rows = rowAxis(layout, shown, narrow), traces = [];
  const value = (cell, name) => cell[`${options.prefix}latency_ns_${name}`];
  traces.push({type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false, line: {color: colour("--line"), width: 3},
    x: shown.flatMap((cell) => [value(cell, "p50"), value(cell, "max"), null]), y: rows.flatMap((row) => [row, row, null])});
  QUANTILES.forEach(([label, name], index) => {
    const enough = (cell) => name === "max" || cell[`${options.prefix}latency_count`] >= DATA.sampleMin[name];
    traces.push({type: "scatter", mode: "markers", name: label, x: shown.map((cell) => value(cell, name)), y: rows,
      marker: {color: colour(`--q${index}`), size: index === 4 ? 11 : 9, line: {width: index === 4 ? 2 : 1, color: index === 4 ? colour("--q4") : colour("--page")},
        symbol: shown.map((cell) => SYMBOLS[index] + (enough(cell) || index === 4 ? "" : "-open"))},
      hoverinfo: "text", hovertext: shown.map((cell) => `<b>${plain(settingText(cell))}</b><br>${label} ${enough(cell) ? "" : "~"}${timeText(value(cell, name))}`)});
  });
  layout.xaxis = {...layout.xaxis, ...logTime(shown.flatMap((cell) => QUANTILES.map(([, name]) => value(cell, name))), narrow)};
  return {traces, layout, marks: shown.length};
}

function logTime(values, narrow) {
  const known = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...known)) * 2) / 2, high = Math.ceil(Math.log10(Math.max(...known)) * 2) / 2;
  const tickvals = [];
  const step = narrow && high - low > 4 ? 2 : 1;
  for (let power = Math.floor(low); power <= high; power += step) tickvals.push(10 ** power);
  const unit = (ns) => ns < 1e3 ? `${ns} ns` : ns < 1e6 ? `${ns / 1e3} us` : ns < 1e9 ? `${ns / 1e6} ms` : `${ns / 1e9} s`;
  return {type: "log", tickvals, ticktext: tickvals.map(unit), range: known.length ? [low - 0.08, high + 0.08] : undefined, tickangle: 0};
}

function shareAxis(layout, cdf) {
  return cdf ? {...layout.yaxis, title: {text: "share of calls not slower"}, range: [0, 1.02], tickformat: ",.0%"}
    : {...layout.yaxis, type: "log", title: {text: "share of calls slower"}, tickvals: [1, 0.1, 0.01, 0.001, 1e-4, 1e-5], ticktext: ["100 %", "10 %", "1 %", "0.1 %", "0.01 %", "0.001 %"]};
}

// The share of calls slower (or, as CDF, not slower) than a latency: every bucket where the results have histograms, else the stored
// quantiles.
function latencyTails(cells, options, narrow) {
  const layout = baseLayout(narrow), shown = cells.filter((cell) => cell[`${options.prefix}latency_count`] > 0), cdf = options.view === "cdf";
  const traces = shown.map((cell, index) => {
    const stored = options.part === "" && cell.tails[options.operation];
    const points = stored ? stored[0].map((ns, at) => [ns, stored[1][at]]) : tailOfQuantiles(cell, options.prefix);
    const seen = cdf ? points : points.filter(([, share]) => share > 0);
    return {type: "scatter", mode: stored ? "lines" : "lines+markers", name: `${cell.letter} ${plain(settingText(cell).slice(0, 34))}`,
      x: seen.map(([ns]) => ns), y: seen.map(([, share]) => cdf ? 1 - share : share), hoverinfo: "text",
      hovertext: seen.map(([ns, share]) => `<b>${plain(settingText(cell))}</b><br>${+(share * 100).toPrecision(3)} % of calls take longer than ${timeText(ns)}`),
      line: {color: LINE_COLOURS[index % LINE_COLOURS.length], dash: LINE_DASHES[Math.floor(index / LINE_COLOURS.length) % 4], width: 2, shape: stored ? "hv" : "linear"}};
  });
  layout.height = 330 + (narrow ? 20 * shown.length : 0);
  layout.xaxis = {...layout.xaxis, ...logTime(traces.flatMap((trace) => trace.x), narrow)};
  layout.yaxis = shareAxis(layout, cdf);
  layout.legend = narrow ? {orientation: "h", y: -0.2, font: {size: 10}} : {font: {size: 10}, x: 1.02, y: 1};
  return {traces, layout, marks: shown.length};
}

function tailOfQuantiles(cell, prefix) {
  const known = QUANTILES.slice(0, 4).filter(([, name]) => cell[`${prefix}latency_count`] >= DATA.sampleMin[name]);
  return known.map(([, name, beyond]) => [cell[`${prefix}latency_ns_${name}`], beyond]);
}

function memoryChart(cells, _options, narrow) {
  const layout = baseLayout(narrow), shown = cells.filter((cell) => cell.measured && cell.allocator !== "null");
  const rows = rowAxis(layout, shown, narrow), gib = 2 ** 30;
  const bar = (label, field, token, width) => ({type: "bar", orientation: "h", name: label, y: rows, width, marker: {color: colour(token)},
    x: shown.map((cell) => cell[field] === null ? null : cell[field] / gib), hoverinfo: "text",
    hovertext: shown.map((cell) => `<b>${plain(settingText(cell))}</b><br>${label} ${bytesText(cell[field])}`)});
  const traces = [bar("reserved", "reserved_bytes_peak", "--m-reserved", 0.84), bar("active", "active_bytes_peak", "--m-active", 0.58), bar("allocated", "allocated_bytes_peak", "--m-allocated", 0.34)];
  traces.push({type: "scatter", mode: "markers", name: "requested", y: rows, x: shown.map((cell) => cell.requested_bytes_peak / gib), hoverinfo: "text",
    marker: {symbol: "line-ns-open", size: 17, line: {width: 3, color: colour("--m-requested")}, color: colour("--m-requested")},
    hovertext: shown.map((cell) => `<b>${plain(settingText(cell))}</b><br>requested ${bytesText(cell.requested_bytes_peak)}`)});
  const bounded = shown.find((cell) => cell.capacity !== "unlimited");
  if (bounded) {
    const at = bounded.capacity_bytes / gib;
    layout.legend = {...layout.legend, y: 1 + 18 / (shown.length * ROW_PX)};
    layout.shapes = [{type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", line: {dash: "dash", width: 1.5, color: colour("--bad")}}];
    layout.annotations = [{x: at, y: 1, yref: "paper", yanchor: "bottom", xanchor: "center", text: "capacity", showarrow: false, font: {size: 11, color: colour("--bad")}}];
  }
  layout.xaxis = {...layout.xaxis, rangemode: "tozero", ticksuffix: " GiB", nticks: narrow ? 4 : 7};
  return {traces, layout, marks: shown.length};
}

// Counts of failed requests differ by orders of magnitude between settings, so the bars show shares and the text the count.
function oomChart(cells, _options, narrow) {
  const layout = baseLayout(narrow), shown = cells.filter((cell) => cell.measured && cell.allocator !== "null");
  const rows = rowAxis(layout, shown, narrow);
  const traces = DATA.causes.map((cause, index) => ({type: "bar", orientation: "h", name: cause, y: rows, width: 0.62, marker: {color: colour(`--cause${index}`)},
    x: shown.map((cell) => cell.oom_count ? 100 * cell[`oom_count_${cause}`] / cell.oom_count : 0), hoverinfo: "text",
    hovertext: shown.map((cell) => `<b>${plain(settingText(cell))}</b><br>${cause}: ${cell[`oom_count_${cause}`]} of ${cell.oom_count} failed requests`)}))
    .filter((trace) => trace.x.some((count) => count > 0));
  layout.barmode = "stack";
  const share = (name) => shown.map((cell) => cell[name] * 100);
  const middle = share("trial_oom_rate"), low = share("trial_oom_rate_low"), high = share("trial_oom_rate_high");
  traces.push({type: "scatter", mode: "markers", name: "passes with an OOM", xaxis: "x2", y: rows, x: middle, hoverinfo: "text",
    marker: {color: colour("--text"), size: 8},
    error_x: {type: "data", symmetric: false, array: high.map((one, i) => one - middle[i]), arrayminus: low.map((one, i) => middle[i] - one), color: colour("--soft"), thickness: 1.5, width: 4},
    hovertext: shown.map((cell, i) => `<b>${plain(settingText(cell))}</b><br>${cell.trial_oom_count} of ${cell.trial_count} passes, 95 %: ${low[i].toFixed(0)} to ${high[i].toFixed(0)} %`)});
  layout.annotations = shown.map((cell, index) => ({x: 0.5, xref: "paper", xanchor: "center", y: rows[index], showarrow: false, font: {size: 11, color: cell.oom_count ? colour("--bad") : colour("--soft")},
    text: cell.status === "oom_stopped" ? "stopped" : cell.oom_count ? cell.oom_count.toLocaleString("en") : "none"}));
  layout.xaxis = {...layout.xaxis, domain: [0, 0.42], title: {text: "share of failed requests", font: {size: 11}}, range: [0, 100], ticksuffix: " %", tickvals: [0, 50, 100]};
  layout.xaxis2 = {...layout.xaxis, domain: [0.6, 1], title: {text: "passes with an OOM", font: {size: 11}}, range: [-4, 104]};
  // Room for the word between the legend and the rows.
  layout.legend = {...layout.legend, y: 1 + 18 / (Math.max(1, shown.length) * ROW_PX)};
  layout.annotations.push({x: 0.5, xref: "paper", y: 1, yref: "paper", yanchor: "top", yshift: 14, showarrow: false, text: "failed", font: {size: 11, color: colour("--soft")}});
  return {traces, layout, marks: shown.length};
}

const SLOW_PATHS = [["device allocs", "device_allocate_count", "--m-allocated", "circle"], ["device frees", "device_free_count", "--m-requested", "diamond"],
  ["retries", "retry_count", "--cause3", "x"], ["sync all", "synchronize_all_count", "--cause2", "triangle-up"]];

function slowChart(cells, _options, narrow) {
  const layout = baseLayout(narrow), shown = cells.filter((cell) => cell.measured && SLOW_PATHS.some(([, field]) => cell[field] !== null));
  const rows = rowAxis(layout, shown, narrow);
  // Counts span decades and may be 0: log10(1 + n) shows both, with ticks in n.
  const place = (count) => count === null ? null : Math.log10(1 + count);
  const offsets = [0.24, 0.08, -0.08, -0.24];
  const traces = SLOW_PATHS.map(([label, field, token, symbol], index) => ({type: "scatter", mode: "markers", name: label, y: rows.map((row) => row + offsets[index]),
    x: shown.map((cell) => place(cell[field])), hoverinfo: "text", marker: {color: colour(token), symbol, size: 8},
    hovertext: shown.map((cell) => `<b>${plain(settingText(cell))}</b><br>${label}: ${cell[field] === null ? "not known" : cell[field].toLocaleString("en")}`)}));
  const most = Math.max(0, ...shown.flatMap((cell) => SLOW_PATHS.map(([, field]) => cell[field] || 0))), ticks = [0];
  for (let tick = 1; tick <= Math.max(1, most * 3); tick *= 10) ticks.push(tick);
  layout.xaxis = {...layout.xaxis, tickvals: ticks.map(place), ticktext: ticks.map((tick) => tick.toLocaleString("en")), range: [-0.12, place(Math.max(1, most)) + 0.25], zeroline: false};
  return {traces, layout, marks: shown.length};
}

const TIMELINE_SERIES = [["reserved", "reserved_bytes", "--soft"], ["active", "active_bytes", "--m-active"], ["allocated", "allocated_bytes", "--m-allocated"], ["requested", "requested_bytes", "--m-requested"]];

function timelineChart(timeline, narrow) {
  const layout = baseLayout(narrow), kib = 2 ** 10, gib = 2 ** 20;
  const traces = TIMELINE_SERIES.filter(([, field]) => timeline.kib[field]).map(([label, field, token]) => ({type: "scatter", mode: "lines", name: label,
    x: timeline.at, y: timeline.kib[field].map((value) => value === null ? null : value / gib), line: {color: colour(token), width: 1.6, shape: "hv"}, hoverinfo: "text",
    fill: field === "reserved_bytes" ? "tozeroy" : "none", fillcolor: colour("--none-back"),
    hovertext: timeline.kib[field].map((value, index) => `event ${timeline.at[index].toLocaleString("en")}: ${label} ${value === null ? "-" : bytesText(value * kib)}`)}));
  if (timeline.oom.length) {
    const top = traces[0].y.reduce((most, value) => Math.max(most, value || 0), 0);
    traces.push({type: "scatter", mode: "markers", name: "failed request", x: timeline.oom, y: timeline.oom.map(() => top * 1.05), hoverinfo: "text",
      marker: {symbol: "x", size: 7, color: colour("--bad")}, hovertext: timeline.oom.map((at) => `event ${at.toLocaleString("en")}: out of memory`)});
  }
  layout.height = 300;
  layout.xaxis = {...layout.xaxis, title: {text: "event of the trace", font: {size: 11}}, tickformat: ",d"};
  layout.yaxis = {...layout.yaxis, rangemode: "tozero", ticksuffix: " GiB"};
  return {traces, layout, marks: traces.length};
}

// Segments as rows, blocks as bars within them: 0 free, 1 handed out, 2 waiting for another stream.
const BLOCK_STATES = [["free", "--m-reserved"], ["handed out", "--m-allocated"], ["waiting for another stream", "--cause2"]];
const MAP_UNIT_BYTES = 512;

// packed: [event, [segment start, length, state, length, state, ...], ...] in units of 512 bytes.
function mapChart(packed, narrow) {
  const layout = baseLayout(narrow), mib = 2 ** 20, segments = packed.slice(1), parts = BLOCK_STATES.map(() => ({x: [], base: [], y: [], hovertext: []}));
  segments.forEach((segment, row) => {
    let at = 0;
    for (let index = 1; index < segment.length; index += 2) {
      const sizeBytes = segment[index] * MAP_UNIT_BYTES, part = parts[segment[index + 1]];
      part.x.push(sizeBytes / mib); part.base.push(at / mib); part.y.push(segments.length - 1 - row);
      part.hovertext.push(`${BLOCK_STATES[segment[index + 1]][0]}: ${bytesText(sizeBytes)} at +${bytesText(at)}<br>segment ${row + 1} of ${segments.length}`);
      at += sizeBytes;
    }
  });
  const traces = BLOCK_STATES.map(([label, token], state) => ({type: "bar", orientation: "h", name: label, ...parts[state], width: 0.8, hoverinfo: "text",
    marker: {color: colour(token), line: {color: colour("--page"), width: segments.length > 60 ? 0 : 0.5}}})).filter((trace) => trace.x.length);
  layout.height = Math.min(760, Math.max(200, segments.length * 14 + 90));
  layout.xaxis = {...layout.xaxis, ticksuffix: " MiB", title: {text: "offset in the segment", font: {size: 11}}, rangemode: "tozero"};
  layout.yaxis = {...layout.yaxis, showticklabels: false, showgrid: false, zeroline: false, range: [-0.6, Math.max(1, segments.length) - 0.4],
    title: {text: `${segments.length} segment${segments.length === 1 ? "" : "s"}`, font: {size: 11}}};
  return {traces, layout, marks: segments.length};
}
