// The legend of a plot.

// marker shows a line as it is drawn, in its colour and with its dashes.
export function marker({ color, dash }) {
  if (!dash) return `var(${color})`;
  const [on, off] = dash;
  return `repeating-linear-gradient(90deg, var(${color}) 0 ${on}px, transparent ${on}px ${on + off}px)`;
}
