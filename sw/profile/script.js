"use strict";

// A layer under the pointer or with the focus: all others fade in all pictures.
const marked = document.getElementById("marked");
function mark(event) {
  const of = event.target.closest && event.target.closest("[data-layer], .L");
  const name = of && (of.dataset.layer || [...of.classList].find((c) => /^L-?\d/.test(c)).slice(1));
  marked.textContent = of ? `svg .L:not(.L${CSS.escape(name)}) { opacity: .15 }` : "";
}
for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, mark);

// A link to a listing opens it.
function open_() {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}
addEventListener("hashchange", open_);
open_();

const data = document.getElementById("data");
if (data) timeline(JSON.parse(data.textContent));

function timeline({ cycles, lanes, names, wide, high }) {
  const chart = document.getElementById("chart");
  const pictures = [...chart.querySelectorAll("svg.time")];
  const bins = [...chart.querySelectorAll("svg.bins")];
  const events = lanes.map((numbers) => {
    const found = [];
    for (let n = 0, at = 0; n < numbers.length; n += 3) {
      found.push([at + numbers[n], at + numbers[n] + numbers[n + 1], numbers[n + 2]]);
      at = found.at(-1)[1];
    }
    return found;
  });
  let first = 0;
  let last = cycles;

  // Columns of one lane: the share of work of each layer.
  function columns(found) {
    const step = (last - first) / wide;
    const result = Array.from({ length: wide }, () => new Map());
    let low = 0;
    for (let high_ = found.length; low < high_; ) {
      const middle = (low + high_) >> 1;
      if (found[middle][1] <= first) low = middle + 1;
      else high_ = middle;
    }
    for (; low < found.length && found[low][0] < last; low++) {
      const [begin, end, layer] = found[low];
      const from = Math.max(0, Math.floor((begin - first) / step));
      const to = Math.min(wide - 1, Math.ceil((end - first) / step) - 1);
      for (let n = from; n <= to; n++) {
        const share = Math.min(end, first + (n + 1) * step) - Math.max(begin, first + n * step);
        result[n].set(layer, (result[n].get(layer) || 0) + share / step);
      }
    }
    return result;
  }

  function draw(svg, found) {
    const paths = new Map();
    columns(found).forEach((shares, n) => {
      const most = [...shares].sort((a, b) => b[1] - a[1])[0];
      if (!most) return;
      const tall = Math.round(high * Math.min(1, [...shares.values()].reduce((a, b) => a + b)));
      paths.set(most[0], `${paths.get(most[0]) || ""}M${n} ${high - tall}h1v${tall}h-1z`);
    });
    svg.replaceChildren(
      ...[...paths].map(([layer, d]) => {
        const path = document.createElementNS(svg.namespaceURI, "path");
        path.setAttribute("class", `L L${layer} c${layer < 0 ? "n" : layer % 10}`);
        path.setAttribute("d", d);
        path.appendChild(document.createElementNS(svg.namespaceURI, "title"));
        path.firstChild.textContent = names[layer];
        return path;
      }),
    );
  }

  function show(from, to) {
    const least = Math.min(cycles, 200);
    const length = Math.min(cycles, Math.max(least, Math.round(to - from)));
    first = Math.round(Math.min(Math.max(0, from), cycles - length));
    last = first + length;
    bins.forEach((svg, n) => draw(svg, events[n]));
    for (const svg of pictures) {
      const box = svg.viewBox.baseVal;
      if (bins.includes(svg)) continue;
      svg.setAttribute("viewBox", `${(first / cycles) * wide} 0 ${(length / cycles) * wide} ${box.height}`);
    }
    document.getElementById("view").textContent = `${first.toLocaleString("en")} to ${last.toLocaleString("en")}`;
    let step = 10 ** Math.floor(Math.log10(length));
    step = Math.max(1, [step / 10, step / 5, step / 2, step, 2 * step].find((s) => length / s <= 8));
    const ticks = chart.querySelector(".ticks");
    const marks = [];
    ticks.replaceChildren();
    for (let t = Math.ceil(first / step) * step; t <= last; t += step) {
      const span = ticks.appendChild(document.createElement("span"));
      span.textContent = t.toLocaleString("en");
      span.style.left = `${((t - first) / length) * 100}%`;
      marks.push(`M${((t - first) / length) * wide} 0v6`);
    }
    chart.querySelector(".axis").innerHTML = `<path d="${marks.join("")}"/>`;
  }

  const moves = {
    in: (l, m) => [m - l / 4, m + l / 4],
    out: (l, m) => [m - l, m + l],
    left: (l) => [first - l / 3, last - l / 3],
    right: (l) => [first + l / 3, last + l / 3],
    all: () => [0, cycles],
  };
  const move = (name) => show(...moves[name](last - first, (first + last) / 2));
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => move(button.dataset.zoom));
  }
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
  chart.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move(keys[event.key]);
  });
}
