#!/usr/bin/env node
// Verifies the signed heads of a lash archive, from the archive and the tenant's public key alone:
//
//   node verify.mjs ARCHIVE TENANT.pub [HEAD...]
//
// It shares no code with lash: events/FORMAT.md says all that it does, in "Archive" and "Signed heads". It needs Node.js 20
// and no packages. A HEAD is a head that you got earlier, as a signed note. Exit codes: 0 every commit up to the last head
// is as it was signed, 1 it is not, 2 the verification could not be done. Redacted events are named, with the records of their
// redaction, and are no fault.

import crypto from 'node:crypto'
import fs from 'node:fs'
import zlib from 'node:zlib'

const unzstd = zlib.zstdDecompressSync ?? (await import('./zstd.mjs')).unzstd // Node.js before 22.15 has none
const sha256 = (...parts) => parts.reduce((h, p) => h.update(p), crypto.createHash('sha256')).digest()
const node = (left, right) => sha256(Buffer.of(1), left, right)

// --- MessagePack -------------------------------------------------------------------------------------------------------
// head reads the head of the value at p: its form, its number or length, and where its content begins.
function head(b, p) {
  const c = b[p]
  const n = (size) => (size === 8 ? Number(b.readBigUInt64BE(p + 1)) : b.readUIntBE(p + 1, size))
  if (c === undefined) throw new Error('ends too early')
  if (c < 0x80) return ['int', c, p + 1]
  if (c < 0x90) return ['map', c & 15, p + 1]
  if (c < 0xa0) return ['array', c & 15, p + 1]
  if (c < 0xc0) return ['text', c & 31, p + 1]
  if (c >= 0xe0) return ['int', c - 256, p + 1]
  if (c === 0xc0) return ['nil', 0, p + 1]
  if (c === 0xc2 || c === 0xc3) return ['bool', c & 1, p + 1]
  const sized = { c4: ['bytes', 1], c5: ['bytes', 2], c6: ['bytes', 4], d9: ['text', 1], da: ['text', 2], db: ['text', 4],
    dc: ['array', 2], dd: ['array', 4], de: ['map', 2], df: ['map', 4], cc: ['int', 1], cd: ['int', 2], ce: ['int', 4], cf: ['int', 8] }[c.toString(16)]
  if (sized) return [sized[0], n(sized[1]), p + 1 + sized[1]]
  const signed = { d0: 1, d1: 2, d2: 4, d3: 8 }[c.toString(16)]
  if (signed) return ['int', signed === 8 ? Number(b.readBigInt64BE(p + 1)) : b.readIntBE(p + 1, signed), p + 1 + signed]
  if (c === 0xca || c === 0xcb) return ['float', 0, p + (c === 0xca ? 5 : 9)]
  throw new Error(`byte ${c.toString(16)} begins no value`)
}

// end is where the value at p ends.
function end(b, p) {
  for (let left = 1; left > 0; left--) {
    const [form, n, at] = head(b, p)
    p = at
    if (form === 'text' || form === 'bytes') p += n
    if (form === 'array') left += n
    if (form === 'map') left += 2 * n
  }
  if (p > b.length) throw new Error('ends too early')
  return p
}

// pairs lists the pairs of the map at p: key, and where key and value begin and the value ends.
function pairs(b, p) {
  const [form, n, at] = head(b, p)
  if (form !== 'map') throw new Error('not a map')
  const list = []
  for (let i = 0, q = at; i < n; i++) {
    const value = end(b, q)
    const next = end(b, value), [, size, text] = head(b, q)
    list.push({ key: b.toString('utf8', text, text + size), at: q, value, end: next })
    q = next
  }
  return list
}

// scalar is the number, text or bytes at p.
function scalar(b, p) {
  const [form, n, at] = head(b, p)
  if (form === 'text') return b.toString('utf8', at, at + n)
  if (form === 'bytes') return b.subarray(at, at + n)
  return form === 'nil' ? undefined : n
}

const fields = (b, p) => Object.fromEntries(pairs(b, p).map((f) => [f.key, f]))
const value = (b, f) => (f === undefined ? undefined : scalar(b, f.value))

// list has the places of the values of an array.
function list(b, f) {
  const [form, n, first] = f ? head(b, f.value) : ['array', 0, 0]
  if (form !== 'array') throw new Error('not an array')
  return Array.from({ length: n }, ((p) => () => { const at = p; p = end(b, p); return at })(first))
}

// --- Leaves ------------------------------------------------------------------------------------------------------------
// strict is the commit's map, if its encoding is the one that writers use.
function strict(b) {
  const all = pairs(b, 0)
  const of = (key) => all.filter((f) => f.key === key)
  const short = (f) => f.value === f.at + 2
  const [e, n] = [of('e'), of('n')]
  if (e.length !== 1 || n.length > 1 || ![...e, ...n].every(short)) return null
  const events = []
  for (const p of list(b, e[0])) {
    const inside = pairs(b, p)
    const body = inside.filter((f) => f.key === 'p' || f.key === 'h')
    if (body.length !== 1 || !short(body[0])) return null
    if (body[0].key === 'h' && (body[0].end - body[0].value !== 34 || b.readUInt16BE(body[0].value) !== 0xc420)) return null
    events.push({ ...body[0], redacted: body[0].key === 'h', kind: value(b, inside.find((f) => f.key === 'k')) })
  }
  const kept = events.filter((f) => !f.redacted).length, salt = n[0] && value(b, n[0])
  if (n[0]) {
    const size = salt ? salt.length : 0
    const heads = salt === undefined ? 1 : size < 256 ? 2 : size < 65536 ? 3 : 5
    const want = kept === events.length ? 16 : 16 * kept
    if (size !== want || (size > 0) !== (salt !== undefined) || n[0].end - n[0].value !== heads + size) return null
  }
  return { events, kept, salt: salt ?? Buffer.alloc(0), n: n[0] }
}

// leaf is the hash of a commit in the tree.
function leaf(b) {
  const s = strict(b)
  if (!s) return sha256(Buffer.of(0), b)
  let [parts, from] = [[Buffer.of(0)], 0]
  if (s.n) {
    parts.push(b.subarray(0, s.n.value), Buffer.of(0xc0))
    from = s.n.end
  }
  let used = 0
  s.events.forEach((f, i) => {
    if (f.redacted) return
    let salt = Buffer.alloc(0)
    if (s.n && s.kept === s.events.length) salt = sha256(s.salt, Buffer.of(i >> 8, i & 255)).subarray(0, 16)
    else if (s.n) salt = s.salt.subarray(16 * used, 16 * (used + 1))
    used++
    let payload = b.subarray(f.value, f.end)
    const cut = payload.length - 64
    if (f.kind === 'audit.head_signed' && cut > 2 && payload.readUInt16BE(cut - 2) === 0xc440) payload = payload.subarray(0, cut)
    parts.push(b.subarray(from, f.at), Buffer.from('a168c420', 'hex'), sha256(salt, payload))
    from = f.end
  })
  return sha256(...parts, b.subarray(from))
}

// --- Tree --------------------------------------------------------------------------------------------------------------
// extend adds leaves to the edge of a tree of size leaves.
function extend(edge, size, leaves) {
  const list = [...edge]
  for (let hash of leaves) {
    for (let n = size; n % 2 === 1; n = Math.floor(n / 2)) hash = node(list.pop(), hash)
    list.push(hash)
    size++
  }
  return list
}

// edgesOf returns the edge of the tree of the first n leaves, for each n.
function edgesOf(leaves) {
  const levels = [leaves]
  for (let l = leaves; l.length > 1; levels.push(l)) l = Array.from({ length: l.length >> 1 }, (_, i) => node(l[2 * i], l[2 * i + 1]))
  return (n) => levels.flatMap((l, k) => { const m = Math.floor(n / 2 ** k); return m % 2 === 1 ? l.slice(m - 1, m) : [] }).reverse()
}

const root = (edge) => edge.reduceRight((right, left) => node(left, right))
const hashes = (b) => Array.from({ length: (b?.length ?? 0) / 32 }, (_, i) => b.subarray(32 * i, 32 * i + 32))
const equal = (a, b) => a.length === b.length && a.every((h, i) => h.equals(b[i]))

// --- Keys and notes ----------------------------------------------------------------------------------------------------
// publicKey reads name+hash+base64.
function publicKey(text) {
  const [, name, hash, data] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(text.trim()) ?? []
  const raw = Buffer.from(data ?? '', 'base64')
  if (raw.length !== 33 || raw[0] !== 1 || sha256(name + '\n', raw).toString('hex', 0, 4) !== hash) throw new Error(`not a public key: ${text}`)
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw.subarray(1)])
  return { name, raw, hash, key: crypto.createPublicKey({ key: der, format: 'der', type: 'spki' }) }
}

// signatures lists the signature lines of a note.
function signatures(text) {
  const cut = text.indexOf('\n\n')
  return { text: text.slice(0, cut + 1), lines: text.slice(cut + 2).split('\n').filter(Boolean).map((line) => {
    const [, name, data] = /^\u2014 (\S+) (\S+)$/.exec(line) ?? []
    const raw = Buffer.from(data ?? '', 'base64')
    return { name, hash: raw.toString('hex', 0, 4), signature: raw.subarray(4) }
  }) }
}

// certificate checks that a tenant signed a certificate.
function certificate(note, tenants) {
  const { text, lines } = signatures(note)
  const [title, tenant, node, from, until] = text.split('\n')
  const by = tenants.find((t) => t.name === tenant && lines.some((l) => l.name === t.name && l.hash === t.hash && crypto.verify(null, Buffer.from(text), t.key, l.signature)))
  if (title !== 'lash node certificate v1' || !by) throw new Error('the certificate is not of the tenant')
  return { tenant, node: publicKey(node), from: Number(from), until: Number(until), digest: sha256(note) }
}

const checkpoint = (origin, size, hash) => `${origin}\n${size}\n${hash.toString('base64')}\n`

// --- Archive -----------------------------------------------------------------------------------------------------------
function readArchive(b) {
  if (b.toString('latin1', 0, 8) !== 'LASHARC1') throw new Error('not an archive')
  let [commits, session, redactions] = [[]]
  const uvarint = (plain, p) => {
    for (let n = 0, unit = 1; ; unit *= 128) {
      n += (plain[p] & 127) * unit
      if (plain[p++] < 128) return [n, p]
    }
  }
  for (let at = 8; ;) {
    if (at + 5 > b.length) throw new Error('the archive has no end')
    const kind = String.fromCharCode(b[at])
    const body = b.subarray(at + 5, at + 5 + b.readUInt32BE(at + 1))
    const f = kind === 'h' || kind === 'e' ? fields(body, 0) : {}
    if (kind === 'h') [session, redactions] = [value(body, f.s), list(body, f.r).map((p) => fields(body, p)).map((r) => ({ at: value(body, r.t), by: value(body, r.b), why: value(body, r.r), what: list(body, r.w).map((p) => scalar(body, p)), note: value(body, r.g) }))]
    if (kind === 'h' && value(body, f.q) !== 1) throw new Error('the archive does not begin at sequence 1')
    if (kind === 'e') {
      if (value(body, f.d) !== sha256(b.subarray(0, at)).toString('hex') || value(body, f.n) !== commits.length || at + 5 + body.length !== b.length) throw new Error('the archive is damaged')
      return { session, commits, redactions }
    }
    const plain = kind === 'c' ? unzstd(body) : []
    for (let p = 0; p < plain.length;) {
      let seq, size
      ;[seq, p] = uvarint(plain, p)
      ;[size, p] = uvarint(plain, p)
      if (seq !== commits.length + 1) throw new Error(`sequence ${seq} after ${commits.length}`)
      commits.push(plain.subarray(p, p + size))
      p += size
    }
    at += 5 + body.length
  }
}

// --- Verification ------------------------------------------------------------------------------------------------------
// redactedBy says who redacted, and whether a node's key signed that about this history.
function redactedBy(r, session, tenants, edgeOf) {
  let by = 'which is not signed'
  if (r.note) {
    const { text, lines } = signatures(r.note)
    const cert = certificate(lines.find((l) => tenants.some((t) => t.name === l.name))?.signature.toString() ?? '', tenants)
    const [title, origin, , at, who, why, size, hash, ...what] = text.slice(0, -1).split('\n')
    const same = title === 'lash redaction v1' && origin === `${cert.tenant}/s/${session}` && Number(at) === r.at && JSON.parse(who) === r.by && JSON.parse(why) === r.why
      && what.map((w) => JSON.parse(w)).join('\n') === r.what.join('\n') && root(edgeOf(Number(size))).toString('base64') === hash
    if (!same || !lines.some((l) => l.name === origin && crypto.verify(null, Buffer.from(text), cert.node.key, l.signature))) throw new Error(`a redaction by ${JSON.stringify(r.by)} is not the one that was signed`)
    by = `signed by ${cert.node.name} of ${cert.tenant}`
  }
  return `redacted at ${new Date(r.at).toISOString()} by ${JSON.stringify(r.by)}: ${JSON.stringify(r.why)} (${JSON.stringify(r.what)}), ${by}`
}

function verify(session, commits, tenants, given, redactions) {
  const [faults, notes, found] = [[], [], new Set()]
  const certificates = new Map(), leaves = commits.map(leaf), edgeOf = edgesOf(leaves)
  const id = (seq) => (commits[seq - 1] ? value(commits[seq - 1], fields(commits[seq - 1], 0).i) : 'missing')
  const fault = (seq, what) => { if (!found.has(seq)) found.add(seq) && faults.push({ seq, text: `sequence ${seq}, commit ${id(seq)}: ${what}` }) }
  let [proven, heads] = [0, 0]
  commits.forEach((b, i) => {
    const top = fields(b, 0)
    const events = list(b, top.e)
    for (const [k, p] of events.entries()) {
      const event = fields(b, p)
      if (event.h) notes.push(`sequence ${i + 1}, event ${id(i + 1)}.${k}: ${value(b, event.k)}, redacted`)
      if (value(b, event.k) !== 'audit.head_signed') continue
      try {
        const f = fields(b, event.p.value)
        const note = value(b, f.c)
        if (note) { const c = certificate(note, tenants); certificates.set(c.digest.toString('hex'), c) }
        const cert = certificates.get(value(b, f.k).toString('hex'))
        if (!cert) throw new Error('the certificate is in no commit before it')
        const [before, edge, named] = [value(b, f.b) ?? 0, hashes(value(b, f.h)), hashes(value(b, f.l))]
        const size = before + named.length + 1
        const text = checkpoint(`${cert.tenant}/s/${session}`, size, root(extend(edge, before, [...named, leaves[i]])))
        if (k !== events.length - 1 || !crypto.verify(null, Buffer.from(text), cert.node.key, value(b, f.g))) throw new Error('the commit is not the one that its head signs')
        const at = value(b, top.t)
        if (at < cert.from || at >= cert.until) throw new Error('the certificate is not valid at the time of the commit')
        heads++
        named.forEach((hash, n) => { if (!leaves[before + n]?.equals(hash)) fault(before + n + 1, 'it is not the commit that was signed with this sequence') })
        if ((before > commits.length || !equal(edgeOf(before), edge)) && faults.length === 0) fault(Math.min(before, commits.length), 'one of the commits up to this one is not the one that was signed')
        if (size !== i + 1) fault(i + 1, `its head is that of sequence ${size}`)
        proven = i + 1
      } catch (err) { fault(i + 1, err.message) }
    }
  })
  for (const note of given) {
    const { text, lines } = signatures(note)
    const [origin, size, hash] = text.split('\n')
    const signed = [...certificates.values()].some((c) => origin === `${c.tenant}/s/${session}` && lines.some((l) => l.name === origin && crypto.verify(null, Buffer.from(text), c.node.key, l.signature)))
    if (Number(size) > commits.length) fault(commits.length + 1, `the given head covers ${size} commits: the history was cut off`)
    else if (!signed || root(edgeOf(Number(size))).toString('base64') !== hash) fault(Number(size), 'the history up to this commit is not that of the given head')
  }
  for (const r of redactions) try { notes.push(redactedBy(r, session, tenants, edgeOf)) } catch (err) { faults.push({ text: err.message }) }
  return { faults, notes, proven, heads }
}

try {
  const [archive, keys, ...given] = process.argv.slice(2)
  if (!keys) throw new Error('usage: node verify.mjs ARCHIVE TENANT.pub [HEAD...]')
  const tenants = fs.readFileSync(keys, 'utf8').split('\n').filter((l) => l.trim() && !l.startsWith('#')).map(publicKey)
  const { session, commits, redactions } = readArchive(fs.readFileSync(archive))
  const { faults, notes, proven, heads } = verify(session, commits, tenants, given.map((f) => fs.readFileSync(f, 'utf8')), redactions)
  for (const line of [...faults.map((f) => f.text), ...notes]) console.log(line)
  console.log(`${session}: ${heads} heads verified, commits 1 to ${proven} are signed, ${commits.length - proven} come after the last head`)
  process.exitCode = faults.length > 0 || heads === 0 ? 1 : 0
} catch (err) {
  console.error(`verify: ${err.message}`)
  process.exitCode = 2
}
