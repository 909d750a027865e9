"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("screen and (prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");
  const hidden = new Set(); // "section/group" of every hidden line
  const axes = {}; // section → the x axis of its learning curves

  const section = (id) => id.split("-")[0];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clear = (hex) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},0.11)`;

  function traces(id) {
    const axis = axes[section(id)] || "rounds";
    return figures[id].data.flatMap((trace) => {
      const { group, fixed, x } = trace.meta;
      const paint = colour(`--${section(id)}-${group}`);
      const missing = x !== undefined && x[axis] === undefined;
      const painted = { ...trace, visible: !missing && (fixed || !hidden.has(`${section(id)}/${group}`)) };
      if (x !== undefined) painted.x = missing ? [] : x[axis];
      painted.line = { ...trace.line, color: paint };
      painted.marker = { ...trace.marker, color: paint, line: { ...trace.marker.line, color: paint } };
      return trace.customdata ? [band(painted, paint), painted] : [painted];
    });
  }

  // The area between the minimum and the maximum over the seeds, as one closed line.
  function band({ x, customdata, visible }, paint) {
    const around = [...customdata.map((pair) => pair[1]), ...customdata.map((pair) => pair[0]).reverse()];
    return {
      type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", line: { width: 0, color: paint },
      fillcolor: clear(paint), visible, x: [...x, ...[...x].reverse()], y: around,
    };
  }

  function layout(id) {
    const { axes: titles, layout: own } = figures[id];
    const ink = colour("--ink"), rule = colour("--rule");
    const axis = { gridcolor: rule, linecolor: rule, tickfont: { color: colour("--soft") } };
    const whole = {
      height: 320, margin: { l: 56, r: 12, t: 8, b: 44 }, showlegend: false, hovermode: "closest",
      dragmode: coarse.matches ? false : "zoom", // on a phone a finger moves the page
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: rule, font: { color: ink }, namelength: -1 },
      ...own,
      xaxis: { ...own.xaxis, ...axis }, yaxis: { ...own.yaxis, ...axis },
    };
    if (titles) whole.xaxis.title = { text: titles[axes[section(id)] || "rounds"] || titles.rounds };
    return whole;
  }

  // A4 and Letter have room for 186 mm; on a screen a figure is as wide as its place.
  let paper = false;
  const width = (plot) => (paper ? { width: plot.closest(".small") ? 280 : 640 } : { autosize: true, width: undefined });

  const config = { responsive: true, displayModeBar: false };
  const drawn = new Set();

  function draw(plot) {
    const id = plot.dataset.figure;
    drawn.add(plot);
    Plotly.react(plot, traces(id), { ...layout(id), ...width(plot) }, config);
  }

  const plots = [...document.querySelectorAll(".plot")];
  const redraw = (which) => [...drawn].filter((plot) => section(plot.dataset.figure) === which).forEach(draw);

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const { section: which, group } = button.dataset;
      const line = `${which}/${group}`;
      if (!hidden.delete(line)) hidden.add(line);
      // Every legend of the section shows the same state.
      for (const twin of document.querySelectorAll(`.legend button[data-section="${which}"][data-group="${group}"]`)) {
        twin.setAttribute("aria-pressed", String(!hidden.has(line)));
      }
      redraw(which);
    });
  }
  for (const curves of document.querySelectorAll("[data-axes]")) {
    curves.addEventListener("change", (event) => {
      axes[curves.dataset.axes] = event.target.value;
      redraw(curves.dataset.axes);
    });
  }
  dark.addEventListener("change", () => drawn.forEach(draw));

  // Paper is white and narrow, and has also what was never scrolled to.
  function onPaper(is) {
    document.documentElement.classList.toggle("paper", is);
    paper = is;
    plots.filter((plot) => is || drawn.has(plot)).forEach(draw);
  }
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));

  // A figure is drawn shortly before it scrolls into view, so that a long page opens at once.
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) {
        near.unobserve(target);
        if (!drawn.has(target)) draw(target);
      }
    }
  }, { rootMargin: "900px" });
  plots.forEach((plot) => near.observe(plot));
})();
