"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");
  const hidden = new Set(); // "section/group" of every hidden line
  const axes = {}; // section → the x axis of its learning curves

  const section = (id) => id.split("-")[0];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clear = (hex) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},0.11)`;

  function traces(id) {
    const axis = axes[section(id)] || "rounds";
    return figures[id].data.map((trace) => {
      const { group, band, x } = trace.meta;
      const paint = colour(`--c${group % 8}`);
      const missing = x !== undefined && x[axis] === undefined;
      const painted = { ...trace, visible: !missing && !hidden.has(`${section(id)}/${group}`) };
      if (x !== undefined) painted.x = missing ? [] : x[axis];
      if (band) painted.fillcolor = clear(paint);
      painted.line = { ...trace.line, color: paint };
      if (trace.marker) painted.marker = { ...trace.marker, color: paint, line: { ...trace.marker.line, color: paint } };
      return painted;
    });
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

  const config = { responsive: true, displayModeBar: false };

  function draw(plot) {
    const id = plot.dataset.figure;
    Plotly.react(plot, traces(id), layout(id), config);
  }

  const plots = [...document.querySelectorAll(".plot")];
  const redraw = (which) => plots.filter((plot) => section(plot.dataset.figure) === which).forEach(draw);

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
  dark.addEventListener("change", () => plots.forEach(draw));
  plots.forEach(draw);
})();
