// Draws a run from its events. It reads and never writes: no request of this page changes the join.
"use strict";

const SPAN = 300; // seconds that the charts show
const WIDTH = 132, HEIGHT = 84, GAP = 46, DRIVER = 28; // of a worker in the drawing, and the driver's height
const el = (id) => document.getElementById(id);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const number = (x) => (x === null || x === undefined ? "–" : Math.round(x).toLocaleString("en"));
/** A large number in a few letters. */
const short = (x) => {
  const found = [["G", 1e9, 1e9], ["M", 1e6, 1e6], ["k", 1e3, 1e5]].find(([, , least]) => x >= least);
  if (!found) return number(x);
  const value = x / found[1];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${found[0]}`;
};
const bytes = (x) => {
  if (x === null || x === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (x >= 1024 && k < units.length - 1) { x /= 1024; k += 1; }
  return `${x.toFixed(k ? 1 : 0)} ${units[k]}`;
};

/** A time of the streams, or how far two of them are apart, in the unit that the run names. */
const PER_SECOND = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 };
const unit = () => PER_SECOND[head && head.unit];
function moment(x) {
  if (x === null || x === undefined) return "–";
  if (typeof x !== "number") return x;
  return unit() ? new Date((x / unit()) * 1000).toISOString().replace("T", " ").slice(0, -1) : number(x);
}
const apart = (a, b) => (typeof a !== "number" || typeof b !== "number" ? "–"
  : unit() ? `${(Math.abs(a - b) / unit()).toFixed(2)} s` : number(Math.abs(a - b)));

let samples = [];
let head = null;
let ended = false;

/** Seconds from one sample to another: of a pipeline those of its micro-batches, which report late and in bursts. */
const elapsed = (before, x) => (!before || before.part !== x.part ? 0
  : x.batches === undefined ? x.at - before.at : ((x.batches - before.batches) * x.batch_ms) / 1000);

/** What a counter grew per second, between neighbouring samples. */
function rate(read) {
  return samples.map((x, k) => {
    const before = samples[k - 1];
    const seconds = elapsed(before, x);
    if (!(seconds > 0)) return null;
    const now = read(x), then = read(before);
    return now === null || now === undefined ? null : Math.max(0, (now - then) / seconds);
  });
}

const series = (read) => samples.map((x) => { const y = read(x); return y === undefined ? null : y; });
const latency = (name) => (x) => (x.latency_ms ? x.latency_ms[name] : null);
const of = (side, name) => (x) => (x[side] ? x[side][name] : null);

function chart(id, lines) {
  const at = samples.map((x) => x.at);
  const last = at.length ? at[at.length - 1] : 0;
  const traces = lines
    .filter(([, y]) => y.some((value) => value !== null))
    .map(([name, y, shade, dash]) => ({
      x: at, y, name, mode: "lines", connectgaps: samples[0].batches !== undefined, line: { color: color(shade), width: 1.8, dash: dash || "solid" },
    }));
  const axis = { gridcolor: color("--line"), zerolinecolor: color("--line"), color: color("--quiet") };
  const layout = {
    margin: { l: 52, r: 8, t: 6, b: 30 }, showlegend: traces.length > 1, legend: { orientation: "h", y: 1.12 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: color("--ink"), size: 11 },
    xaxis: { ...axis, range: [Math.max(0, last - SPAN), Math.max(10, last)], ticksuffix: " s" },
    yaxis: { ...axis, rangemode: "tozero" },
    annotations: traces.length ? [] : [{ text: ended ? "no figures" : "no figures yet", showarrow: false, font: { color: color("--quiet") } }],
  };
  Plotly.react(el(id), traces, layout, { displayModeBar: false, responsive: true, staticPlot: false });
}

function charts() {
  const whole = samples[samples.length - 1].rows_r !== undefined; // tables are joined at once: nothing flows
  for (const section of document.querySelectorAll(".chart")) section.hidden = whole;
  if (whole) return;
  chart("rates", [
    ["r", rate(of("r", "tuples")), "--r"],
    ["s", rate(of("s", "tuples")), "--s", "dash"], // where both are alike, one is seen through the other
    ["both", rate((x) => x.rows), "--good"],
  ]);
  chart("results", [["results", rate((x) => x.results), "--good"]]);
  chart("latency", [
    ["p50", series(latency("p50")), "--r"],
    ["p99", series(latency("p99")), "--s"],
    ["p99.9", series(latency("p99_9")), "--quiet", "dot"],
    ["micro-batch", series((x) => x.batch_ms), "--good"],
  ]);
  chart("window", [
    ["r", series(of("r", "window")), "--r"],
    ["s", series(of("s", "window")), "--s", "dash"],
    ["state", series((x) => x.window), "--good"],
  ]);
}

function figures() {
  const x = samples[samples.length - 1];
  const rates = (read) => {
    const all = x.batches === undefined ? rate(read) : rate(read).filter((y) => y !== null);
    return all.length ? all[all.length - 1] : null;
  };
  const both = (name) => (x.r ? (x.r[name] || 0) + (x.s[name] || 0) : x[name]);
  const shown = [];
  const show = (name, value, form = number) => { if (value !== undefined) shown.push([name, form(value)]); };
  if (x.r) {
    show("r tuples/s", rates(of("r", "tuples")));
    show("s tuples/s", rates(of("s", "tuples")));
    show("window of r", x.r.window);
    show("window of s", x.s.window);
    show("watermark of r", x.r.watermark, moment);
    show("watermark of s", x.s.watermark, moment);
    if (x.s.watermark !== undefined) show("lag between r and s", apart(x.r.watermark, x.s.watermark), String);
    show("shed tuples", both("shed"));
    show("punctuation lag", x.punctuation_lag, (lag) => apart(lag, 0));
  } else if (x.batches !== undefined) {
    show("rows", x.rows);
    show("rows/s", rates((y) => y.rows));
    show("state rows", x.window);
    show("watermark", x.watermark ?? "–", String);
    show("batches", x.batches);
    show("cells touched", x.cells);
  } else {
    show("rows of r", x.rows_r);
    show("rows of s", x.rows_s);
    show("comparisons", x.comparisons, short);
  }
  show("results", x.results);
  if (x.r || x.batches !== undefined) {
    show("results/s", rates((y) => y.results));
    show("comparisons/s", rates((y) => y.comparisons), short);
    show("unmatched rows", x.unmatched);
    show("held back tuples", x.held_back);
    show("late tuples", both("late"));
    show("windows' memory", both("bytes"), bytes);
  }
  show("process memory", x.memory_bytes, bytes);
  el("figures").replaceChildren(...shown.map(([name, value]) => {
    const box = document.createElement("div"), label = document.createElement("span"), text = document.createElement("b");
    label.textContent = name;
    text.textContent = value;
    box.dataset.figure = name;
    if (String(value).length > 14) box.className = "long";
    box.append(label, text);
    return box;
  }));
}

function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** The workers where they stand, what each of them holds, and who sends to whom. cmp/s: comparisons per second. */
function topology() {
  const shape = head && head.topology;
  el("topology").parentElement.hidden = !shape;
  if (!shape) return;
  const now = samples[samples.length - 1] || {};
  const before = samples.findLast((x) => x !== now && elapsed(x, now) > 0) || {};
  const workers = now.workers || [], earlier = before.workers || [];
  // One emitter keeps both windows, and the workers compare with shares of them.
  const shared = shape.shape === "star" && now.r && !workers.some((worker) => worker.r || worker.s);
  const place = (node) => [node.x * (WIDTH + GAP) + GAP, node.y * (HEIGHT + GAP) + 12];
  const columns = Math.max(...shape.nodes.map((node) => node.x)) + 1, rows = Math.max(...shape.nodes.map((node) => node.y)) + 1;
  const wide = columns * (WIDTH + GAP) + 2 * GAP, high = rows * (HEIGHT + GAP) - GAP + 16;
  const picture = svg("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img" });
  picture.append(svg("title", {}, `${shape.algorithm}: ${shape.shape} of ${shape.nodes.length}`));
  const arrowheads = svg("defs", {});
  for (const side of ["r", "s", "rs"]) {
    const marker = svg("marker", { id: `head-${side}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
    marker.append(svg("path", { d: "M0 0 L8 4 L0 8", class: side, fill: "none" }));
    arrowheads.append(marker);
  }
  picture.append(arrowheads);
  const byId = new Map(shape.nodes.map((node) => [node.id, node]));
  if (shape.driver) shape.driver.at = [wide / 2, shape.driver.y * (HEIGHT + GAP) + 12];
  for (const { from, to, side } of shape.arrows) picture.append(arrow(shape, byId, place, from, to, side, wide));
  if (shape.driver) {
    const [x, y] = shape.driver.at;
    const words = shared ? `driver, with the windows: r ${number(now.r.window)}, s ${number(now.s.window)}` : "driver";
    const half = shared ? 140 : 40;
    picture.append(svg("rect", { x: x - half, y, width: 2 * half, height: DRIVER, rx: 6 }));
    picture.append(svg("text", { x, y: y + 18, "text-anchor": "middle" }, words));
  }
  const most = Math.max(1, ...workers.flatMap((worker) => [worker.r, worker.s]));
  for (const node of shape.nodes) picture.append(box(node, place(node), workers, earlier, elapsed(before, now), shared ? 0 : most, shape));
  const words = document.createElement("p");
  words.textContent = caption(shape, now);
  el("topology").replaceChildren(picture, words);
}

function caption(shape, now) {
  if (!shape.copies) return `${shape.algorithm} (${shape.paper})`;
  const arrived = (now.workers || []).reduce((sum, cell) => sum + cell.arrived, 0);
  const measured = arrived && now.rows ? `; so far ${(arrived / now.rows).toFixed(2)} per row` : "";
  const [r, s] = shape.copies.map((x) => x.toPrecision(3));
  return `${shape.algorithm}. Copies as planned: ${r} of an r, ${s} of an s${measured}`;
}

function arrow(shape, byId, place, from, to, side, wide) {
  const [x, y] = place(byId.get(to));
  const shift = side === "s" ? 14 : side === "r" ? -14 : 0;
  let line;
  if (from === "driver") {
    if ((shape.shape === "grid" || shape.shape === "cells") && side === "s") line = [x + WIDTH / 2, y - 12, x + WIDTH / 2, y];
    else if (shape.shape === "chain" && side === "s") line = [wide - 8, y + HEIGHT / 2 + shift, x + WIDTH, y + HEIGHT / 2 + shift];
    else if (shape.driver) {
      const [u, v] = shape.driver.at, below = y > v;
      line = [u, below ? v + DRIVER : v, x + WIDTH / 2, below ? y : y + HEIGHT];
    }
    else if (shape.shape === "cells") line = [x - 20, y + HEIGHT / 2 + shift, x, y + HEIGHT / 2 + shift];
    else line = [8, y + HEIGHT / 2 + shift, x, y + HEIGHT / 2 + shift];
  } else {
    const [u, v] = place(byId.get(from));
    if (u === x) line = [u + WIDTH / 2, v + HEIGHT, x + WIDTH / 2, y];
    else if (u < x) line = [u + WIDTH, v + HEIGHT / 2 + shift, x, y + HEIGHT / 2 + shift];
    else line = [u, v + HEIGHT / 2 + shift, x + WIDTH, y + HEIGHT / 2 + shift];
  }
  const [x1, y1, x2, y2] = line;
  return svg("line", { x1, y1, x2, y2, class: side, "marker-end": `url(#head-${side})` });
}

function box(node, [x, y], workers, earlier, seconds, most, shape) {
  const group = svg("g", {}), worker = workers[node.id], then = earlier[node.id];
  group.append(svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }));
  group.append(svg("text", { x: x + 8, y: y + 16 }, `${shape.shape === "cells" ? "cell" : "worker"} ${node.id}`));
  if (!worker) return group;
  for (const [k, side] of most ? ["r", "s"].entries() : []) {
    const height = (worker[side] / most) * 34;
    group.append(svg("rect", { x: x + 8 + k * 18, y: y + HEIGHT - 8 - height, width: 14, height, class: `fill-${side}` }));
  }
  const per = then && seconds > 0 ? (worker.comparisons - then.comparisons) / seconds : null;
  const words = most ? [`r ${number(worker.r)}`, `s ${number(worker.s)}`] : [];
  if (worker.bytes !== undefined) words.push(bytes(worker.bytes));
  if (worker.queue !== undefined) words.push(`queue ${number(worker.queue)}`);
  if (worker.busy !== undefined) words.push(`busy ${Math.round(100 * worker.busy)} %`);
  if (per !== null) words.push(`${short(per)} cmp/s`);
  words.forEach((text, k) => group.append(svg("text", { x: x + (most ? 48 : 8), y: y + 32 + 14 * k }, text)));
  return group;
}

function state(name, message) {
  el("state").textContent = name;
  el("state").dataset.state = name;
  el("error").hidden = !message;
  el("error").textContent = message || "";
}

/** What is being done, with the seconds so far. */
let doing = null;
function activity() {
  const shown = doing && doing.text && !(ended && el("state").dataset.state === "ended");
  el("note").hidden = !shown;
  if (shown) el("note").textContent = ended ? doing.text : `${doing.text}, ${Math.max(0, Math.round((Date.now() - doing.since) / 1000))} s`;
}

function draw() {
  if (samples.length && window.Plotly) { figures(); charts(); }
  topology();
}

function connect() {
  const events = new EventSource("events");
  let pending = false;
  const later = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  };
  events.addEventListener("open", () => { samples = []; });
  events.addEventListener("run", (event) => {
    head = JSON.parse(event.data);
    el("title").textContent = head.title;
    document.title = `${head.title} · streamjoin`;
    const cells = head.topology && head.topology.shape === "cells";
    el("h-topology").textContent = cells ? "Cells" : "Workers";
    el("h-latency").textContent = cells ? "Duration of micro-batches (ms)" : "Latency since the start (ms)";
    el("h-window").textContent = cells ? "State (tuples, copies included)" : "Windows (tuples)";
    el("plan").textContent = head.plan;
    state("running", "");
    later();
  });
  events.addEventListener("samples", (event) => {
    samples.push(...JSON.parse(event.data));
    samples = samples.slice(-1200);
    later();
  });
  events.addEventListener("note", (event) => {
    const { text, seconds } = JSON.parse(event.data);
    doing = { text, since: Date.now() - 1000 * seconds };
    activity();
  });
  events.addEventListener("end", (event) => {
    const outcome = JSON.parse(event.data);
    ended = true;
    events.close();
    state(outcome.state, outcome.message);
    activity();
    draw();
  });
  events.addEventListener("error", () => { if (!ended) state("connection lost, trying again", ""); });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("resize", draw);
setInterval(() => { if (!ended) activity(); }, 1000);
connect();
