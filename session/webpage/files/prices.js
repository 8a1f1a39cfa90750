// What tokens cost. The server has the prices, in US dollars for a million tokens.

import { call } from "./api.js";
import { total } from "./format.js";

const NAMES = ["input", "output", "cache_read", "cache_write"];

let rates = new Map();

// load reads the prices. A server without them shows no costs.
export async function load() {
  try {
    const file = await call("GET", "/v1/prices");
    rates = new Map();
    for (const row of file.models ?? []) for (const name of row.names ?? []) {
      rates.set(`${row.provider}\n${name}`, row);
      const other = rates.get(`\n${name}`); // the usage of children has no provider: providers may differ, then no price is known
      if (other === undefined) rates.set(`\n${name}`, row);
      else if (!other || NAMES.some((k) => other[k] !== row[k])) rates.set(`\n${name}`, null);
    }
  } catch {
    rates = new Map();
  }
}

// cost of usage by model: {dollars, missing}.
export function cost(usage) {
  let dollars = 0;
  const missing = [];
  for (const [model, u] of usage) {
    const r = rates.get(model);
    if (!total(u)) continue;
    if (!r) { missing.push(model.trim().replace("\n", " ") || "an unnamed model"); continue; }
    const price = (name) => r[name] ?? r.input ?? 0;
    dollars += ((u.input ?? 0) * price("input") + (u.output ?? 0) * price("output") + (u.cache_read ?? 0) * price("cache_read") + (u.cache_write ?? 0) * price("cache_write")) / 1e6;
  }
  return { dollars, missing };
}

// ofTurn is what model calls used: {tokens, price}.
export function ofTurn(calls) {
  const usage = new Map();
  for (const c of calls) {
    const key = `${c.provider ?? ""}\n${c.model}`, sum = { ...usage.get(key) };
    for (const u of [c.usage, c.spent]) for (const k of NAMES) if (u?.[k]) sum[k] = (sum[k] ?? 0) + u[k];
    usage.set(key, sum);
  }
  return ofUsage(usage);
}

// ofUsage is what usage by model comes to: {tokens, price}.
export const ofUsage = (usage) => ({ tokens: [...usage.values()].reduce((sum, u) => sum + total(u), 0), price: cost(usage) });

// money is a cost as a text; a cost that is not wholly known says so.
export function money({ dollars, missing }) {
  if (!dollars) return missing.length ? "\u2013" : "$0";
  const text = dollars < 0.01 ? `$${dollars.toPrecision(2)}` : `$${dollars.toFixed(2)}`;
  return missing.length ? `${text}+` : text;
}
