// Timeline: one lane for each unit, one bar for each instruction.

import { count, element, layerClass, operator, percent } from "./colours.js";

const LANE = 40;
const BAR = 28;
const AXIS = 24;
const SPACE = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

function shape(name, attributes, text = "") {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

// Bars that are wide enough leave a gap to the next.
const widthOf = (width) => (width > 4 ? width - 1 : Math.max(1.5, width));

export class Timeline {
  constructor(core) {
    this.core = core;
    this.counters = null;
    byId("zoom").addEventListener("input", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(byId("time"));
    this.table();
    this.measured(null, null);
  }

  get zoom() {
    return 2 ** Number(byId("zoom").value);
  }

  // Counters of the RTL, by unit, where the run was counted.
  measured(cycles, counters) {
    const { timeline } = this.core;
    const lead = `Estimate for one drawing, ${count(timeline.cycles)} cycles.`;
    const counted = cycles ? ` The core counted ${count(cycles)}.` : "";
    byId("time-lead").textContent =
      `${lead}${counted} A bar is an instruction, its colour the layer.`;
    const texts = timeline.units.map(({ name, busy }) => {
      const known = counters?.[name]?.busy;
      const share = known === undefined ? busy / timeline.cycles : known / cycles;
      return [name, percent(share)];
    });
    byId("lane-names").replaceChildren(...texts.map(([name, share]) =>
      element("div", {}, name, element("span", { textContent: share }))));
    const kind = counters ? "measured" : "estimated";
    byId("units").textContent = `Busy, ${kind}: ${texts.map((each) => each.join(" ")).join(", ")}.`;
  }

  table() {
    const rows = this.core.timeline.layers.map((layer, n) => {
      const chip = element("span", { className: `chip ${layerClass(n)}`, textContent: n + 1 });
      const cells = [layer.macs, layer.cycles, layer.bound].map((number) =>
        element("td", { className: "number", textContent: count(number) }));
      return element("tr", {}, element("td", {}, chip),
        element("td", { textContent: operator(layer.operator) }), ...cells);
    });
    byId("layers").replaceChildren(...rows);
    byId("legend").replaceChildren(...this.core.timeline.layers.map((layer, n) =>
      element("span", {},
        element("span", { className: `chip ${layerClass(n)}`, textContent: n + 1 }),
        operator(layer.operator))));
  }

  draw() {
    const { timeline } = this.core;
    const target = byId("time");
    byId("zoom").setAttribute("aria-valuetext", `${this.zoom} times`);
    const width = Math.max(200, target.clientWidth) * this.zoom;
    const height = timeline.units.length * LANE + AXIS;
    const scale = (width - 1) / timeline.cycles;
    const svg = shape("svg", { width, height, "aria-hidden": true });
    const top = (n) => n * LANE + (LANE - BAR) / 2;
    const lane = { x: 0, width, height: BAR, rx: 3, class: "lane" };
    svg.append(...timeline.units.map((_, n) => shape("rect", { ...lane, y: top(n) })));
    this.axis(svg, width, scale);
    timeline.units.forEach((unit, n) => {
      const y = top(n);
      for (const [start, finish, layer, opcode] of unit.spans) {
        const bar = shape("rect", {
          x: start * scale, y, height: BAR, width: widthOf((finish - start) * scale),
          class: `span ${layerClass(layer)}`,
        });
        const of = layer < 0 ? "" : `, layer ${layer + 1}`;
        bar.append(shape("title", {}, `${opcode}${of}: cycles ${count(start)} to ${count(finish)}`));
        svg.append(bar);
      }
    });
    const place = target.scrollLeft / Math.max(1, target.scrollWidth);
    target.replaceChildren(svg);
    target.scrollLeft = place * target.scrollWidth;
  }

  axis(svg, width, scale) {
    const bottom = this.core.timeline.units.length * LANE;
    const least = 110 / scale;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least);
    for (let cycle = 0; cycle <= this.core.timeline.cycles; cycle += step) {
      const x = Math.round(cycle * scale) + 0.5;
      svg.append(shape("line", { x1: x, x2: x, y1: 0, y2: bottom + 4, class: "tick" }));
      if (x + 60 > width && cycle) continue;
      const anchor = cycle ? "middle" : "start";
      svg.append(shape("text", { x: cycle ? x : 0, y: bottom + 18, "text-anchor": anchor },
        cycle ? count(cycle) : "cycle 0"));
    }
  }
}
