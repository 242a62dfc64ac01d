// Opens every page and picture of a folder in a real browser, and leaves each alone. Called by `cargo xtask browser`:
// node silent.mjs MODULES CHROMIUM FOLDER
// Prints what a page loads, where it goes and what of it could load; exit code 1: one did.
import { createRequire } from "node:module";
import { readdirSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, executablePath, folder] = process.argv.slice(2);
const { chromium } = createRequire(join(resolve(modules), "node_modules", "x"))("playwright-core");
const files = readdirSync(folder, { recursive: true }).filter((name) => /\.(html|svg)$/.test(name)).map((name) => resolve(folder, name));
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

// What follows an address by itself, and links that lead to another scheme or host.
function leads() {
  const loading = "meta[http-equiv=refresh], base, form, iframe, object, embed, link, img, image, use, input:not([type=search]), script[src], [onload], [onerror], [onfocus]";
  const away = [...document.querySelectorAll("a[href]")].filter((link) => new URL(link.href, location.href).protocol !== "file:");
  return [...document.querySelectorAll(loading), ...away].map((element) => element.outerHTML.slice(0, 200));
}

let failed = 0;
async function left(file) {
  const page = await browser.newPage();
  const own = pathToFileURL(file).href;
  const heard = [];
  page.on("request", (request) => request.url() !== own && heard.push(request.url()));
  page.on("dialog", (dialog) => dialog.dismiss());
  try {
    await page.goto(own);
    await page.waitForTimeout(file.endsWith(".svg") ? 200 : 1000);
    if (page.url() !== own) heard.push(`it is ${page.url()} now`);
    heard.push(...(await page.evaluate(leads)));
  } catch (error) {
    heard.push(String(error));
  }
  await page.close();
  if (heard.length > 0) {
    failed += 1;
    console.log(`FAILED  ${relative(folder, file)}: ${heard.slice(0, 3).join(" | ")}`);
  }
}

const waiting = [...files];
const worker = async () => {
  while (waiting.length > 0) await left(waiting.pop());
};
await Promise.all(Array.from({ length: 6 }, worker));
await browser.close();
const pages = files.filter((name) => name.endsWith(".html")).length;
console.log(`${pages} pages, ${files.length - pages} pictures, ${failed} failed`);
process.exit(failed > 0 || files.length === 0 ? 1 : 0);
