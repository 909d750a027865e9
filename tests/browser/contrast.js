// Texts whose contrast with what is behind them is below what WCAG asks for: 4.5, or 3 if they are large.
const parse = (text) => {
  const [r, g, b, a] = text.match(/[\d.]+/g).map(Number);
  return { rgb: [r, g, b], a: a === undefined ? 1 : a };
};
const over = (top, below) => top.rgb.map((c, i) => c * top.a + below[i] * (1 - top.a));
const ground = (element) => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour.a > 0) layers.push(colour);
    if (colour.a === 1) break;
  }
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const box = element.getBoundingClientRect();
  if (!own || !box.width || !box.height) continue;
  const style = getComputedStyle(element);
  let opacity = 1;
  for (let e = element; e; e = e.parentElement) opacity *= Number(getComputedStyle(e).opacity);
  if (style.visibility !== "visible" || opacity === 0) continue;
  const behind = ground(element);
  const ink = parse(style.color);
  const [a, b] = [light(over({ rgb: ink.rgb, a: ink.a * opacity }, behind)), light(behind)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) found.push(`${element.tagName}.${element.className} ${element.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return [...new Set(found)];
