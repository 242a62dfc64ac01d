// What the page's parts share: elements, and numbers as text in the spelling of the report.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const NONE = "-";

// An element of a page or, with a name space, of a picture. Text never becomes markup.
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  return filled(element, attributes, children);
}
function draw(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}
function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function thousands(value) {
  const digits = String(Math.abs(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return value < 0 ? "-" + digits : digits;
}
// Three significant digits: 0.143, 7.31, 72.0, 361, 2,170.
function threeDigits(value) {
  if (!Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const scientific = value.toExponential(2);
  const exponent = Number(scientific.split("e")[1]);
  if (exponent <= -5 || exponent > 14) return scientific.replace("e+", "e");
  if (exponent <= 2) return value.toFixed(2 - exponent);
  const step = 10 ** (exponent - 2);
  return thousands(Math.round(value / step) * step);
}
function timeUnit(value) {
  const size = Math.abs(value);
  if (size === 0 || size >= 0.9995) return [1, "s"];
  if (size < 1e-7) return [1e9, "ns"];
  return size < 0.9995e-3 ? [1e6, "us"] : [1e3, "ms"];
}
function seconds(value) {
  const [factor, unit] = timeUnit(value);
  return Number.isFinite(value) ? threeDigits(value * factor) + " " + unit : NONE;
}
function percent(share) {
  const value = share * 100, size = Math.abs(value);
  if (!Number.isFinite(value)) return NONE;
  if (size === 0) return "0%";
  if (size < 0.005) return "<0.01%";
  if (size < 0.995) return value.toFixed(2) + "%";
  if (size < 9.95) return value.toFixed(1) + "%";
  return size < 9999.5 ? value.toFixed(0) + "%" : threeDigits(value) + "%";
}
const BINARY = ["", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL = ["", "KB", "MB", "GB", "TB", "PB", "EB"];
// The exact number where a unit divides it into at most four digits, else three digits and a binary unit.
function bytes(value) {
  for (const [units, base] of [[BINARY, 1024], [DECIMAL, 1000]]) {
    for (let power = 6; power > 0; power--) {
      const number = value / base ** power;
      if (number >= 1 && Number.isInteger(number)) {
        if (number < 10000) return number + " " + units[power];
        break;
      }
    }
  }
  if (value < 1024) return value + " B";
  const power = Math.min(6, Math.floor(Math.log2(value) / 10));
  return threeDigits(value / 1024 ** power) + " " + BINARY[power];
}
// A cell's number by the format of its column.
function shown(value, format) {
  if (value === null || value === undefined) return NONE;
  if (Array.isArray(value)) return value[1];
  switch (format) {
    case "count": return value < 10000 ? String(value) : thousands(value);
    case "number": return threeDigits(value);
    case "bytes": return bytes(value);
    case "seconds": return seconds(value);
    case "share": return percent(value);
    case "change": return (value < 0 ? "" : "+") + percent(value);
    default: return String(value);
  }
}
// A value of a chart's axis.
function quantity(value, kind) {
  return kind === "bytes" ? bytes(Math.round(value)) : kind === "share" ? percent(value) : kind === "seconds" ? seconds(value) : kind === "count" ? thousands(Math.round(value)) : threeDigits(value);
}
// Cells as a line of CSV, as the report's files have them: a text that a spreadsheet would run gets an apostrophe.
function csvLine(cells) {
  const field = (value) => {
    let text = value === null || value === undefined ? "" : String(Array.isArray(value) ? value[0] : value);
    if (/^[=+\-@\t\r]/.test(text) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) text = "'" + text;
    return /[",\n\r]|^ | $/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return cells.map(field).join(",") + "\n";
}
// Copies a text, and says on the button for a while what became of it.
async function copyBy(button, text, done) {
  const name = (button.dataset.name ||= button.textContent);
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
  }
  button.textContent = copied ? done : "The browser does not allow it";
  setTimeout(() => (button.textContent = name), 2000);
}
// Times that the report packed into two letters each.
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
function unpack(text, median) {
  const scale = 2047 / Math.asinh(1400), times = [];
  for (let at = 0; text && at + 1 < text.length; at += 2) {
    const code = LETTERS.indexOf(text[at]) * 64 + LETTERS.indexOf(text[at + 1]);
    times.push(median * Math.exp(Math.sinh((code - 2048) / scale) / 200));
  }
  return times;
}
