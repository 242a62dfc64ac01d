// The table of every case of a section: sorted, filtered, copied; a row opens its trials and samples.
const CHUNK = 50;
// Places in a row of the data.
const ID = 0, GROUP = 1, STATUS = 2, CELLS = 3, CAVEATS = 4, MEDIAN = 5, LOW = 6, HIGH = 7, TRIALS = 8, QUANTILES = 9, SAMPLES = 10, RANKS = 11, REASON = 12;

class CaseTable {
  constructor(place, section, words) {
    Object.assign(this, { place, section, words, rows: section.r, order: null, shown: CHUNK, open: new Set() });
    this.columns = this.chosen();
    this.filter = make("input", { type: "search", placeholder: "filter, for example shm 64 KiB", "aria-label": `filter the cases of ${section.n}`, oninput: () => this.search() });
    this.count = make("span", { class: "count", "aria-live": "polite" });
    this.copyButton = make("button", { type: "button", class: "copy", onclick: () => this.copy() }, "Copy as CSV");
    this.head = make("tr", {}, make("th", { scope: "col" }, make("span", { class: "unseen" }, "trials")), ...this.columns.map((column, index) => this.heading(column, index)));
    this.body = make("tbody", {});
    this.more = make("button", { type: "button", class: "more", hidden: true, onclick: () => this.grow() });
    const caption = make("caption", { class: "unseen" }, `${section.n}: every case; buttons in the heads sort`);
    const table = make("table", { class: "cases" }, caption, make("thead", {}, this.head), this.body);
    const tools = make("div", { class: "tools" }, this.filter, this.count, this.copyButton);
    this.region = make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": `cases of ${section.n}` }, table);
    place.querySelector(".static").replaceWith(tools, this.region, this.more);
    this.search();
    addEventListener("beforeprint", () => this.grow(Infinity));
  }
  // The columns in the report's order. Those that its text says for all rows are hidden: the filter and the copy have them.
  chosen() {
    const { c, g, r, most } = this.section;
    const marks = (row) => row[CAVEATS].filter((at) => !most.includes(at)).map((at) => this.words.caveats[at][2]).join(" ") || null;
    const names = (row) => row[CAVEATS].map((at) => this.words.caveats[at][0]).join(", ") || null;
    const source = (at) => (at === -3 ? marks : at < 0 ? (row) => g[row[GROUP]][-1 - at] || null : (row) => row[CELLS][at]);
    const all = c.map(([title, unit, format, name, phrase, hidden, at]) => ({ title, unit, format, name, phrase, hidden, value: source(at), copied: at === -3 ? names : source(at) }));
    if (r.some((row) => row[STATUS] !== 0)) {
      const status = (row) => this.words.status[row[STATUS]];
      all.push({ title: "status", unit: "", format: "word", name: "status", value: status, copied: status });
    }
    this.every = all.filter((column) => r.some((row) => ![null, undefined, ""].includes(column.copied(row))));
    return all.filter((column) => !column.hidden);
  }
  heading(column, index) {
    const button = make("button", { type: "button", onclick: () => this.sort(index) }, column.title, column.unit ? make("small", {}, " " + column.unit) : null);
    return make("th", { scope: "col", class: this.kind(column, index), "aria-sort": "none" }, button);
  }
  // On a narrow screen the columns behind the first that tell rows apart stand in the first.
  kind(column, index) {
    const apart = index > 0 && index < this.section.apart;
    return [column.format === "word" ? "" : "n", apart ? "apart" : ""].filter(Boolean).join(" ") || null;
  }
  also(row) {
    const told = this.columns.slice(1, this.section.apart).map((column) => [column, this.text(column, row)]).filter(([, text]) => text !== NONE && text !== "");
    const words = told.map(([column, text]) => (column.phrase === "{} ranks" && text === "1" ? "1 rank" : column.phrase.replaceAll("{}", () => text)));
    return words.length ? make("small", { class: "also" }, words.join(", ")) : null;
  }
  text(column, row) {
    const value = column.value(row);
    return column.name === "caveats" && value === null ? "" : shown(value, column.format);
  }
  search() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.filtered = words.length ? this.rows.filter((row) => words.every((word) => this.haystack(row).includes(word))) : this.rows.slice();
    this.shown = CHUNK;
    this.arrange();
  }
  haystack(row) {
    if (!this.texts) this.texts = new Map();
    if (!this.texts.has(row)) {
      const cells = this.every.map((column) => shown(column.copied(row), column.format));
      cells.push(...row[CAVEATS].map((at) => this.words.caveats[at][3]));
      const group = this.section.g[row[GROUP]];
      this.texts.set(row, [...cells, ...group, this.words.status[row[STATUS]], row[REASON] || "", row[ID]].join(" ").toLowerCase());
    }
    return this.texts.get(row);
  }
  sort(index) {
    const down = this.order && this.order.index === index && !this.order.down;
    this.order = { index, down };
    [...this.head.children].slice(1).forEach((head, at) => head.setAttribute("aria-sort", at !== index ? "none" : down ? "descending" : "ascending"));
    this.arrange();
  }
  arrange() {
    if (this.order) {
      const { index, down } = this.order, column = this.columns[index], sign = down ? -1 : 1;
      const key = (row) => (Array.isArray(column.value(row)) ? column.value(row)[0] : column.value(row));
      const keyed = this.filtered.map((row, at) => [key(row), at, row]);
      const missing = (value) => value === null || value === undefined;
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      keyed.sort(([a, i], [b, j]) => (missing(a) || missing(b) ? missing(a) - missing(b) : sign * compare(a, b)) || i - j);
      this.filtered = keyed.map(([, , row]) => row);
    }
    this.fill();
  }
  fill() {
    const total = this.section.all, left = total - this.rows.length;
    const beyond = left > 0 ? `; ${thousands(left)} more in cases.csv` : "";
    this.count.textContent = `${thousands(this.filtered.length)} of ${thousands(total)} case${total === 1 ? "" : "s"}${beyond}`;
    const rows = document.createDocumentFragment();
    this.filtered.slice(0, this.shown).forEach((row) => rows.append(...this.line(row)));
    if (!this.filtered.length) rows.append(make("tr", {}, make("td", { colspan: this.columns.length + 1 }, "No case matches the filter.")));
    this.body.replaceChildren(rows);
    this.sayMore();
  }
  sayMore() {
    const rest = this.filtered.length - this.shown;
    this.more.hidden = rest <= 0;
    this.more.textContent = `Show ${thousands(Math.min(rest, 10 * CHUNK))} more`;
  }
  grow(by = 10 * CHUNK) {
    const rows = document.createDocumentFragment();
    this.filtered.slice(this.shown, this.shown + by).forEach((row) => rows.append(...this.line(row)));
    this.body.append(rows);
    this.shown = Math.min(this.shown + by, Math.max(this.filtered.length, CHUNK));
    this.sayMore();
  }
  line(row) {
    const name = `trials of ${this.columns.slice(0, 3).map((column) => this.text(column, row)).join(", ")}`;
    const button = make("button", { type: "button", class: "open", "aria-expanded": "false", "aria-label": name });
    const cell = (column, index) => make("td", { class: this.kind(column, index), title: column.name === "caveats" ? this.spelled(row) : null }, this.text(column, row), index === 0 ? this.also(row) : null);
    const line = make("tr", { class: ["", "unwell", "idle", "idle"][row[STATUS]] || null }, make("td", {}, button), ...this.columns.map(cell));
    button.addEventListener("click", () => this.toggle(row, line, button));
    if (!this.open.has(row)) return [line];
    button.setAttribute("aria-expanded", "true");
    return [line, this.detail(row)];
  }
  spelled(row) {
    return row[CAVEATS].map((at) => this.words.caveats[at][3]).join(", ") || null;
  }
  toggle(row, line, button) {
    const opens = !this.open.delete(row);
    button.setAttribute("aria-expanded", String(opens));
    if (!opens) return line.nextSibling.remove();
    this.open.add(row);
    line.after(this.detail(row));
  }
  detail(row) {
    const cell = make("td", { colspan: this.columns.length + 1 });
    const trials = unpack(row[TRIALS], row[MEDIAN]), samples = unpack(row[QUANTILES], row[MEDIAN]), ranks = unpack(row[RANKS], row[MEDIAN]);
    if (trials.length || samples.length) cell.append(strip(row, trials, samples));
    const facts = make("dl", {});
    const fact = (name, text) => text && facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, text)));
    fact("result", row[REASON] || (row[STATUS] ? this.words.status[row[STATUS]] : null));
    if (row[MEDIAN]) fact("median", seconds(row[MEDIAN]) + (row[LOW] ? ` (95% interval ${seconds(row[LOW])} to ${seconds(row[HIGH])})` : ", no interval"));
    fact("trials", trials.length && `${trials.length}: ${trials.map(seconds).join(", ")}`);
    if (row[SAMPLES]) fact("samples", thousands(row[SAMPLES]) + (samples.length ? `: ${seconds(samples[0])} to ${seconds(samples[samples.length - 1])}` : ""));
    fact("ranks", ranks.length && `medians ${ranks.map((time, rank) => `${rank}: ${seconds(time)}`).join(", ")}`);
    for (const at of row[CAVEATS]) fact(this.words.caveats[at][3], this.words.caveats[at][1] + ".");
    fact("case", row[ID]);
    cell.append(facts);
    return make("tr", { class: "detail" }, cell);
  }
  // As cases.csv writes it.
  csv() {
    const head = ["id", ...this.every.map((column) => column.name + (column.title === "±95%" ? ".relative_half_width" : ""))];
    return [head, ...this.filtered.map((row) => [row[ID], ...this.every.map((column) => column.copied(row))])].map(csvLine).join("");
  }
  copy() {
    return copyBy(this.copyButton, this.csv(), `Copied ${thousands(this.filtered.length)} cases`);
  }
}

// Trials as dots over the quantiles of their samples, with the interval as a band.
function strip(row, trials, samples) {
  const width = 620, left = 66, right = width - 12, all = [...trials, ...samples, ...(row[LOW] ? [row[LOW], row[HIGH]] : [])];
  const spread = Math.max(...all) > 20 * Math.min(...all) ? "log" : "linear";
  const x = new Scale(["", "seconds", spread], all, []).between(left, right);
  const label = `${trials.length} trials and ${samples.length} quantiles of samples around ${seconds(row[MEDIAN])}`;
  const svg = draw("svg", { class: "strip", viewBox: `0 0 ${width} 76`, width, height: 76, role: "img", "aria-label": label });
  if (row[LOW]) svg.append(draw("rect", { class: "band c0", x: round(x.place(row[LOW])), y: 4, width: Math.max(1, round(x.place(row[HIGH]) - x.place(row[LOW]))), height: 46 }));
  svg.append(draw("path", { class: "base", d: `M${left} 52H${right}` }), draw("path", { class: "median", d: `M${round(x.place(row[MEDIAN]))} 2V52` }));
  const line = (y, name, times, radius, kind) => {
    if (!times.length) return;
    svg.append(draw("text", { x: left - 10, y: y + 4, class: "tick end" }, name));
    times.forEach((time) => svg.append(draw("circle", { class: kind, cx: round(x.place(time)), cy: y, r: radius })));
  };
  line(16, "trials", trials, 4, "marker c0");
  line(38, "samples", samples, 2.5, "dot c0");
  for (const tick of spaced(x)) svg.append(draw("text", { x: round(x.place(tick)), y: 68, class: "tick middle" }, x.label(tick)));
  return svg;
}
