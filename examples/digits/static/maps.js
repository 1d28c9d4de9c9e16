// Feature maps: one sheet for each layer, a square for each channel.

import { bytes, diverging, element, layerClass, onColours, operator } from "./colours.js";

const WIDTH = 660; // pixels of a sheet, at most
const GAP = 6;

export class Maps {
  constructor(target, layers) {
    Object.assign(this, { target, layers, maps: [] });
    onColours(() => this.draw());
    this.clear();
  }

  clear() {
    this.maps = [];
    const text = "Draw something: the maps appear here.";
    this.target.replaceChildren(element("p", { className: "placeholder", textContent: text }));
  }

  show(maps) {
    this.maps = maps;
    this.draw();
  }

  draw() {
    if (this.maps.length) this.target.replaceChildren(...this.maps.map((map) => this.figure(map)));
  }

  figure(map) {
    const [height, width, channels] = map.shape;
    const name = operator(this.layers[map.layer].operator);
    const shape = height * width > 1 ? `${channels} maps of ${height} × ${width}`
      : `${channels} values`;
    const chip = element("span", { textContent: map.layer + 1 });
    chip.className = `chip ${layerClass(map.layer)}`;
    const caption = element("figcaption", { className: "small" }, chip,
      element("b", { textContent: name }),
      element("span", { className: "muted shape", textContent: shape }));
    const canvas = sheet(map);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${name}: ${shape}. ${summary(map)}`);
    return element("figure", {}, caption, canvas);
  }
}

// The words of a sheet: which channel is the largest, and how many are zero throughout.
function summary({ shape: [height, width, channels], contents, zeroPoint }) {
  const values = bytes(contents);
  const largest = new Array(channels).fill(-Infinity);
  const active = new Array(channels).fill(false);
  values.forEach((value, n) => {
    const channel = n % channels;
    largest[channel] = Math.max(largest[channel], value);
    active[channel] ||= value !== zeroPoint;
  });
  const best = largest.indexOf(Math.max(...largest));
  const used = active.filter(Boolean).length;
  return `${used} of ${channels} channels are not zero; channel ${best + 1} has the largest value.`;
}

function sheet({ shape: [height, width, channels], contents, zeroPoint }) {
  const values = bytes(contents).map((value) => value);
  const across = Math.min(channels, width === 1 ? 16 : channels > 16 ? 8 : 4);
  const down = Math.ceil(channels / across);
  const dot = Math.max(1, Math.floor((WIDTH - (across - 1) * GAP) / (across * width)));
  const canvas = element("canvas", {
    width: across * width * dot + (across - 1) * GAP,
    height: down * height * dot + (down - 1) * GAP,
  });
  const context = canvas.getContext("2d");
  const most = values.reduce((least, value) => Math.max(least, Math.abs(value - zeroPoint)), 1);
  const shade = diverging(most);
  for (let channel = 0; channel < channels; channel++) {
    const left = (channel % across) * (width * dot + GAP);
    const top = Math.floor(channel / across) * (height * dot + GAP);
    for (let place = 0; place < height * width; place++) {
      const value = values[place * channels + channel] - zeroPoint;
      context.fillStyle = `rgb(${shade(value).join(" ")})`;
      const [x, y] = [left + (place % width) * dot, top + Math.floor(place / width) * dot];
      context.fillRect(x, y, dot, dot);
    }
  }
  return canvas;
}
