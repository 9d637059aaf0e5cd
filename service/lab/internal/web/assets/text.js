// Words and numbers.

export const $ = (id) => document.getElementById(id);
export const none = "–";

export const number = (v, digits = 1) => (v == null ? none : v.toFixed(digits));

export const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

// say sets a text only if it changes.
export function say(id, text) {
  const e = $(id);
  if (e.textContent !== text) e.textContent = text;
}

// kind classifies a status for the client.
export function kind(status) {
  const code = parseInt(status, 10);
  if (code >= 200 && code < 400) return "success";
  if (code === 429 || code === 503) return "rejected";
  if (code === 504) return "origin_timeout";
  return status === "timeout" ? "timeout" : "error";
}

// kinds adds up the rates of each kind.
export function kinds(byStatus) {
  const sum = { success: 0, rejected: 0, origin_timeout: 0, timeout: 0, error: 0 };
  for (const [status, rate] of Object.entries(byStatus ?? {})) sum[kind(status)] += rate;
  return sum;
}
