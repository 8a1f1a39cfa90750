// Signed heads, as far as a browser can check them: events/FORMAT.md, "Signed heads". The API has commits as JSON, and the hash of
// a commit is of its stored bytes. A head names the hashes of the commits since the head before, that head's commit too. So a
// head is checked once the next one is there: its signature, its certificate's time, and that the next head goes on from its tree.

const te = new TextEncoder();
const TITLE = "lash node certificate v1";

// canCheck reports whether this browser checks signatures: pages of https and of this machine only, in newer browsers.
export const canCheck = () => Boolean(globalThis.crypto?.subtle);

export const bytesOf = (v) => (v?.base64 !== undefined ? Uint8Array.from(atob(v.base64), (c) => c.charCodeAt(0)) : te.encode(typeof v === "string" ? v : ""));
const base64 = (b) => btoa(String.fromCharCode(...b));
const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

async function sha256(...parts) {
  const all = new Uint8Array(parts.reduce((sum, b) => sum + b.length, 0));
  let at = 0;
  for (const b of parts) {
    all.set(b, at);
    at += b.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", all));
}

const above = (left, right) => sha256(Uint8Array.of(1), left, right);
const hashes = (v) => { const b = bytesOf(v); return Array.from({ length: Math.floor(b.length / 32) }, (_, i) => b.slice(32 * i, 32 * i + 32)); };

// extend adds leaves to the edge of a tree.
async function extend(edge, size, leaves) {
  const list = [...edge];
  for (let hash of leaves) {
    for (let n = size++; n % 2 === 1; n = Math.floor(n / 2)) hash = await above(list.pop(), hash);
    list.push(hash);
  }
  return list;
}

async function root(edge) {
  let hash = edge.at(-1);
  for (let i = edge.length - 2; i >= 0; i--) hash = await above(edge[i], hash);
  return hash;
}

async function verify(key, signature, text) {
  const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, te.encode(text));
}

// decoded is what a text in base64 says; nothing where it is none.
function decoded(text) {
  try {
    return bytesOf({ base64: text });
  } catch {
    return [];
  }
}

// publicKey reads name+hash+base64.
async function publicKey(text) {
  const [, name, hash, data] = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text.trim()) ?? [];
  const raw = data ? decoded(data) : [];
  if (raw.length !== 33 || raw[0] !== 1 || hex((await sha256(te.encode(`${name}\n`), raw)).slice(0, 4)) !== hash) throw new Error("This is no public key: a line as in TENANT.pub is NAME+HASH+KEY.");
  return { name, hash, key: raw.slice(1) };
}

const hex = (b) => [...b].map((x) => x.toString(16).padStart(2, "0")).join("");

async function readCertificate(note) {
  const cut = note.indexOf("\n\n"), text = note.slice(0, cut + 1), lines = text.split("\n");
  if (cut < 0 || lines.length !== 6 || lines[0] !== TITLE) throw new Error("The head has no certificate of a node's key.");
  const node = await publicKey(lines[2]);
  return { note, text, tenant: lines[1], node: node.name, key: node.key, from: Number(lines[3]), until: Number(lines[4]) };
}

// certified reports whether a tenant's public key signed a certificate.
export async function certified(note, tenant) {
  const { name, hash, key } = await publicKey(tenant), certificate = await readCertificate(note);
  if (name !== certificate.tenant) return false;
  for (const line of note.slice(note.indexOf("\n\n") + 2).split("\n")) {
    const [, by, data] = /^\u2014 (\S+) (\S+)$/.exec(line) ?? [], raw = data ? decoded(data) : [];
    if (by === name && raw.length === 68 && hex(raw.slice(0, 4)) === hash && await verify(key, raw.slice(4), certificate.text)) return true;
  }
  return false;
}

// Proofs checks the heads of a session, one after the other. A result is {right: true}, {wrong: why}, or {right: false, why} for a head
// that cannot be checked, by the sequence of the head.
export class Proofs {
  constructor(session, changed) {
    Object.assign(this, { session, changed, results: new Map(), certificates: new Map(), to: 0, checked: 0, wrong: 0 }); // to is the last head that was looked at, checked the last one that is right
  }

  // update checks the heads that can be checked now.
  async update(heads) {
    this.heads = heads;
    if (this.busy || this.unable || !canCheck()) return;
    this.busy = true;
    let some = false;
    for (let i = this.heads.findIndex((head) => head.seq > this.to); i >= 0 && i + 1 < this.heads.length; i++) {
      const [head, next] = [this.heads[i], this.heads[i + 1]];
      const result = await this.#check(head, next).catch((error) => (error.name === "NotSupportedError" ? null : { wrong: error.message }));
      if (!result) { this.unable = true; break; }
      this.results.set(head.seq, result);
      if (result.wrong) this.wrong ||= head.seq;
      if (result.right) this.checked = head.seq;
      this.to = head.seq;
      some = true;
    }
    this.busy = false;
    if (some || this.unable) this.changed();
  }

  async #check(head, next) {
    const p = head.payload, leaves = hashes(p.leaves), before = p.before ?? 0, edge = hashes(p.edge);
    const certificate = await this.#certificate(p);
    if (!certificate) return { right: false, why: "Its certificate is in no head before it on this page." };
    if (head.seq !== before + leaves.length + 1) return { wrong: "It does not cover the commits up to its own." };
    const later = hashes(next.payload.leaves), from = next.payload.before ?? 0, own = later[head.seq - 1 - from];
    if (!own) return { right: false, why: "The next head on this page does not name the hash of its commit." };
    const tree = await extend(edge, before, leaves), text = `${certificate.tenant}/s/${this.session}\n${head.seq}\n${base64(await root(await extend(tree, head.seq - 1, [own])))}\n`;
    if (!await verify(certificate.key, bytesOf(p.signature), text)) return { wrong: "Its signature is not one of this tree and this key." };
    if (!(certificate.from <= head.at && head.at < certificate.until)) return { wrong: "Its certificate was not valid at the time of the commit." };
    if (from === head.seq - 1 && !sameEdge(tree, hashes(next.payload.edge))) return { wrong: "The next head does not continue this tree." };
    return { right: true, certificate };
  }

  async #certificate(p) {
    const key = hex(bytesOf(p.key));
    if (!this.certificates.has(key)) {
      if (!p.certificate) return null;
      if (hex(await sha256(te.encode(p.certificate))) !== key) throw new Error("It names another certificate than it has.");
      this.certificates.set(key, await readCertificate(p.certificate));
    }
    return this.certificates.get(key);
  }
}

const sameEdge = (a, b) => a.length === b.length && a.every((hash, i) => equal(hash, b[i]));
