// Does in a page what its reader does, and leaves what came of it, as JSON, in an element at its end.
"use strict";

const outcome = { violations: [] };
document.addEventListener("securitypolicyviolation", (event) => outcome.violations.push(event.violatedDirective));

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const names = (section) => all("tbody th > button", section).map((button) => button.textContent);
const header = (section, text) => all("thead th", section).find((cell) => cell.textContent.startsWith(text));
const column = (section, text) => {
  const place = header(section, text).cellIndex;
  return all("tbody > tr:not(.unfolded)", section).map((row) => row.cells[place].textContent);
};
const enter = (control, value, event) => {
  control.value = value;
  control.dispatchEvent(new Event(event, { bubbles: true }));
};

/** The contrast of two colours of the style sheet, as WCAG 2 defines it. */
function contrast(one, other) {
  const style = getComputedStyle(document.documentElement);
  const [light, dark] = [one, other].map((name) => {
    const digits = style.getPropertyValue(name).trim().slice(1);
    const pairs = digits.length === 3 ? [...digits].map((digit) => digit + digit) : digits.match(/../g);
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = pairs.map((pair) => linear(parseInt(pair, 16) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }).sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

const section = document.querySelector("section.rows");
if (section) {
  outcome.names = names(section);
  outcome.status = section.querySelector(".status").textContent;
  // What tells the rows apart: all words of them that are to be seen.
  const words = (row) => [...row.cells].filter((cell) => !cell.classList.contains("n") && cell.offsetWidth > 0);
  outcome.told = all("tbody > tr:not(.unfolded)", section).map((row) => words(row).map((cell) => cell.innerText.trim()).join(" "));
  outcome.markup = all("tbody script, tbody img", section).map((element) => element.localName);

  const figures = ["section ns", "growth", "times as good as"].find((text) => header(section, text));
  for (const order of ["first", "second"]) {
    header(section, figures).querySelector("button").click();
    outcome[order] = [header(section, figures).ariaSort, document.activeElement.textContent, column(section, figures)];
  }
  outcome.sorted_by_others = all("thead th", section).filter((cell) => cell.ariaSort !== "none").length;

  const search = section.querySelector("input[type=search]");
  enter(search, "INDEX", "input");
  outcome.searched = [names(section), section.querySelector(".status").textContent];
  enter(search, "", "input");
  outcome.choices = all("select", section).map((select) => all("option", select).map((option) => option.textContent));
  const [kind] = all("select", section);
  if (kind) {
    enter(kind, "mutex", "change");
    outcome.mutexes = names(section);
    enter(kind, "all", "change");
  }

  const columns = all("thead th", section).length;
  section.querySelector("input[type=checkbox]").click();
  outcome.columns = [columns, all("thead th", section).length];

  const buttons = all("tbody th > button", section);
  const button = buttons.find((button) => button.textContent === "hot_lock") ?? buttons[0];
  outcome.before = button.ariaExpanded;
  button.click();
  const below = document.getElementById(button.getAttribute("aria-controls"));
  outcome.unfolded = {
    expanded: button.ariaExpanded,
    shown: below.offsetHeight > 0,
    histograms: all("svg[role=img]", below).map((svg) => svg.getAttribute("aria-label")),
    bars: all("svg rect", below).filter((bar) => bar.getBoundingClientRect().height > 0).length,
    calls: all("li", below).map((line) => line.textContent),
    facts: all("dt", below).map((fact) => fact.textContent),
  };
  button.click();
  outcome.folded = [button.ariaExpanded, below.offsetHeight];
  outcome.first_part = names(section).length;
  const more = section.querySelector(".more button");
  outcome.more = more.hidden ? null : more.textContent;
  more.click();
  outcome.two_parts = names(section).length;
}

const whatIf = document.querySelector("section.what-if");
const missing = whatIf?.querySelector(".missing");
if (missing) outcome.what_if = { shown: false, why: missing.offsetHeight > 0 && missing.textContent };
else if (whatIf) {
  const words = (element) => element.textContent;
  const cells = (table) => all("tr", table).map((row) => [...row.cells].map(words));
  const place = document.querySelector(".plot:has(.sliders)") ?? whatIf; // where the sliders and their curve are
  const controls = all(".slider", place);
  const named = (label) => controls.find((control) => control.textContent.startsWith(label));
  const field = (label) => named(label).querySelector("input[type=number], select");
  const drawn = () => all(".picture", place).filter((svg) => svg.getBoundingClientRect().height > 0)
    .map((svg) => svg.querySelectorAll("polyline").length);
  const shown = () => {
    const [rows, values] = all("table", whatIf).map(cells);
    const instruction = place.querySelector("[role=status]");
    return {
      flags: words(whatIf.querySelector("code")), instruction: words(instruction), warned: instruction.className.includes("warning"),
      rows, values, lines: drawn(),
    };
  };
  // What is asked, by the beginnings of the labels. Cores are said each time, and everything is put back before the next.
  const asked = [
    {}, { Part: 0.5 }, { Think: 2 }, { "Share of": 0.9 }, { "Locks that": 4 }, { Operations: 8 }, { Threads: 3 },
    { "Lock in": "queue" }, { Part: 0.3, Think: 0.7, "Locks that": 3, Operations: 2, "Lock in": "ticket" },
  ];
  const reset = all("button", place).find((button) => words(button) === "As it is");
  const answers = asked.flatMap((changes) => [4, 8].map((cores) => {
    for (const [label, value] of Object.entries({ Cores: cores, ...changes })) {
      enter(field(label), value, field(label).localName === "select" ? "change" : "input");
    }
    const answer = shown();
    reset.click();
    return answer;
  }));
  enter(field("Part"), 7, "input");
  const wrong = shown();
  reset.click();
  const range = named("Locks that").querySelector("input[type=range]");
  enter(range, range.valueAsNumber + 1, "input"); // as an arrow key does it
  const slid = [range.ariaValueText, field("Locks that").value, shown().flags];
  reset.click();
  const milliseconds = [1, 2, 3, 4, 5].map((step) => {
    range.value = step % 2;
    const from = performance.now();
    range.dispatchEvent(new Event("input", { bubbles: true }));
    place.querySelector(".picture").getBoundingClientRect(); // laid out
    return performance.now() - from;
  });
  reset.click();
  outcome.milliseconds = milliseconds.sort((a, b) => a - b)[0];
  const [picture, form] = [".picture", ".sliders"].map((part) => place.querySelector(part).getBoundingClientRect());
  outcome.beside = form.left >= picture.right && form.top < picture.bottom;
  outcome.live = place.querySelector(".instruction").ariaLive;
  outcome.in_plot = all("figure .picture, figure svg.contend-plot").filter((svg) => svg.getBoundingClientRect().height > 0).length;
  outcome.what_if = {
    shown: whatIf.offsetHeight > 0 && place.querySelector(".picture").clientHeight > 0,
    answers, wrong, slid, back: [field("Locks that").value, shown().flags],
  };
}

const figure = document.querySelector("figure.plot");
if (figure) {
  const pictures = all(".scroll", figure).filter((picture) => picture.querySelector("svg"));
  const visible = () => pictures.filter((picture) => picture.offsetHeight > 0);
  const lines = (picture) => picture.querySelectorAll("polyline, polygon, line").length;
  outcome.pictures = ["linear", "logarithmic"].map((axis) => {
    figure.querySelector(`input.${axis}`)?.click();
    return visible().map((picture) => [picture.className, lines(picture) > 10]);
  });
  outcome.values = all("details.values tbody tr", figure).length;
}

/** The size of the smallest letters of the pictures, as they are displayed. */
const sizes = all("svg text").map((text) => {
  const { width } = text.ownerSVGElement.getBoundingClientRect();
  const whole = text.ownerSVGElement.viewBox.baseVal?.width || text.ownerSVGElement.width.baseVal.value;
  return parseFloat(getComputedStyle(text).fontSize) * width / whole;
});
outcome.letters = Math.min(...sizes.filter((size) => size > 0), 99);
const frames = all("figure .scroll, figure.ranges > div").filter((frame) => frame.querySelector("svg"));
outcome.scrolled = frames.filter((frame) => frame.scrollWidth > frame.clientWidth).length;

// What stands first, and whether all of each legend is to be seen without scrolling.
outcome.leading = all("main > *").slice(1, 4).map((element) => element.className || element.localName);
const legends = all(".legend, .bars");
outcome.clipped = legends.filter((legend) => legend.scrollWidth > legend.clientWidth || legend.getBoundingClientRect().right > innerWidth).length;
outcome.keys = legends.map((legend) => [...legend.children].filter((key) => !key.hidden).length);
outcome.bold = all(".plot .legend b").map((name) => name.textContent);
outcome.breaks = all("wbr").length;

/** The words of a text at whose letters a line ends: those that a browser has broken, and no `<wbr>`. */
function brokenIn(text) {
  const range = document.createRange();
  range.selectNodeContents(text);
  if (range.getClientRects().length < 2) return [];
  const line = (at) => {
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getClientRects()[0]?.bottom;
  };
  const words = [...text.data.matchAll(/\w+/g)];
  return words.filter(({ 0: word, index }) => line(index) !== line(index + word.length - 1)).map(([word]) => word);
}
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
outcome.broken = all("wbr").filter((wbr) => !/(::|\/)$/.test(wbr.previousSibling?.textContent)).map(() => "<wbr>");
while (texts.nextNode()) {
  if (!texts.currentNode.parentElement.closest("script, svg")) outcome.broken.push(...brokenIn(texts.currentNode));
}
// Tables that are cut at the edge of the screen, but for those of which all columns or all values are asked for.
const tables = all(".scroll:not(.rows *, details *)").filter((frame) => frame.querySelector("table"));
outcome.cut = tables.filter((frame) => frame.scrollWidth > frame.clientWidth).length;

const unnamed = (control) => !control.labels?.length && !control.ariaLabel && control.textContent === "" && !control.hidden;
outcome.unnamed = all("input, select, button").filter(unnamed).length;
const onPaper = ["--ink", "--soft", "--link", "--warning"].map((ink) => contrast(ink, "--paper"));
const onShade = ["--ink", "--soft"].map((ink) => contrast(ink, "--shade"));
outcome.contrast = Math.min(...onPaper, ...onShade);
outcome.dark = matchMedia("(prefers-color-scheme: dark)").matches;
outcome.width = [document.documentElement.scrollWidth, innerWidth];
outcome.title = document.title;
outcome.requests = performance.getEntriesByType("resource").map((entry) => entry.name);

const escaped = (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
const text = JSON.stringify(outcome).replace(/[<>&\u00a0]/g, escaped);
if (parent === window) {
  const element = document.createElement("pre");
  element.id = "outcome";
  element.textContent = text;
  document.body.append(element);
} else {
  parent.postMessage(text, "*"); // to the frame of a phone's width
}
