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

  document.querySelectorAll("[data-section]").forEach((place) => new CaseTable(place, DATA.sections[place.dataset.section], DATA));
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
