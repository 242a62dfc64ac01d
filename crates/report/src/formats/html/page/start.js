// Starts the page: charts when they come near, tables at once, the switch of light and dark.
const DATA = JSON.parse(document.getElementById("data").textContent);

(function start() {
  const root = document.documentElement;
  const theme = document.getElementById("theme"), names = { "": "auto", light: "light", dark: "dark" };
  const next = { "": "light", light: "dark", dark: "" };
  const say = () => (theme.textContent = "Colours: " + names[root.dataset.theme || ""]);
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = next[root.dataset.theme || ""];
    say();
  });
  say();

  // A link to a folded section unfolds it.
  const unfold = () => {
    const fold = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)))?.querySelector(":scope > details.one");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();

  // The contents, which stay on the screen, name the part that is read.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const read = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach(({ target }) => {
    const link = links.get(target.id), list = link.closest("ul");
    list.querySelectorAll("[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
    link.setAttribute("aria-current", "true");
    list.scrollLeft = link.offsetLeft - list.clientWidth / 2;
  }), { rootMargin: "-60px 0px -80% 0px" });
  document.querySelectorAll("section[id]").forEach((section) => links.has(section.id) && read.observe(section));

  document.querySelectorAll("[data-section]").forEach((place) => new CaseTable(place, DATA.sections[place.dataset.section], DATA));
  document.querySelectorAll("[data-table]").forEach((place) => {
    const rows = DATA.tables[place.dataset.table], name = place.querySelector("h4").textContent;
    const copied = `Copied ${thousands(rows.length - 1)} ${rows.length === 2 ? "row" : "rows"}`;
    const button = make("button", { type: "button", class: "copy", "aria-label": `Copy as CSV: ${name}`, onclick: () => copyBy(button, rows.map(csvLine).join(""), copied) }, "Copy as CSV");
    place.append(button);
  });
  const figures = [...document.querySelectorAll("[data-chart]")];
  const begin = (figure) => {
    if (!figure.chart) figure.chart = new Chart(figure, DATA.charts[figure.dataset.chart]);
  };
  const watch = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => {
    watch.unobserve(one.target);
    begin(one.target);
  }), { rootMargin: "300px" });
  figures.forEach((figure) => watch.observe(figure));
  document.querySelectorAll("[data-copy]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      await navigator.clipboard.writeText(text).then(() => (button.textContent = "Copied"), () => (button.textContent = "The browser does not allow it"));
    });
  });
  root.dataset.ready = "";
})();
