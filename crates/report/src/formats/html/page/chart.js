// A chart over its static picture: values on hover and by arrow keys, zoom, series on and off, log and linear.
const HEIGHT = 270, FIRST_SERIES = 14, LETTER = 6.3;

class Chart {
  constructor(figure, spec) {
    Object.assign(this, { figure, spec, hidden: new Set(), zoom: null, at: -1, log: spec.y[2] === "log" });
    spec.s.forEach((_, index) => index >= FIRST_SERIES && this.hidden.add("s" + index));
    this.plot = figure.querySelector(".plot");
    this.description = this.plot.firstElementChild.getAttribute("aria-label");
    this.tip = make("div", { class: "tip", hidden: true });
    this.live = make("p", { class: "unseen", "aria-live": "polite" });
    this.controls();
    this.legend();
    this.figure.append(this.live);
    this.redraw();
    new ResizeObserver(() => Math.abs(this.plot.clientWidth - this.width) > 1 && this.redraw()).observe(this.plot);
  }
  get stacked() { return this.spec.b.length > 0; }
  get matrix() { return this.spec.c; }
  // Rows along one axis: only that axis zooms.
  get rows() { return this.spec.l || this.spec.w; }

  controls() {
    const positive = this.spec.s.every(([, , points]) => points.every(([, y]) => y > 0));
    const switchable = positive && this.spec.s.length > 0 && !this.stacked && !this.matrix;
    this.scaleButton = switchable ? make("button", { type: "button", class: "scale", onclick: () => this.switchScale() }) : null;
    this.resetButton = make("button", { type: "button", class: "reset", hidden: true, onclick: () => this.reset() }, "Reset zoom");
    this.figure.querySelector("figcaption").prepend(make("div", { class: "controls" }, this.resetButton, this.scaleButton));
    this.saysScale();
  }
  saysScale() {
    if (!this.scaleButton) return;
    this.scaleButton.textContent = this.log ? "log" : "linear";
    this.scaleButton.setAttribute("aria-label", this.log ? "log: the vertical scale, switch to linear" : "linear: the vertical scale, switch to log");
  }
  switchScale() {
    this.log = !this.log;
    this.zoom = null;
    this.saysScale();
    this.redraw();
  }
  reset() {
    const focused = document.activeElement === this.resetButton;
    this.zoom = null;
    this.redraw();
    if (focused) this.svg.focus();
  }

  // A button for each series, part and limit, where there are several.
  legend() {
    const entries = [
      ...this.spec.s.map(([label, style], index) => ["s" + index, label, style, "series"]),
      ...this.spec.r.map(([label, style], index) => ["r" + index, label, style, "limit"]),
      ...this.spec.b.map(([label, style], index) => ["b" + index, label, style, "part"]),
      ...this.spec.m.map(([label, limit], index) => ["m" + index, label, limit ? -2 : -1, "mark"]),
      ...(this.spec.l ? this.spec.l[0] : []).map(([label, style, stall], index) => ["k" + index, label, stall ? -3 : style, "part"]),
    ];
    if (entries.length < 2) return;
    const list = make("div", { class: "legend", role: "group", "aria-label": "what is drawn" });
    for (const [key, label, style, kind] of entries) {
      const button = make("button", { type: "button", "aria-pressed": String(!this.hidden.has(key)) }, sample(style, kind), label);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(key)) this.hidden.add(key);
        button.setAttribute("aria-pressed", String(!this.hidden.has(key)));
        this.redraw();
      });
      list.append(button);
    }
    this.plot.after(list);
  }

  redraw() {
    this.width = Math.max(this.plot.clientWidth, 260);
    this.at = -1;
    this.groups = [];
    this.svg = draw("svg", { tabindex: 0, role: "img", "aria-label": this.description + ". Arrow keys read values." });
    this.resetButton.hidden = !this.zoom;
    if (this.matrix) this.drawMatrix();
    else if (this.spec.l) this.drawLanes();
    else if (this.spec.w) this.drawWaterfall();
    else this.drawPlot();
    this.marks = draw("g", { class: "cursor" });
    this.svg.append(this.marks);
    this.listen();
    this.plot.replaceChildren(this.svg, this.tip);
    this.tip.hidden = true;
    this.figure.dataset.drawn = "";
  }
  size(height) {
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.svg.setAttribute("height", height);
  }
  seen(list, letter) {
    return list.map((entry, index) => [entry, letter + index]).filter(([, key]) => !this.hidden.has(key)).map(([entry]) => entry);
  }
  text(x, y, content, attributes) {
    this.svg.append(draw("text", { x: round(x), y: round(y), ...attributes }, content));
  }

  drawPlot() {
    const spec = this.spec;
    const series = this.seen(spec.s, "s"), limits = this.seen(spec.r, "r");
    const parts = this.seen(spec.b, "b"), marks = this.seen(spec.m, "m");
    const tops = heights(parts);
    const all = series.flatMap(([, , points]) => points), lines = [...limits, ...marks].flatMap(([, , points]) => points).filter(([, up]) => up !== null);
    const xs = [...all, ...lines, ...parts.flatMap(([, , bars]) => bars)].map(([x]) => x);
    const ys = [...all, ...lines].map(([, y]) => y).concat(tops.flat().flatMap(([, low, high]) => [low, high]));
    const spread = this.scaleButton ? (this.log ? "log" : spec.y[2] === "log" ? "zero" : spec.y[2]) : spec.y[2];
    const x = (this.x = new Scale(spec.x, xs, [], this.zoom && this.zoom.x));
    x.names = spec.n;
    const y = (this.y = new Scale([spec.y[0], spec.y[1], spread], ys, all.flatMap((p) => p.slice(2, 4)), this.zoom && this.zoom.y));
    const names = [...series, ...limits, ...parts.slice().reverse()];
    const widest = Math.max(0, ...names.map(([label]) => label.length)) * LETTER + 14;
    const beside = this.width >= 460 && names.length <= FIRST_SERIES && widest <= this.width * 0.3 && !spec.d;
    const ticks = y.between(HEIGHT, 22).ticks(7);
    const left = Math.max(...ticks.map((tick) => y.label(tick).length), 1) * 6.6 + 12;
    this.box = { left, right: this.width - (beside ? widest + 8 : 14), top: 22, bottom: HEIGHT };
    x.between(this.box.left + 4, this.box.right - 4);
    this.size(HEIGHT + 44);
    this.axes(ticks);
    this.clip();
    this.bars(parts, tops, marks);
    limits.forEach(([, style, points]) => this.limit(style, points));
    const dodge = (index) => (spec.x[2] === "steps" ? (index - (series.length - 1) / 2) * Math.min(9, 60 / Math.max(series.length, 1)) : 0);
    series.forEach((one, index) => this.band(one, dodge(index)));
    series.forEach((one, index) => this.line(one, dodge(index)));
    if (beside) this.labels(series, limits, parts, tops);
    this.hits(series, dodge, parts, tops, marks);
  }
  axes(rows) {
    const { left, right, top, bottom } = this.box, lines = [];
    this.text(left - 4, 11, this.y.title, { class: "title" });
    for (const tick of rows) {
      const at = round(this.y.place(tick));
      if (at < top - 1 || at > bottom + 1) continue;
      if (bottom - at > 4) lines.push(`M${left} ${at}H${right}`);
      this.text(left - 7, at + 4, this.y.label(tick), { class: "tick end" });
    }
    this.svg.append(draw("path", { class: "grid", d: lines.join("") }));
    this.across(spaced(this.x).map((tick) => [tick, this.x.label(tick)]), bottom);
  }
  // The horizontal axis, with ticks and their labels.
  across(ticks, bottom) {
    const { left, right, top } = this.box, grid = [];
    for (const [tick, label] of ticks) {
      const at = round(this.x.place(tick));
      grid.push(`M${at} ${top}V${bottom + 4}`);
      this.text(at, bottom + 17, label, { class: "tick middle" });
    }
    this.svg.append(draw("path", { class: "grid", d: grid.join("") }), draw("path", { class: "base", d: `M${left} ${bottom}H${right}` }));
    this.text((left + right) / 2, bottom + 37, this.x.title, { class: "title middle" });
  }
  // Shapes stay inside of the plot.
  clip() {
    const { left, right, top, bottom } = this.box, id = this.figure.id + "-clip";
    const hole = draw("clipPath", { id }, draw("rect", { x: left - 2, y: top - 6, width: Math.max(right - left + 4, 1), height: bottom - top + 8 }));
    this.inner = draw("g", { "clip-path": `url(#${id})` });
    this.svg.append(hole, this.inner);
  }
  bars(parts, tops, marks) {
    const half = Math.min(34, (0.34 * (this.box.right - this.box.left)) / (this.x.domain[1] - this.x.domain[0]));
    parts.forEach(([, style], index) => {
      const path = tops[index].map(([at, low, high]) => {
        const middle = this.x.place(at), a = round(middle - half), b = round(middle + half);
        return `M${a} ${round(this.y.place(low))}H${b}V${round(this.y.place(high))}H${a}z`;
      });
      this.inner.append(draw("path", { class: "part c" + (style % 7), d: path.join("") }));
    });
    for (const [, limit, points] of marks) {
      const reach = half + (limit ? 14 : 7);
      const path = points.map(([at, up]) => `M${round(this.x.place(at) - reach)} ${round(this.y.place(up))}h${round(2 * reach)}`);
      this.inner.append(draw("path", { class: limit ? "mark over" : "mark", d: path.join("") }));
    }
  }
  limit(style, points) {
    // A gap where no limit was found.
    const parts = [[]];
    points.forEach((point) => (point[1] === null ? parts.push([]) : parts[parts.length - 1].push(point)));
    parts.forEach((part) => this.stretch(style, part));
  }
  stretch(style, points) {
    const places = points.map(([at, up]) => [round(this.x.place(at)), round(this.y.place(up))]).filter((place) => !place.some(Number.isNaN));
    if (places.length === 1) places.unshift([places[0][0] - 16, places[0][1]]), (places[1] = [places[1][0] + 16, places[1][1]]);
    if (places.length) this.inner.append(draw("path", { class: "limit " + (style < 0 ? "" : "c" + (style % 7)), d: "M" + places.map((place) => place.join(" ")).join("L") }));
  }
  placed(points, dodge) {
    return points.filter(([, up]) => up !== null).map((point) => [this.x.place(point[0]) + dodge, this.y.place(point[1]), point]).filter(([a, b]) => !Number.isNaN(a) && !Number.isNaN(b));
  }
  band([, style, points], dodge) {
    const places = this.placed(points, dodge).filter(([, , point]) => point.length > 3);
    const ends = places.map(([at, , point]) => [round(at), round(this.y.clamped(point[2])), round(this.y.clamped(point[3]))]);
    if (!ends.length) return;
    if (this.spec.x[2] === "steps" || points.length === 1 || this.spec.d) {
      const path = ends.map(([at, low, high]) => `M${at} ${low}V${high}M${at - 4} ${low}h8M${at - 4} ${high}h8`);
      this.inner.append(draw("path", { class: "whisker c" + (style % 7), d: path.join("") }));
    } else {
      const upper = ends.map(([at, , high]) => `${at} ${high}`), lower = ends.map(([at, low]) => `${at} ${low}`).reverse();
      this.inner.append(draw("path", { class: "band c" + (style % 7), d: `M${upper.concat(lower).join("L")}z` }));
    }
  }
  line([, style, points], dodge) {
    const places = this.placed(points, dodge);
    if (!this.spec.d && places.length > 1) {
      const d = "M" + places.map(([a, b]) => `${round(a)} ${round(b)}`).join("L");
      this.inner.append(draw("path", { class: "line c" + (style % 7), d }));
    }
    const few = places.length <= 200;
    for (const over of [false, true]) {
      const own = places.filter(([, , point]) => Boolean(point[4]) === over);
      if (few && own.length) this.inner.append(draw("path", { class: markerClass(style, over), d: own.map(([a, b]) => marker(style, a, b)).join("") }));
    }
  }
  labels(series, limits, parts, tops) {
    const ends = [];
    for (const [label, style, points] of [...series, ...limits]) {
      const last = this.placed(points, 0).filter(([a, b]) => a >= this.box.left - 1 && a <= this.box.right + 1 && b >= this.box.top - 8 && b <= this.box.bottom + 1).pop();
      if (last) ends.push([label, style, last[1]]);
    }
    parts.forEach(([label, style], index) => {
      const [, low, high] = tops[index][tops[index].length - 1];
      ends.push([label, style, this.y.place((low + high) / 2)]);
    });
    const places = apart(ends.map(([, , up]) => up), 15, this.box.top, this.box.bottom);
    ends.forEach(([label, style, up], index) => {
      const left = this.box.right + 12;
      if (Math.abs(places[index] - up) > 3) this.svg.append(draw("path", { class: "thread", d: `M${this.box.right + 1} ${round(up)}L${left - 3} ${round(places[index])}` }));
      this.text(left, places[index] + 4, label, { class: "label " + (style < 0 ? "" : "t" + (style % 7)) });
    });
  }

  // What hover and arrow keys can reach: groups of values with their places.
  hits(series, dodge, parts, tops, marks) {
    const groups = new Map();
    const add = (key, place, head, row) => {
      if (!groups.has(key)) groups.set(key, { places: [], head, rows: [] });
      const group = groups.get(key);
      group.places.push(place);
      group.rows.push(row);
    };
    const x = (value) => (this.spec.n ? this.spec.n[value] : `${this.spec.x[0]} ${quantity(value, this.spec.x[1])}`.trim());
    const within = ([a, b]) => a >= this.box.left - 2 && a <= this.box.right + 2 && b >= this.box.top - 6 && b <= this.box.bottom + 2;
    series.forEach(([label, style, points], index) => {
      for (const [a, b, point] of this.placed(points, dodge(index)).filter(within)) {
        const range = point.length > 3 && point[2] !== point[3] ? ` (${quantity(point[2], this.spec.y[1])} to ${quantity(point[3], this.spec.y[1])})` : "";
        const value = quantity(point[1], this.spec.y[1]) + range + (point[4] ? ", ranks > cores" : "");
        const key = this.spec.d ? groups.size : point[0];
        add(key, [a, b], x(point[0]), [label, style, value]);
      }
    });
    parts.forEach(([label, style, bars], index) => {
      tops[index].forEach(([at, low, high], bar) => add(at, [this.x.place(at), this.y.place(high)], x(at), [label, style, quantity(bars[bar][1], this.spec.y[1])]));
    });
    if (this.stacked) for (const [label, limit, points] of marks) points.forEach(([at, up]) => groups.has(at) && groups.get(at).rows.push([label, limit ? -2 : -1, quantity(up, this.spec.y[1])]));
    this.groups = [...groups.values()].sort((a, b) => a.places[0][0] - b.places[0][0]);
  }
  listen() {
    const place = (event) => {
      const box = this.svg.getBoundingClientRect(), factor = this.width / box.width;
      return [(event.clientX - box.left) * factor, (event.clientY - box.top) * factor];
    };
    this.svg.addEventListener("pointermove", (event) => (this.drag ? this.select(place(event)) : this.show(this.nearest(place(event)))));
    this.svg.addEventListener("pointerleave", () => !this.drag && this.show(-1));
    this.svg.addEventListener("blur", () => this.show(-1));
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      this.drag = { from: place(event), to: place(event) };
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointerup", () => this.drop());
    this.svg.addEventListener("pointercancel", () => (this.drag = null));
    this.svg.addEventListener("dblclick", () => this.reset());
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }
  key(event) {
    const last = this.groups.length - 1;
    const to = { ArrowRight: Math.min(this.at + 1, last), ArrowLeft: Math.max(this.at - 1, 0), Home: 0, End: last, Escape: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.show(to);
    const group = this.groups[to];
    this.live.textContent = group ? [group.head, ...group.rows.map(([label, , value]) => `${label}: ${value}`)].join("; ") : "";
  }
  nearest([x, y]) {
    const inside = x >= this.box.left - 12 && x <= this.box.right + 12 && y <= this.box.bottom + 12;
    if (!inside) return -1;
    if (this.spec.l) return this.spanAt([x, y]);
    if (this.spec.w) return Math.max(0, Math.min(this.groups.length - 1, Math.floor((y - this.box.top) / 30)));
    let best = -1, least = this.spec.d || this.matrix ? 40 : Infinity;
    this.groups.forEach((group, index) => {
      const [a, b] = group.places[0];
      const distance = this.spec.d || this.matrix ? Math.hypot(a - x, b - y) : Math.abs(a - x);
      if (distance < least) [best, least] = [index, distance];
    });
    return best;
  }
  show(index) {
    this.at = index;
    const group = this.groups[index];
    this.marks.replaceChildren();
    this.tip.hidden = !group;
    if (!group) return;
    const [at] = group.places[0];
    if (!this.spec.d && !this.matrix && !this.rows) this.marks.append(draw("path", { class: "rule", d: `M${round(at)} ${this.box.top}V${this.box.bottom}` }));
    if (group.box) this.marks.append(draw("rect", { class: "held", ...group.box }));
    else group.places.forEach(([a, b]) => this.marks.append(draw("circle", { cx: round(a), cy: round(b), r: 6 })));
    const rows = group.rows.slice(0, 12).map(([label, style, value]) => make("div", {}, style === null ? null : sample(style, "tip"), make("span", {}, label), make("b", {}, value)));
    const more = group.rows.length > 12 ? [make("div", {}, `and ${group.rows.length - 12} more`)] : [];
    this.tip.replaceChildren(make("strong", {}, group.head), ...rows, ...more);
    const shownAt = (at / this.width) * this.plot.clientWidth;
    const right = shownAt > this.plot.clientWidth / 2;
    this.tip.style.left = right ? "auto" : `${shownAt + 14}px`;
    this.tip.style.right = right ? `${this.plot.clientWidth - shownAt + 14}px` : "auto";
  }
  select(to) {
    this.drag.to = to;
    this.show(-1);
    const [[a, b], [c, d]] = [this.drag.from, to], { top, bottom } = this.box, flat = this.rows || Math.abs(d - b) < 12;
    const box = { x: Math.min(a, c), y: flat ? top : Math.min(b, d), width: Math.abs(c - a), height: flat ? bottom - top : Math.abs(d - b) };
    this.marks.replaceChildren(draw("rect", { class: "selection", ...box }));
  }
  drop() {
    if (!this.drag) return;
    const [[a, b], [c, d]] = [this.drag.from, this.drag.to];
    this.drag = null;
    this.marks.replaceChildren();
    if (Math.abs(c - a) < 8 || !this.x) return;
    const ends = (scale, from, to) => [scale.at(from), scale.at(to)].sort((p, q) => p - q);
    const y = this.rows || Math.abs(d - b) < 12 ? (this.zoom ? this.zoom.y : null) : ends(this.y, b, d);
    this.zoom = { x: ends(this.x, a, c), y };
    this.redraw();
  }
}

const round = (value) => Math.round(value * 10) / 10;
// As many ticks across as keep their labels apart.
function spaced(x) {
  const length = x.range[1] - x.range[0];
  for (let most = Math.max(2, Math.floor(length / 46)); most >= 2; most--) {
    const ticks = x.ticks(most), places = ticks.map((tick) => [x.place(tick), x.label(tick).length * 3.4]);
    if (places.every(([at, half], index) => index === 0 || at - half - places[index - 1][0] - places[index - 1][1] >= 10)) return ticks;
  }
  return x.ticks(2);
}
// Where each part of each bar begins and ends.
function heights(parts) {
  const tops = new Map();
  return parts.map(([, , bars]) => bars.map(([at, height]) => {
    const low = tops.get(at) || 0, high = low + Math.max(height, 0);
    tops.set(at, high);
    return [at, low, high];
  }));
}
// Moves labels apart, as little as needed, in their order.
function apart(wanted, gap, top, bottom) {
  const order = wanted.map((_, index) => index).sort((a, b) => wanted[a] - wanted[b]), places = wanted.slice();
  const step = Math.min(gap, (bottom - top) / Math.max(1, wanted.length - 1));
  for (let turn = 0; turn < 40; turn++) {
    for (let at = 1; at < order.length; at++) {
      const missing = places[order[at - 1]] + step - places[order[at]];
      if (missing > 0) (places[order[at - 1]] -= missing / 2), (places[order[at]] += missing / 2);
    }
  }
  let least = top;
  for (const index of order) least = (places[index] = Math.max(places[index], least)) + step;
  let most = bottom;
  for (const index of order.slice().reverse()) most = (places[index] = Math.min(places[index], most)) - step;
  return places;
}
const CORNERS = [null, [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]], [[0, -1.2], [1.15, 0.8], [-1.15, 0.8]], [[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]], [[0, 1.2], [1.15, -0.8], [-1.15, -0.8]], [[0, -1.2], [1.2, -0.3], [0.75, 1.05], [-0.75, 1.05], [-1.2, -0.3]]];
function marker(style, x, y) {
  const corners = CORNERS[style % 6];
  if (!corners) return `M${round(x - 4)} ${round(y)}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`;
  return "M" + corners.map(([a, b]) => `${round(x + 4 * a)} ${round(y + 4 * b)}`).join("L") + "z";
}
function markerClass(style, over) {
  const hollow = Math.floor(style / 7) % 2 === 1;
  return `marker c${style % 7}${over ? " over" : hollow ? " hollow" : ""}`;
}
// The sign of a series beside its name: also without colour it is told by its shape.
function sample(style, kind) {
  const svg = draw("svg", { class: "sample", viewBox: "0 0 16 12", width: 16, height: 12, "aria-hidden": "true" });
  if (style === -3) svg.append(draw("path", { class: "stall", fill: "none", d: "M1.5 1.5H14.5V10.5H1.5zM3 10.5L12 1.5M8 10.5L14.5 4M1.5 7L7 1.5" }));
  else if (style < 0) svg.append(draw("path", { class: style === -2 ? "mark over" : kind === "mark" || kind === "tip" ? "mark" : "limit", d: "M1 6H15" }));
  else if (kind === "limit") svg.append(draw("path", { class: "limit c" + (style % 7), d: "M1 6H15" }));
  else if (kind === "part") svg.append(draw("path", { class: "part c" + (style % 7), d: "M2 1H14V11H2z" }));
  else svg.append(draw("path", { class: markerClass(style, false), d: marker(style, 8, 6) }));
  return svg;
}
