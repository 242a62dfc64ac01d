// An axis: from values to places, and its ticks.
class Scale {
  // `values` must be seen, `ends` of intervals as far as they do not squeeze them.
  constructor([title, kind, spread], values, ends, zoom) {
    Object.assign(this, { title, kind, spread });
    const fits = (value) => Number.isFinite(value) && (spread !== "log" || value > 0);
    const sorted = [...new Set(values.filter(fits))].sort((a, b) => a - b);
    this.steps = sorted;
    const [low, high] = sorted.length ? [sorted[0], sorted[sorted.length - 1]] : [1, 10];
    this.domain = zoom || this.whole(low, high, ends.filter(fits));
  }
  whole(low, high, ends) {
    if (this.spread === "steps") return [-0.6, this.steps.length - 0.4];
    const span = Math.max(high - low, 0.1 * Math.abs(high));
    if (this.spread === "log") {
      const a = Math.log10(Math.max(Math.min(low, ...ends), low / 4)), b = Math.log10(Math.min(Math.max(high, ...ends), high * 4));
      const missing = Math.max(0, Math.log10(this.kind === "bytes" ? 4 : 6) - (b - a)) / 2;
      const pad = (this.kind === "bytes" ? 0.02 : 0.05) * (b - a) + missing;
      return [a - pad, b + pad];
    }
    const bottom = Math.max(Math.min(low, ...ends), low - 3 * span), top = Math.min(Math.max(high, ...ends), high + 3 * span);
    if (this.spread === "zero") return [Math.min(0, bottom), top * 1.06 || 1];
    const pad = Math.max(top - bottom, 0.02 * Math.abs(top)) * 0.08 || 1;
    return [low >= 0 ? Math.max(0, bottom - pad) : bottom - pad, top + pad];
  }
  between(from, to) {
    this.range = [from, to];
    return this;
  }
  measure(value) {
    if (this.spread === "log") return value > 0 ? Math.log10(value) : NaN;
    if (this.spread === "steps") {
      const at = this.steps.indexOf(value);
      return at < 0 ? NaN : at;
    }
    return value;
  }
  place(value) {
    const [low, high] = this.domain, [from, to] = this.range;
    return from + ((this.measure(value) - low) / (high - low)) * (to - from);
  }
  clamped(value) {
    const place = this.place(value), [from, to] = this.range;
    return Number.isNaN(place) ? from : Math.min(Math.max(place, Math.min(from, to)), Math.max(from, to));
  }
  // The measure at a place: what zooming selects.
  at(place) {
    const [low, high] = this.domain, [from, to] = this.range;
    return low + ((place - from) / (to - from)) * (high - low);
  }
  ticks(most) {
    const [low, high] = this.domain;
    if (this.spread === "steps") {
      const seen = this.steps.filter((_, at) => at >= low && at <= high);
      const every = Math.ceil(seen.length / Math.max(most, 2));
      return seen.filter((_, at) => at % every === 0);
    }
    if (this.spread === "log") return this.kind === "bytes" ? powersOfTwo(low, high, most) : logTicks(low, high, most);
    const rough = (high - low) / Math.max(most, 2);
    const base = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((factor) => factor * base).find((step) => step >= rough * 0.999) || rough;
    if (this.kind === "bytes") step = 2 ** Math.ceil(Math.log2(Math.max(rough, 1)));
    if (this.kind === "count") step = Math.max(step, 1);
    const ticks = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-9); at++) ticks.push(at * step);
    return ticks;
  }
  label(value) {
    if (this.names) return this.names[value];
    if (this.kind === "bytes") return bytes(Math.round(value));
    if (value === 0) return "0";
    if (this.kind === "share") return percent(value);
    if (this.kind === "count" && Number.isInteger(value)) return value < 10000 ? String(value) : thousands(value);
    const round = (text) => (text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text);
    if (this.kind !== "seconds") return round(threeDigits(value));
    const largest = this.spread === "log" ? value : Math.max(...this.domain.map(Math.abs));
    const [factor, unit] = timeUnit(largest);
    return round(threeDigits(value * factor)) + " " + unit;
  }
}
function powersOfTwo(low, high, most) {
  const first = Math.ceil(low / Math.log10(2) - 1e-9), last = Math.floor(high / Math.log10(2) + 1e-9);
  const step = [1, 2, 5, 10, 20].find((step) => (last - first) / step + 1 <= most) || 40;
  const ticks = [];
  for (let power = first; power <= last; power++) if (power % step === 0) ticks.push(2 ** power);
  return ticks;
}
function logTicks(low, high, most) {
  const grids = [[[1, 1.5, 2, 3, 4, 5, 7], 1], [[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 3]];
  let ticks = [];
  for (const [factors, every] of grids) {
    ticks = [];
    for (let decade = Math.floor(low); decade <= Math.ceil(high); decade++) {
      if (decade % every !== 0) continue;
      for (const factor of factors) {
        const value = Number(factor + "e" + decade), at = Math.log10(value);
        if (at >= low && at <= high) ticks.push(value);
      }
    }
    if (ticks.length <= most) break;
  }
  return ticks;
}
