// Draws a Grafana dashboard from its own JSON and from what Prometheus answered to its panels: each
// panel at its gridPos, with the library that Grafana draws time series with. `board` is the
// dashboard, `answers` maps a panel's id to its series: { legend, points: [[seconds, value]] }.
// Leaves `drawn` with how many series of each panel have a value.
const COLOURS = ["#73BF69", "#F2CC0C", "#5794F2", "#FF780A", "#F2495C", "#8AB8FF", "#B877D9",
  "#FADE2A", "#37872D", "#FA6400", "#C4162A", "#1F60C4"];
const STATES = { green: "#56A64B", red: "#E02F44" };
const ROW_PX = 38, GAP_PX = 8, COLUMNS = 24;

function scaled(value, base, names) {
  let at = 0;
  while (Math.abs(value) >= base && at < names.length - 1) { value /= base; at += 1; }
  return `${Number(value.toPrecision(3))}${names[at]}`;
}
function seconds(value) {
  if (value === 0) return "0 s";
  if (Math.abs(value) < 1e-3) return `${Number((value * 1e6).toPrecision(3))} µs`;
  if (Math.abs(value) < 1) return `${Number((value * 1e3).toPrecision(3))} ms`;
  return value < 120 ? `${Number(value.toPrecision(3))} s` : `${(value / 60).toFixed(1)} mins`;
}
const UNITS = {
  short: (value) => scaled(value, 1000, ["", " K", " Mil"]),
  reqps: (value) => `${scaled(value, 1000, ["", " K"])} req/s`,
  s: seconds,
  bytes: (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
  percentunit: (value) => `${Number((value * 100).toPrecision(3))}%`,
};

function element(parent, kind, name, text = "") {
  const made = document.createElement(kind);
  made.className = name;
  made.textContent = text;
  parent.append(made);
  return made;
}

function drawStat(box, { fieldConfig: { defaults } }, [{ points }]) {
  const value = points.at(-1)[1];
  const { steps } = defaults.thresholds;
  const step = steps.findLast((one) => one.value === null || value >= one.value);
  box.style.background = STATES[step.color];
  box.classList.add("stat");
  element(box, "div", "value", UNITS[defaults.unit](value));
}

// What uPlot takes: the times, then a column of each series; stacked ones one upon the other.
function columnsOf(series, isStacked) {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].sort();
  const columns = series.map(({ points }) => {
    const values = new Map(points);
    return times.map((at) => values.get(at) ?? null);
  });
  if (isStacked) {
    columns.forEach((column, n) => column.forEach((value, at) => {
      column[at] = (value ?? 0) + (n > 0 ? columns[n - 1][at] : 0);
    }));
  }
  return [times, ...columns];
}

function drawTimes(box, { gridPos, fieldConfig: { defaults } }, series) {
  const { fillOpacity, stacking } = defaults.custom;
  const isStacked = stacking.mode === "normal";
  const legend = element(box, "div", "legend");
  series.forEach(({ legend: name }, n) => {
    const entry = element(legend, "span", "entry", name);
    entry.style.setProperty("--colour", COLOURS[n % COLOURS.length]);
  });
  const unit = UNITS[defaults.unit];
  const style = getComputedStyle(document.body);
  const axis = {
    stroke: style.color, font: "11px sans-serif", ticks: { show: false },
    grid: { stroke: style.getPropertyValue("--grid"), width: 1 },
  };
  const plot = element(box, "div", "plot");
  const fill = Math.round(fillOpacity * 2.55).toString(16).padStart(2, "0");
  const line = (_, n) => ({
    stroke: COLOURS[n % COLOURS.length], width: 1.2, points: { show: false }, spanGaps: true,
    fill: fillOpacity > 0 ? COLOURS[n % COLOURS.length] + fill : undefined,
  });
  new uPlot({
    width: box.clientWidth - 16,
    height: gridPos.h * ROW_PX - GAP_PX - 40 - legend.offsetHeight,
    legend: { show: false }, cursor: { show: false },
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
    scales: { y: { range: (_, low, high) => [defaults.min ?? low, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, space: 70, values: "{HH}:{mm}:{ss}" },
      { ...axis, size: 74, values: (_, values) => values.map(unit) }],
    series: [{}, ...series.map(line)],
    bands: isStacked ? series.slice(1).map((_, n) => ({ series: [n + 2, n + 1] })) : [],
  }, columnsOf(series, isStacked), plot);
}

function drawPanel(grid, panel) {
  const { x, y, w, h } = panel.gridPos;
  const box = element(grid, "section", panel.type);
  const column = grid.clientWidth / COLUMNS;
  Object.assign(box.style, {
    left: `${x * column}px`, top: `${y * ROW_PX}px`,
    width: `${w * column - GAP_PX}px`, height: `${h * ROW_PX - GAP_PX}px`,
  });
  element(box, "h2", "title", panel.title);
  if (panel.type === "row") return [];
  const series = answers[panel.id];
  ({ stat: drawStat, timeseries: drawTimes })[panel.type](box, panel, series);
  return [[panel.title, series.filter(({ points }) => points.length > 0).length]];
}

function draw() {
  const grid = document.querySelector("main");
  const ends = board.panels.map(({ gridPos: { y, h } }) => y + h);
  grid.style.height = `${Math.max(...ends) * ROW_PX}px`;
  window.drawn = Object.fromEntries(board.panels.flatMap((panel) => drawPanel(grid, panel)));
}
draw();
