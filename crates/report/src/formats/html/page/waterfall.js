// How one value becomes another: a row for each term, which begins where the one above ends.
Chart.prototype.drawWaterfall = function () {
  const bars = this.spec.w, kind = this.spec.x[1], high = 30, bar = 20;
  const letters = Math.floor((this.width * 0.38) / 6.6), widest = Math.max(...bars.map(([, , , , value]) => value.length)) * 7 + 10;
  const left = Math.min(Math.max(...bars.map(([label]) => label.length)), letters) * 6.6 + 16, right = this.width - 8, top = 10, bottom = top + high * bars.length;
  this.box = { left, right, top, bottom };
  this.y = null;
  const all = bars.flatMap(([, , begin, end]) => [begin, end]), ends = [Math.min(0, ...all), Math.max(0, ...all)];
  const domain = ends[0] < ends[1] ? ends : [0, 1];
  const x = (this.x = new Scale([this.spec.x[0], kind, "linear"], [], [], (this.zoom && this.zoom.x) || domain).between(left, right - widest));
  this.size(bottom + 44);
  this.across(spaced(x).map((tick) => [tick, x.label(tick)]), bottom);
  this.clip();
  const inside = (place) => Math.min(Math.max(place, left), right);
  bars.forEach(([label, style, begin, end, value], index) => {
    const middle = top + (index + 0.5) * high, from = Math.min(x.place(begin), x.place(end)), to = Math.max(x.place(begin), x.place(end), from + 1);
    const box = { x: round(inside(from)), y: round(middle - bar / 2), width: round(Math.max(inside(to) - inside(from), 1)), height: bar };
    this.inner.append(draw("rect", { class: `span c${style % 7}`, ...box }));
    if (index + 1 < bars.length) this.inner.append(draw("path", { class: "link", d: `M${round(x.place(end))} ${middle + bar / 2}v${high - bar}` }));
    const short = label.length > letters ? label.slice(0, letters - 1) + "…" : label;
    this.text(left - 8, middle + 4, short, { class: "tick end" });
    this.text(inside(to) + 6, middle + 4, value, { class: "tick" });
    const rows = [["value", style, value]];
    if (index > 0 && index + 1 < bars.length) rows.push(["up to here", null, quantity(end, kind)]);
    this.groups.push({ places: [[inside(to), middle]], head: label, rows, box });
  });
  if (x.place(0) >= left && x.place(0) <= right) this.svg.append(draw("path", { class: "base", d: `M${round(x.place(0))} ${top}V${bottom}` }));
};
