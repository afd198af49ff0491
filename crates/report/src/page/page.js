"use strict";

// The tables of the page. Each is drawn from the JSON in its section, sorted by a button in a header, filtered, and its rows
// are unfolded. Names may hold anything: text enters the page as text, never as markup.

/** Rows that are drawn at once. All of ten thousand would take seconds. */
const PART = 200;

const SVG = "http://www.w3.org/2000/svg";
const collator = new Intl.Collator("en", { numeric: true });
const count = (number) => number.toLocaleString("en");

// A cell is a string, a figure as it is shown with its value, or null where there is nothing to say.
const shown = (cell) => (cell === null ? "-" : Array.isArray(cell) ? cell[0] : cell);
const value = (cell) => (Array.isArray(cell) ? cell[1] : cell);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** A name, which may be broken behind `::` and `/`, and in no word. */
const broken = (text) => text.split(/(::|\/)/).flatMap((part, place) => (place % 2 === 1 ? [part, make("wbr")] : [part]));

/** What is wider than the page is scrolled, by keys too. */
const scroll = (table) => make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table" }, table);

/** The powers of ten that hold all of these distributions, which share an axis to be compared. */
function decades(distributions) {
  const buckets = distributions.flatMap((times) => times.buckets);
  const power = (ns) => Math.log10(Math.max(ns, 1));
  const least = Math.floor(Math.min(...buckets.map(([from]) => power(from))));
  const most = Math.ceil(Math.max(...buckets.map(([, to]) => power(to))));
  return { least, most: Math.max(most, least + 1), at: (ns) => (power(ns) - least) / (Math.max(most, least + 1) - least) };
}

/** A power of ten of nanoseconds, such as 10 µs. */
function decade(power) {
  const unit = Math.min(Math.floor(power / 3), 3);
  return `${10 ** (power - 3 * unit)} ${["ns", "µs", "ms", "s"][unit]}`;
}

function histogram(times, axis) {
  const [left, width, height] = [20, 280, 80];
  const x = (ns) => left + width * axis.at(ns);
  const highest = Math.max(...times.buckets.map(([, , count]) => count));
  const bars = times.buckets.map(([from, to, count, label]) => {
    const bar = Math.max((height * count) / highest, 1);
    const size = { x: x(from), y: height - bar, width: Math.max(x(to) - x(from) - 0.4, 0.6), height: bar };
    return draw("rect", size, draw("title", {}, `${label}: ${count}`));
  });
  const step = Math.ceil((axis.most - axis.least) / 6);
  const ticks = [];
  for (let power = axis.least; power <= axis.most; power += step) {
    ticks.push(draw("text", { x: x(10 ** power), y: height + 14 }, decade(power)));
  }
  const base = draw("line", { x1: left, x2: left + width, y1: height, y2: height });
  const label = { role: "img", "aria-label": `${times.name}: ${times.summary}`, viewBox: "0 0 320 100" };
  return draw("svg", label, ...bars, base, ...ticks);
}

function distribution(times, axis) {
  const figure = make("figure", {}, make("h3", {}, times.name));
  if (times.buckets.length > 0) {
    const rows = times.buckets.map(([, , count, label]) =>
      make("tr", {}, make("td", {}, label), make("td", { class: "n" }, String(count))));
    const head = make("tr", {}, make("th", { scope: "col" }, "time"), make("th", { scope: "col", class: "n" }, "count"));
    const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
    figure.append(histogram(times, axis), make("figcaption", {}, times.summary));
    figure.append(make("details", {}, make("summary", {}, "Values"), table));
  } else {
    figure.append(make("figcaption", {}, times.summary));
  }
  return figure;
}

/** All that is known of a row. */
function unfolded(columns, lists, row) {
  const facts = columns.map((column, index) => [column.header, row.cells[index]]).filter(([, cell]) => cell !== null);
  const content = make("div");
  if (row.times.length > 0) {
    const drawn = row.times.filter((times) => times.buckets.length > 0);
    const axis = drawn.length > 0 ? decades(drawn) : null;
    content.append(make("div", { class: "histograms" }, ...row.times.map((times) => distribution(times, axis))));
  }
  const all = [...facts.map(([name, cell]) => [name, shown(cell)]), ...row.facts];
  const pairs = all.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, ...broken(text))));
  content.append(make("h3", {}, "All figures"), make("dl", {}, ...pairs));
  for (const list of row.lists.map((place) => lists[place])) {
    content.append(make("h3", {}, list.name), make("ol", {}, ...list.lines.map((line) => make("li", {}, ...broken(line)))));
  }
  return content;
}

class RowTable {
  constructor(section, number) {
    Object.assign(this, JSON.parse(section.querySelector("script").textContent));
    this.id = `table${number}`;
    this.unfolded = new Set();
    this.order = null;
    this.head = make("tr");
    this.body = make("tbody");
    const label = { class: "few", "aria-labelledby": section.getAttribute("aria-labelledby") };
    this.table = make("table", label, make("thead", {}, this.head), this.body);
    this.status = make("p", { class: "status", role: "status" });
    this.next = make("button", { type: "button" });
    this.all = make("button", { type: "button" }, "Show all");
    this.next.addEventListener("click", () => this.drawRows(PART));
    this.all.addEventListener("click", () => this.drawRows(Infinity));
    const scroll = make("div", { class: "scroll" }, this.table);
    section.append(this.controls(), this.status, scroll, make("div", { class: "more" }, this.next, this.all));
    this.rows.forEach((row, place) => { row.place = place; });
    this.use = this.columns.findIndex(({ key, kept }) => key === "use" && !kept);
    const names = new Set();
    this.repeated = new Set(); // names of several rows, such as both sides of a reader-writer lock
    for (const { cells: [cell] } of this.rows) (names.has(shown(cell)) ? this.repeated : names).add(shown(cell));
    this.redraw();
  }

  controls() {
    this.search = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => this.redraw());
    const bar = make("div", { class: "controls", role: "search" });
    bar.append(make("label", { class: "text" }, `${this.columns[0].header} contains`, this.search));
    this.selects = this.filters.map(([key, name]) => {
      const index = this.columns.findIndex((column) => column.key === key);
      const values = [...new Set(this.rows.map((row) => row.cells[index] ?? ""))].sort(collator.compare);
      const options = values.map((text) => make("option", { value: text }, text === "" ? "(unknown)" : text));
      const select = make("select", {}, make("option", { value: "all" }, "all"), ...options);
      select.addEventListener("change", () => this.redraw());
      bar.append(make("label", { class: "text" }, name, select));
      return { index, select };
    });
    this.everything = make("input", { type: "checkbox" });
    this.everything.addEventListener("change", () => this.redraw());
    bar.append(make("label", {}, this.everything, " all columns"));
    return bar;
  }

  /** The rows that pass the filters, in order. Where there is nothing to say in the column sorted by, a row comes last. */
  matching() {
    const text = this.search.value.toLowerCase();
    const chosen = this.selects.filter(({ select }) => select.selectedIndex > 0);
    const rows = this.rows.filter((row) =>
      shown(row.cells[0]).toLowerCase().includes(text) &&
      chosen.every(({ index, select }) => (row.cells[index] ?? "") === select.value));
    if (this.order) {
      const { index, sign } = this.order;
      rows.sort((one, other) => {
        const [a, b] = [value(one.cells[index]), value(other.cells[index])];
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (typeof a === "number" ? a - b : collator.compare(a, b));
      });
    }
    return rows;
  }

  sortBy(index) {
    const first = this.rows.some((row) => Array.isArray(row.cells[index])) ? -1 : 1; // of figures the greatest first
    const again = this.order?.index === index;
    this.order = { index, sign: again ? -this.order.sign : first };
    this.redraw();
    this.head.children[this.places.indexOf(index)].querySelector("button").focus();
  }

  redraw() {
    const everything = this.everything.checked;
    this.table.classList.toggle("few", !everything);
    this.places = this.columns.map((_, index) => index).filter((index) => everything || !this.columns[index].detail);
    this.head.replaceChildren(...this.places.map((index) => this.header(index)));
    this.left = this.matching();
    this.found = this.left.length;
    this.body.replaceChildren();
    this.drawRows(PART);
  }

  classOf(index) {
    const { numeric, kept } = this.columns[index];
    return [numeric ? "n" : "", kept ? "" : "aside"].join(" ").trim();
  }

  header(index) {
    const button = make("button", { type: "button" }, this.columns[index].header);
    button.addEventListener("click", () => this.sortBy(index));
    const order = this.order?.index === index ? (this.order.sign > 0 ? "ascending" : "descending") : "none";
    return make("th", { scope: "col", class: this.classOf(index), "aria-sort": order }, button);
  }

  drawRows(most) {
    const rows = this.left.slice(0, most);
    this.left = this.left.slice(rows.length);
    this.body.append(...rows.flatMap((row) => this.drawRow(row)));
    const [drawn, found, all] = [this.found - this.left.length, this.found, this.rows.length].map(count);
    const filtered = found === all ? "" : ` of ${all}`;
    const rest = drawn === found ? "" : `; the first ${drawn} are shown`;
    this.status.textContent = `${found}${filtered} ${all === "1" ? "row" : "rows"}${rest}`;
    this.next.textContent = `Show ${Math.min(PART, this.left.length)} more`;
    this.next.hidden = this.left.length === 0;
    this.all.hidden = this.left.length <= PART;
  }

  drawRow(row) {
    const id = `${this.id}-${row.place}`;
    const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": id }, ...broken(shown(row.cells[0])));
    const name = make("th", { scope: "row" }, button);
    const use = row.cells[this.use] ?? null;
    // For a phone, which has no column of it.
    if (use !== null && this.repeated.has(shown(row.cells[0]))) name.append(make("span", { class: "use" }, shown(use)));
    const cells = this.places.slice(1).map((index) => make("td", { class: this.classOf(index) }, ...broken(shown(row.cells[index]))));
    const line = make("tr", {}, name, ...cells);
    const below = make("tr", { class: "unfolded", id });
    below.hidden = true;
    const show = (open) => {
      if (open && below.childElementCount === 0) {
        below.append(make("td", { colspan: this.places.length }, unfolded(this.columns, this.lists, row)));
      }
      below.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
      if (open) this.unfolded.add(row); else this.unfolded.delete(row);
    };
    button.addEventListener("click", () => show(below.hidden));
    if (this.unfolded.has(row)) show(true);
    return [line, below];
  }
}

/** A module, which is in the page as base64. */
const load = (text) => new WebAssembly.Module(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)));

/** How the lock after a change is drawn, and the lock as it is where the page has no plot of it. */
const AFTER = { colour: "var(--ink)", width: 3, dashes: "12 6", marker: [], filled: false, band: true };
const BEFORE = { ...AFTER, colour: "var(--curve)", width: 4 };

/** How a curve is drawn, in a legend. */
function key({ colour, width, dashes }) {
  const line = draw("polyline", { points: "0,6 34,6", fill: "none", stroke: colour, "stroke-width": width, "stroke-dasharray": dashes });
  return draw("svg", { width: 34, height: 12, "aria-hidden": "true" }, line);
}

/** A curve: its range, its line, its markers so far as they keep their distance, and its marks. `x` and `y` place shares of the axes. */
function curve({ points, peak, collapsed, compared }, { colour, width, dashes, marker, filled, band }, x, y) {
  const line = (places) => places.map(([across, up]) => `${x(across).toFixed(2)},${y(up).toFixed(2)}`).join(" ");
  const stroke = { fill: "none", stroke: colour, "stroke-width": 2 };
  const parts = [];
  if (band) {
    const outline = [...points.map(([across, , , high]) => [across, high]),
      ...points.map(([across, , low]) => [across, low]).reverse()];
    parts.push(draw("polygon", { points: line(outline), fill: colour, opacity: 0.16 }));
  }
  parts.push(draw("polyline", { ...stroke, points: line(points), "stroke-width": width, "stroke-dasharray": dashes }));
  let last = null;
  points.forEach(([across, up, low, high], place) => {
    const [left, top] = [x(across), y(up)];
    if (last && place + 1 < points.length && Math.hypot(left - last[0], top - last[1]) < 24) return;
    last = [left, top];
    if (!band && low < high) parts.push(draw("line", { ...stroke, "stroke-width": 1, x1: left, x2: left, y1: y(low), y2: y(high) }));
    const outline = marker.map(([right, down]) => `${left + right},${top + down}`).join(" ");
    parts.push(draw("polygon", { ...stroke, points: outline, "stroke-width": 1, fill: filled ? colour : "none" }));
  });
  if (peak) parts.push(draw("circle", { ...stroke, cx: x(peak[0]), cy: y(peak[1]), r: 8 }));
  if (collapsed) {
    const [left, top] = [x(collapsed[0]), y(collapsed[1])];
    parts.push(draw("path", { ...stroke, d: `M${left - 8},${top - 8}l16,16m0,-16l-16,16` }));
  }
  if (compared) parts.push(draw("circle", { cx: x(compared[0]), cy: y(compared[1]), r: 5, fill: colour }));
  return draw("g", {}, ...parts);
}

/** Curves over axes that lie as in the plots of the page. What the module gave as shares is placed, nothing is computed. */
function picture({ cores, throughput, unit, curves }, looks, axis, label) {
  const [left, right, top, bottom] = [78, 462, 12, 288];
  const x = (across) => left + across * (right - left);
  const y = (up) => bottom - up * (bottom - top);
  const parts = [];
  for (const [up, text] of throughput) {
    parts.push(draw("line", { class: "grid", x1: left, x2: right, y1: y(up), y2: y(up) }));
    parts.push(draw("text", { x: left - 10, y: y(up) + 5, "text-anchor": "end" }, text));
  }
  for (const [across, text] of cores) {
    parts.push(draw("line", { class: "grid", x1: x(across), x2: x(across), y1: top, y2: bottom }));
    parts.push(draw("text", { x: x(across), y: bottom + 20, "text-anchor": "middle" }, text));
  }
  const [centre, middle] = [(left + right) / 2, (top + bottom) / 2];
  parts.push(draw("text", { x: centre, y: bottom + 43, "text-anchor": "middle" }, axis));
  parts.push(draw("text", { x: 18, y: middle, transform: `rotate(-90 18 ${middle})`, "text-anchor": "middle" }, unit));
  parts.push(...curves.map((one, number) => curve(one, looks[number] ?? AFTER, x, y)));
  return draw("svg", { class: "picture", role: "img", "aria-label": label, viewBox: "0 0 480 340" }, ...parts);
}

/** Rows of a name and figures; of words where `words` names the column. On a phone each row of a wide table is a block. */
function table(columns, rows, words) {
  const kind = (index) => (index === 0 || columns[index] === words ? "" : "n");
  const head = columns.map((text, index) => make("th", { scope: "col", class: kind(index) }, text));
  const body = rows.map(([name, ...cells]) => make("tr", {}, make("th", { scope: "row" }, ...broken(name)),
    ...cells.map((text, index) => make("td", { class: kind(index + 1), "data-header": columns[index + 1] }, text))));
  return make("table", columns.length > 5 ? { class: "blocks" } : {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

const MARKS = "A ring marks the peak of a curve, a cross the first point where it has collapsed.";
const DOT = "A dot marks what is compared.";

/** Sliders for changes to a program, which the model answers in the plot of the page, beside it. */
class WhatIf {
  constructor(section) {
    const [sliders, plot] = section.querySelectorAll("script[type='application/json']");
    this.sliders = JSON.parse(sliders.textContent);
    this.module = load(section.querySelector("script[type='application/wasm']").textContent);
    this.functions = new WebAssembly.Instance(this.module).exports;
    this.instruction = make("p", { class: "instruction", role: "status", "aria-live": "polite" });
    this.flags = make("code");
    this.shown = make("div");
    this.changed = make("li");
    this.plot = plot && { ...JSON.parse(plot.textContent), figure: document.getElementById(plot.dataset.figure) };
    const form = this.form();
    const said = "A preview: the forecast's curve times the ratio that the Markov chain gives for the change. To simulate it: contend predict with ";
    this.same = make("p", { class: "status" }, said, this.flags);
    this.own = make("figure");
    this.legend = make("ul", { class: "legend" });
    this.redraw();
    section.querySelector(".missing").remove();
    if (this.plot) {
      this.join(form);
      section.append(make("p", {}, "The sliders are beside the curve, at the beginning. These are the figures where they stand."));
    } else {
      const figure = make("div", {}, this.own, this.legend, make("p", { class: "status" }, `${MARKS} ${DOT}`));
      section.append(this.instruction, make("div", { class: "beside" }, figure, form));
    }
    section.append(this.shown, this.same);
  }

  /** Puts the sliders beside the plot of the page, and what they answer under it. */
  join(form) {
    const { figure } = this.plot;
    const pictures = figure.querySelectorAll(".scroll.linear, .scroll.logarithmic");
    const pinned = make("div", { class: "pinned" });
    pictures[0].before(pinned);
    pinned.append(...pictures, this.instruction);
    const legend = figure.querySelector(".legend");
    legend.append(this.changed);
    legend.after(form);
    figure.querySelector("figcaption").append(` ${DOT}`);
    for (const axis of figure.querySelectorAll("fieldset input")) axis.addEventListener("change", () => this.redraw());
  }

  form() {
    this.controls = this.sliders.controls.map((control) => this.slider(control));
    const names = this.sliders.locks.map(({ name }) => make("option", { value: name }, name));
    this.lock = make("select", {}, make("option", { value: "" }, "as it is"), ...names);
    this.lock.addEventListener("change", () => this.redraw());
    const reset = make("button", { type: "button" }, "As it is");
    reset.addEventListener("click", () => {
      this.lock.value = "";
      for (const control of this.controls) control.reset();
      this.redraw();
    });
    const lock = make("div", { class: "slider" }, make("label", {}, "Lock in its place", this.lock));
    return make("div", { class: "sliders" }, ...this.controls.map(({ element }) => element), lock,
      make("div", { class: "more" }, reset));
  }

  /** A range that stops at some numbers, and a field for any. An empty field changes nothing. */
  slider({ name, label, stops, start, rest, whole }) {
    const range = make("input", { type: "range", min: 0, max: stops.length - 1, "aria-label": label });
    const field = make("input", {
      type: "number", step: whole ? 1 : "any", min: stops[0], max: stops.at(-1), placeholder: rest ?? "as it is",
    });
    const value = () => (field.value === "" ? rest : field.valueAsNumber);
    const follow = () => {
      const stop = stops.findLastIndex((stop) => stop <= (value() ?? start));
      range.value = Math.max(stop, 0);
      range.setAttribute("aria-valuetext", value() ?? "as it is");
    };
    const reset = () => {
      field.value = rest ?? "";
      follow();
    };
    range.addEventListener("input", () => {
      field.value = stops[range.valueAsNumber];
      range.setAttribute("aria-valuetext", field.value);
      this.redraw();
    });
    field.addEventListener("input", () => {
      follow();
      this.redraw();
    });
    reset();
    const element = make("div", { class: "slider" }, make("label", {}, label, field), range);
    return { name, rest, value, reset, element };
  }

  /** What the module answers. */
  ask(question) {
    const text = new TextEncoder().encode(JSON.stringify(question));
    const { memory, what_if_question, what_if_answer, what_if_message } = this.functions;
    try {
      const place = what_if_question(text.length);
      new Uint8Array(memory.buffer, place, text.length).set(text);
      const length = what_if_answer();
      return JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, what_if_message(), length)));
    } catch {
      this.functions = new WebAssembly.Instance(this.module).exports; // one that has failed answers no more
      return { error: "The model failed on these numbers: take back the last change." };
    }
  }

  redraw() {
    const [cores, ...numbers] = this.controls;
    const changed = numbers.filter(({ value, rest }) => value() !== rest).map(({ name, value }) => `${name}=${value()}`);
    if (this.lock.value !== "") changed.push(`lock=${this.lock.value}`);
    const log = this.plot && this.plot.figure.querySelector("input.logarithmic").checked;
    const others = this.plot?.curves.slice(1);
    const answer = this.ask({ sliders: this.sliders, cores: cores.value(), change: changed.join(","), others, log });
    this.instruction.textContent = answer.error ?? answer.instruction;
    this.instruction.classList.toggle("warning", "error" in answer);
    if ("error" in answer) return;
    this.flags.textContent = answer.flags;
    const values = this.shown.querySelector("details")?.open ?? false;
    const names = answer.rows.map(([name]) => name);
    const details = make("details", {}, make("summary", {}, "Values"),
      scroll(table(["cores", ...names], answer.values)));
    details.open = values;
    this.draw(answer, log, names);
    this.shown.replaceChildren(
      scroll(table(answer.columns, answer.rows, "verdict")),
      ...answer.remarks.map((text) => make("p", {}, text)),
      details,
    );
    this.same.hidden = answer.flags === "";
  }

  /** Draws the curves, in the plot of the page where it has one. */
  draw({ picture: drawn, instruction }, log, [before, after]) {
    const looks = this.plot?.looks ?? [BEFORE];
    const svg = picture(drawn, looks, this.plot?.axis ?? "cores", instruction);
    const entry = after === undefined ? [] : [key(AFTER), " ", ...broken(after)];
    this.changed.replaceChildren(...entry);
    if (this.plot) {
      this.plot.figure.querySelector(log ? ".scroll.logarithmic" : ".scroll.linear").replaceChildren(svg);
      this.changed.hidden = after === undefined;
    } else {
      this.own.replaceChildren(svg);
      this.legend.replaceChildren(make("li", {}, key(BEFORE), " ", ...broken(before)), ...(after === undefined ? [] : [this.changed]));
    }
  }
}

document.querySelectorAll("section.what-if").forEach((section) => {
  try {
    new WhatIf(section);
  } catch (error) {
    // A browser without WebAssembly shows the rest of the page, and says why the sliders are missing.
    console.warn(error);
  }
});

document.querySelectorAll("section.rows").forEach((section, number) => new RowTable(section, number));

// On paper nothing can be opened.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));
