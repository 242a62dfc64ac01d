// Opens reports in a real browser and uses them as a reader does. Called by `cargo xtask browser`:
// node report.mjs MODULES CHROMIUM PICTURES SMALL LARGE...
// MODULES holds playwright-core and axe-core. Prints a line for each check; exit code 1: one failed.
import { createRequire } from "node:module";
import { readFileSync, mkdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, executablePath, pictures, ...pages] = process.argv.slice(2);
const load = createRequire(join(resolve(modules), "node_modules", "x"));
const { chromium } = load("playwright-core");
const axe = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(pictures, { recursive: true });

let failed = 0;
function check(name, holds, told = "") {
  if (!holds) failed += 1;
  console.log(`${holds ? "ok    " : "FAILED"}  ${name}${told === "" ? "" : `: ${told}`}`);
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

// A page that has nothing to complain of: each request beside that of the file, and each word on the console, counts.
async function opened(file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const heard = { requests: [], words: [] };
  const own = pathToFileURL(resolve(file)).href;
  page.on("request", (request) => request.url() !== own && heard.requests.push(request.url()));
  page.on("console", (message) => heard.words.push(message.text()));
  page.on("pageerror", (error) => heard.words.push(String(error)));
  const begun = Date.now();
  await page.goto(own);
  if (options.javaScriptEnabled !== false) await page.waitForSelector("html[data-ready]", { timeout: 60000 });
  return { page, context, heard, ready: Date.now() - begun };
}
const silent = (heard) => [...heard.requests, ...heard.words].slice(0, 3).join(" | ");

async function whole(page) {
  await page.evaluate(() => document.querySelectorAll("details.one").forEach((fold) => (fold.open = true)));
  const steps = await page.evaluate(() => Math.ceil(document.body.scrollHeight / 600));
  for (let step = 0; step <= steps; step++) {
    await page.evaluate((at) => scrollTo(0, at * 600), step);
    await page.waitForTimeout(40);
  }
  await page.evaluate(() => scrollTo(0, 0));
}

async function used(file) {
  const name = basename(dirname(resolve(file)));
  const { page, context, heard, ready } = await opened(file);
  await whole(page);
  check(`${name}: no request`, heard.requests.length === 0, heard.requests.slice(0, 3).join(" "));
  check(`${name}: nothing on the console`, heard.words.length === 0, silent(heard));
  const charts = await page.locator("figure[data-chart]").count();
  const drawn = await page.locator("figure[data-drawn] .plot > svg[tabindex]").count();
  check(`${name}: every chart is drawn`, charts === drawn, `${drawn} of ${charts}, ready after ${ready} ms`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const large = await page.evaluate(() => [...document.querySelectorAll("figure:not(.whole)")].filter((figure) => figure.clientWidth > 700).length);
  check(`${name}: no chart is drawn larger than it is read`, large === 0, `${large} are`);
  check(`${name}: as wide as the window`, wide <= 0, wide > 0 ? `${wide} px too wide` : "");
  await page.screenshot({ path: join(pictures, `${name}-light.png`), fullPage: true });

  await numbered(page, name);
  if (charts > 0) await charted(page, name);
  await tabled(page, name);
  await accessible(page, name, "light");

  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  check(`${name}: dark`, dark === "rgb(22, 24, 29)", dark);
  await accessible(page, name, "dark");
  await page.screenshot({ path: join(pictures, `${name}-dark.png`), fullPage: true });
  await page.locator("#theme").click();
  const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  check(`${name}: the switch makes it light`, light === "rgb(255, 255, 255)", light);

  await page.setViewportSize({ width: 400, height: 800 });
  await whole(page);
  const narrow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(`${name}: fits a telephone`, narrow <= 0, narrow > 0 ? `${narrow} px too wide` : "");
  await numbered(page, `${name} on a telephone`);
  const broken = await page.evaluate(() => [...document.querySelectorAll("table .also")].filter((words) => words.scrollWidth > words.clientWidth + 1 || words.clientWidth < 40).map((words) => words.textContent).slice(0, 3));
  check(`${name}: words below a cell are whole on a telephone`, broken.length === 0, broken.join(" | "));
  await page.screenshot({ path: join(pictures, `${name}-narrow.png`), fullPage: true });

  await page.setViewportSize({ width: 1000, height: 800 });
  await page.emulateMedia({ media: "print", colorScheme: "light" });
  const tools = await page.locator(".tools").first().isVisible().catch(() => false);
  check(`${name}: print has no controls`, !tools);
  const pdf = await page.pdf({ path: join(pictures, `${name}.pdf`), format: "A4" });
  check(`${name}: prints`, pdf.length > 10000, `${pdf.length} bytes`);
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.injected = true";
    document.body.append(script);
    return window.injected === true;
  });
  check(`${name}: the policy forbids another script`, !ran);
  await context.close();

  await without(file, name);
}

// Time, interval and wrong elements of every table of cases are seen without scrolling sideways; no tile is too narrow.
async function numbered(page, name) {
  const cut = await page.evaluate(() => {
    const seen = (head) => head.getBoundingClientRect().right <= head.closest(".wide").getBoundingClientRect().right + 1;
    const heads = [...document.querySelectorAll("table.cases th")].filter((head) => /^(time|step|±95%|wrong)/.test(head.textContent.trim()));
    return heads.filter((head) => !seen(head)).map((head) => head.textContent);
  });
  check(`${name}: time, interval and wrong are seen`, cut.length === 0, cut.join(" "));
  const tiles = await page.evaluate(() => [...document.querySelectorAll(".tile, .tile dd")].filter((tile) => tile.scrollWidth > tile.clientWidth + 1).map((tile) => tile.textContent));
  check(`${name}: tiles hold their numbers`, tiles.length === 0, tiles.join(" | "));
}

// Hover, arrow keys, zoom, series and scale of the first chart with a line.
async function charted(page, name) {
  const all = page.locator("figure[data-chart]");
  const number = await all.count();
  let switched = false, toggled = false;
  for (let at = 0; at < number; at++) {
    const figure = all.nth(at);
    await figure.scrollIntoViewIfNeeded();
    const svg = figure.locator(".plot > svg");
    const box = await svg.boundingBox();
    await svg.hover({ position: { x: box.width * 0.45, y: box.height * 0.45 } });
    const tip = figure.locator(".tip");
    await svg.focus();
    await page.keyboard.press("ArrowRight");
    const said = await figure.locator("[aria-live]").textContent();
    const shown = await tip.isVisible();
    const over = await tip.evaluate((box) => [...box.querySelectorAll("*"), box].some((part) => part.getBoundingClientRect().right > box.getBoundingClientRect().right + 1));
    check(`${name}: chart ${at + 1} keeps its values in their box`, !over);
    check(`${name}: chart ${at + 1} tells its values`, shown && /\d/.test(said), said.slice(0, 80));
    const paths = () => svg.evaluate((element) => element.querySelector("g[clip-path], g:not(.cursor)").outerHTML.length);
    const before = await paths();
    await page.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.5);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.52, { steps: 4 });
    await page.mouse.up();
    const reset = figure.locator("button.reset");
    if (await reset.isVisible()) {
      const zoomed = await svg.evaluate((element) => element.outerHTML);
      await reset.click();
      check(`${name}: chart ${at + 1} zooms and comes back`, zoomed.length > 0 && (await paths()) === before);
    } else {
      check(`${name}: chart ${at + 1} zooms`, (await figure.locator("rect[fill]").count()) > 0, "no reset button");
    }
    const scale = figure.locator("button.scale");
    if (!switched && (await scale.count())) {
      const word = await scale.textContent();
      await scale.click();
      check(`${name}: log and linear`, (await scale.textContent()) !== word && (await svg.count()) === 1);
      switched = true;
    }
    const entries = figure.locator(".legend button");
    if (!toggled && (await entries.count()) > 1) {
      const outline = await svg.evaluate((element) => element.outerHTML.length);
      await entries.first().click();
      const less = await svg.evaluate((element) => element.outerHTML.length);
      check(`${name}: a series goes and comes back`, less < outline && (await entries.first().getAttribute("aria-pressed")) === "false");
      await entries.first().click();
      toggled = true;
    }
  }
}

// Sort, filter, trials and copy of the first table.
async function tabled(page, name) {
  const place = page.locator("[data-section]").first();
  const rows = place.locator("table.cases > tbody > tr");
  const before = await rows.count();
  const heads = place.locator("th[aria-sort] button");
  const at = await heads.evaluateAll((all) => all.findIndex((one) => one.textContent.startsWith("time")));
  if (at >= 0) {
    await heads.nth(at).click();
    await heads.nth(at).click();
    const sorted = await place.locator("th[aria-sort]").nth(at).getAttribute("aria-sort");
    const values = await page.evaluate(([column]) => {
      const table = document.querySelector("[data-section] table.cases");
      const unit = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };
      const cells = [...table.tBodies[0].rows].map((row) => row.cells[column + 1].textContent).filter((text) => text !== "-");
      return cells.map((text) => parseFloat(text.replace(/,/g, "")) * unit[text.split(" ")[1]]);
    }, [at]);
    const falls = values.every((value, index) => index === 0 || value <= values[index - 1] * 1.0001);
    check(`${name}: sorts`, sorted === "descending" && falls, `${values.length} times`);
  }
  const filter = place.locator("input[type=search]");
  await filter.fill("no such case anywhere");
  const none = await rows.allTextContents();
  await filter.fill("");
  check(`${name}: filters`, none.length === 1 && /No case/.test(none[0]) && (await rows.count()) === before);
  const open = place.locator("button.open").first();
  if (await open.count()) {
    await open.focus();
    await page.keyboard.press("Enter");
    const detail = await place.locator("tr.detail").count();
    check(`${name}: a row opens its trials`, detail === 1 && (await open.getAttribute("aria-expanded")) === "true");
    await page.screenshot({ path: join(pictures, `${name}-open.png`) });
    await page.keyboard.press("Enter");
    check(`${name}: and closes`, (await place.locator("tr.detail").count()) === 0);
  }
}

async function accessible(page, name, scheme) {
  await page.evaluate(axe).catch(() => null);
  const known = await page.evaluate(() => typeof window.axe);
  if (known !== "object") return check(`${name}: axe-core runs (${scheme})`, false, known);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  const told = serious.map((one) => `${one.id} (${one.nodes.length}: ${one.nodes[0].target} ${one.nodes[0].failureSummary.split("\n")[1] || ""})`);
  check(`${name}: axe-core finds nothing serious (${scheme})`, serious.length === 0, told.join("; "));
}

// Without JavaScript all is there: pictures, tables, no control that does nothing. Its cells say the same as the script's.
async function without(file, name) {
  const scripted = await opened(file);
  const cells = (page) => page.locator("[data-section]").first().evaluate((place) => [...place.querySelectorAll("tbody td")].map((cell) => cell.textContent));
  const more = scripted.page.locator("button.more").first();
  while (await more.isVisible()) await more.click();
  const said = new Set(await cells(scripted.page));
  await scripted.context.close();
  const { page, context, heard } = await opened(file, { javaScriptEnabled: false });
  const charts = await page.locator("figure[data-chart]").count();
  const static_ = await page.locator("figure .plot > svg[role=img]").count();
  check(`${name}: charts without JavaScript`, charts === static_, `${static_} of ${charts}`);
  const table = await page.locator("[data-section] table").count();
  const buttons = await page.locator("button:visible").count();
  check(`${name}: tables and no dead buttons without JavaScript`, buttons === 0 && (table > 0 || charts === 0), `${table} tables`);
  check(`${name}: nothing on the console without JavaScript`, silent(heard) === "", silent(heard));
  await page.screenshot({ path: join(pictures, `${name}-static.png`), fullPage: true });
  await context.close();
  const plain = await opened(file, { javaScriptEnabled: false });
  const texts = await plain.page.locator("[data-section]").first().locator("table").first().locator("tbody td").allTextContents().catch(() => []);
  const other = texts.filter((text) => text.trim() && !said.has(text));
  check(`${name}: the same numbers with and without JavaScript`, other.length === 0, other.slice(0, 5).join(" | "));
  await plain.context.close();
}

const [small, large] = pages.reduce(([few, many], page) => (/large/.test(basename(dirname(resolve(page)))) ? [few, [...many, page]] : [[...few, page], many]), [[], []]);
for (const page of small) await used(page);
for (const file of large) {
  const name = basename(dirname(resolve(file)));
  const { page, context, heard, ready } = await opened(file);
  const begun = Date.now();
  await page.locator("input[type=search]").first().fill("64 KiB");
  const answered = Date.now() - begun;
  const bytes = statSync(file).size;
  check(`${name}: ready and silent`, silent(heard) === "" && ready < 20000, `${ready} ms, filter after ${answered} ms, ${bytes} bytes`);
  await page.screenshot({ path: join(pictures, `${name}.png`) });
  await context.close();
}
await browser.close();
console.log(failed === 0 ? "all checks passed" : `${failed} checks FAILED`);
process.exit(failed === 0 ? 0 : 1);
