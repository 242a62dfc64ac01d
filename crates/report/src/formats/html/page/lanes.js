// Spans of time in rows, one row a rank: a path for each kind, and the span below the pointer by its time and row.
Chart.prototype.drawLanes = function () {
  const [kinds, rows, ends] = this.spec.l, id = this.figure.id + "-hatch";
  const left = Math.min(14 + Math.max(...rows.map(([label]) => label.length), 0) * 7, this.width * 0.4), right = this.width - 24;
  const high = Math.min(26, Math.max(9, 330 / Math.max(rows.length, 1))), top = 22, bottom = top + high * rows.length + 4;
  this.box = { left, right, top, bottom };
  this.y = null;
  const x = (this.x = new Scale([this.spec.x[0], "seconds", "linear"], [], [], (this.zoom && this.zoom.x) || ends).between(left, right));
  this.size(bottom + 44);
  this.across(lanesTicks(x), bottom);
  this.text(left - 4, 11, "rank", { class: "title" });
  const every = Math.ceil(15 / high), letters = Math.floor((left - 14) / 6.6);
  rows.forEach(([label], row) => {
    const short = label.length > letters ? label.slice(0, Math.max(letters - 1, 1)) + "…" : label;
    if (row % every === 0) this.text(left - 7, top + (row + 0.5) * high + 4, short, { class: "tick end" });
  });
  const middles = rows.map((_, row) => `M${left} ${round(top + (row + 0.5) * high)}H${right}`);
  this.svg.append(draw("path", { class: "grid", d: middles.join("") }), hatching(id));
  this.clip();
  const paths = kinds.map(() => []), least = (x.domain[1] - x.domain[0]) / 1000;
  rows.forEach(([label, spans], row) => {
    for (let at = 0; at < spans.length; at += 3) {
      const [begin, end, kind] = [spans[at], spans[at + 1], spans[at + 2]];
      if (this.hidden.has("k" + kind) || end < x.domain[0] || begin > x.domain[1]) continue;
      const a = Math.max(x.place(begin), left), b = Math.max(Math.min(x.place(end), right), a + 0.7), y = top + row * high + 1;
      paths[kind].push(`M${round(a)} ${round(y)}H${round(b)}V${round(y + high - 3)}H${round(a)}z`);
      const told = [[kinds[kind][0], kinds[kind][2] ? -3 : kinds[kind][1], seconds(end - begin)], ["begins at", null, lanesTime(begin, Math.max(end - begin, least))]];
      const box = { x: round(a), y: round(y), width: round(b - a), height: round(high - 3) };
      this.groups.push({ places: [[(a + b) / 2, y + high / 2]], head: label, rows: told, row, from: a, to: b, box });
    }
  });
  kinds.forEach(([, style, stall], kind) => {
    const look = stall ? { class: "stall", fill: `url(#${id})` } : { class: `span c${style % 7}${Math.floor(style / 7) % 2 ? " second" : ""}` };
    if (paths[kind].length) this.inner.append(draw("path", { ...look, d: paths[kind].join("") }));
  });
};

// The span below a place: of several, the one that is drawn last.
Chart.prototype.spanAt = function ([x, y]) {
  const { left, right, top, bottom } = this.box;
  if (x < left || x > right || y < top || y > bottom) return -1;
  const row = Math.floor(((y - top) / (bottom - 4 - top)) * this.spec.l[1].length);
  let best = -1, least = 3;
  this.groups.forEach((group, index) => {
    if (group.row !== row) return;
    const distance = Math.max(group.from - x, x - group.to, 0);
    if (distance <= least) [best, least] = [index, distance];
  });
  return best;
};

function hatching(id) {
  const pattern = draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(draw("path", { class: "stroke", d: "M3 0V6" }));
  return draw("defs", {}, pattern);
}
// Ticks with as many decimals as their distance needs: a zoomed timeline shows a part of a long time.
function lanesTicks(x) {
  const most = Math.max(2, Math.floor((x.range[1] - x.range[0]) / 90)), ticks = x.ticks(most);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : x.domain[1] - x.domain[0];
  const largest = Math.max(...x.domain.map(Math.abs));
  return ticks.map((tick) => [tick, tick === 0 ? "0" : lanesTime(tick, step * 3, largest)]);
}
// A time in the unit of its size, to a third of `step`.
function lanesTime(time, step, size = Math.abs(time)) {
  const [factor, unit] = timeUnit(Math.max(size, step));
  const decimals = Math.min(12, Math.max(0, Math.ceil(-Math.log10(Math.max(step, 1e-12) * factor) + 0.5)));
  return (time * factor).toFixed(decimals) + " " + unit;
}
