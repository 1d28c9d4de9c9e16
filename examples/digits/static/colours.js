// Colours of the style sheet, for canvases.

const style = getComputedStyle(document.documentElement);

export const colour = (name) => style.getPropertyValue(`--${name}`).trim();

const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// The colours from `low` to `high`, by a share of 0 to 1.
export function ramp(low, high) {
  const from = parts(colour(low));
  const steps = parts(colour(high)).map((end, n) => end - from[n]);
  return (share) => from.map((start, n) => Math.round(start + steps[n] * share));
}

// Colours of numbers around zero; `most` has the full colour.
export function diverging(most) {
  const above = ramp("empty", "accent");
  const below = ramp("empty", "below");
  return (value) => {
    const share = Math.min(1, Math.abs(value) / (most || 1));
    return value < 0 ? below(share) : above(share);
  };
}

export const rgb = (channels) => `rgb(${channels.join(" ")})`;

// Calls a function when the colours change.
export function onColours(redraw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

export function bytes(text, Type = Int8Array) {
  const raw = atob(text);
  const array = new Type(raw.length);
  for (let n = 0; n < raw.length; n++) array[n] = raw.charCodeAt(n);
  return array;
}

export const count = (number) => Math.round(number).toLocaleString("en");
export const signed = (number) => number.toLocaleString("en").replace("-", "−");
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

// CONV_2D+MAX_POOL_2D becomes "Conv 2D + max pool 2D".
export function operator(name) {
  const text = name.toLowerCase().replaceAll("_", " ").replaceAll("+", " + ");
  return (text[0].toUpperCase() + text.slice(1)).replace(/\b(\d)d\b/g, "$1D");
}

export const layerClass = (layer) => (layer < 0 ? "layer-none" : `layer-${layer % 8}`);

// A new element with properties, attributes in `attributes`, and children.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}
