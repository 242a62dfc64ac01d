// The cells of a matrix chart.
const GOOD = [8, 81, 156], NEITHER = [232, 232, 234], BAD = [166, 54, 3];

Chart.prototype.drawMatrix = function () {
  const [heads, columns, values, kind, shares] = this.matrix;
  const inside = (scale, at) => !scale || (at + 0.5 >= scale[0] && at - 0.5 <= scale[1]);
  const rows = heads.map((_, at) => at).filter((at) => inside(this.zoom && this.zoom.y, at));
  const across = columns.map((_, at) => at).filter((at) => inside(this.zoom && this.zoom.x, at));
  // Names of hosts may be longer than the page is wide: the cells keep most of it, and what hovers has the whole name.
  const most = Math.max(4, Math.floor((this.width * 0.3) / 7));
  const named = heads.map((head) => (head.length > most ? head.slice(0, most - 1) + "…" : head));
  const left = 14 + Math.max(...named.map((head) => head.length)) * 7;
  const wide = Math.min(88, (this.width - left - 8) / Math.max(across.length, 1)), high = Math.min(34, Math.max(14, wide * 0.55));
  // Heads that would touch stand on two lines in turn; if they still would, only every k-th is there.
  const widest = Math.max(...columns.map((column) => column.length)) * 6.6 + 6, lines = widest > wide ? 2 : 1, every = Math.ceil(widest / (wide * lines));
  const top = 25 + 15 * lines, right = left + wide * across.length, bottom = top + high * rows.length;
  this.box = { left, right, top, bottom };
  const scale = (from, to, first, last) => ({ at: (place) => first - 0.5 + ((place - from) / (to - from)) * (last - first + 1) });
  this.x = across.length > 1 || this.zoom ? scale(left, right, across[0], across[across.length - 1]) : null;
  this.y = scale(top, bottom, rows[0], rows[rows.length - 1]);
  this.size(bottom + 10);
  this.inner = draw("g", {});
  this.svg.append(this.inner);
  this.text(left + (right - left) / 2, 13, this.spec.x[0], { class: "title middle" });
  across.forEach((column, at) => at % every === 0 && this.text(left + (at + 0.5) * wide, top - 6 - 15 * (lines - 1 - (at / every) % lines), columns[column], { class: "tick middle" }));
  rows.forEach((row, down) => {
    this.text(left - 7, top + (down + 0.5) * high + 4, named[row], { class: "tick end" });
    across.forEach((column, at) => {
      const value = values[row][column];
      if (value === null || value === undefined) return;
      const share = shares[row][column] || 0, text = quantity(value, kind), end = share < 0 ? GOOD : BAD;
      const part = NEITHER.map((from, place) => Math.round(from + (end[place] - from) * Math.abs(share)));
      const x = left + at * wide, y = top + down * high;
      this.inner.append(draw("rect", { x: round(x), y: round(y), width: round(wide - 1), height: round(high - 1), fill: `rgb(${part})` }));
      if (text.length * 6.6 + 6 <= wide) this.text(x + (wide - 1) / 2, y + high / 2 + 4, text, { class: "cell middle " + (Math.abs(share) > 0.55 ? "light" : "dark") });
      const head = `${this.spec.y[0]} ${heads[row]}, ${this.spec.x[0]} ${columns[column]}`;
      this.groups.push({ places: [[x + wide / 2, y + high / 2]], head, rows: [["value", -1, text]] });
    });
  });
};
