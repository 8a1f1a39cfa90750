// Decompresses Zstandard frames (RFC 8878), for versions of Node.js whose zlib does not. Checksums are not checked: the
// verifier checks hashes of what it reads.

const high = (n) => 31 - Math.clz32(n)

// bits reads n bits from a bit position of b, at most 32. Bits before the beginning are zero.
function bits(b, at, n) {
  if (at < 0) return n + at > 0 ? bits(b, 0, n + at) * 2 ** -at : 0
  let v = 0
  for (let i = 0, p = at >> 3; i < 5 && p + i < b.length; i++) v += b[p + i] * 2 ** (8 * i)
  return Math.floor(v / 2 ** (at & 7)) % 2 ** n
}

// Back reads a bit stream from its end.
class Back {
  constructor(b) {
    this.b = b
    this.left = (b.length - 1) * 8 + high(b[b.length - 1])
  }
  read(n) {
    this.left -= n
    return bits(this.b, this.left, n)
  }
}

// fse builds the decoding table of probabilities.
function fse(list, accuracy) {
  const size = 1 << accuracy
  const table = new Array(size)
  const next = []
  let top = size
  list.forEach((p, s) => { if (p === -1) { table[--top] = s; next[s] = 1 } })
  let at = 0
  list.forEach((p, s) => {
    if (p <= 0) return
    next[s] = p
    for (let i = 0; i < p; i++) {
      table[at] = s
      do { at = (at + (size >> 1) + (size >> 3) + 3) & (size - 1) } while (at >= top)
    }
  })
  return { accuracy, rows: table.map((s) => {
    const n = next[s]++
    const width = accuracy - high(n)
    return { s, width, base: (n << width) - size }
  }) }
}

// readFSE reads the description of a table; it returns the table and the number of bytes.
function readFSE(b) {
  let at = 4
  const accuracy = bits(b, 0, 4) + 5
  const list = []
  for (let left = 1 << accuracy; left > 0;) {
    const width = high(left + 1) + 1
    let v = bits(b, at, width)
    at += width
    const low = (1 << (width - 1)) - 1
    const limit = (1 << width) - 1 - (left + 1)
    if ((v & low) < limit) { at--; v &= low } else if (v > low) v -= limit
    list.push(v - 1)
    left -= Math.abs(v - 1)
    for (let zeros = v === 1 ? 3 : 0; zeros === 3;) {
      zeros = bits(b, at, 2)
      at += 2
      for (let i = 0; i < zeros; i++) list.push(0)
    }
  }
  return [fse(list, accuracy), (at + 7) >> 3]
}

// huffman reads a tree; it returns the table and the number of bytes.
function huffman(b) {
  const weights = []
  let size = 1 + b[0]
  if (b[0] >= 128) {
    const n = b[0] - 127
    size = 1 + ((n + 1) >> 1)
    for (let i = 0; i < n; i++) weights.push(i & 1 ? b[1 + (i >> 1)] & 15 : b[1 + (i >> 1)] >> 4)
  } else {
    const [t, used] = readFSE(b.subarray(1, size))
    const r = new Back(b.subarray(1 + used, size))
    const states = [t.rows[r.read(t.accuracy)], t.rows[r.read(t.accuracy)]]
    for (let i = 0; ; i ^= 1) {
      weights.push(states[i].s)
      const row = states[i]
      const v = r.read(row.width)
      if (r.left < 0) { weights.push(states[i ^ 1].s); break }
      states[i] = t.rows[row.base + v]
    }
  }
  const sum = weights.reduce((n, w) => n + (w ? 1 << (w - 1) : 0), 0)
  const width = high(sum) + 1
  weights.push(high((1 << width) - sum) + 1)
  const rows = []
  for (let w = 1; w <= width; w++) {
    weights.forEach((v, s) => { if (v === w) for (let i = 0; i < 1 << (w - 1); i++) rows.push({ s, width: width + 1 - w }) })
  }
  return [{ rows, width }, size]
}

function unhuff(tree, b, out) {
  const r = new Back(b)
  for (let i = 0; i < out.length; i++) {
    const row = tree.rows[bits(b, r.left - tree.width, tree.width)]
    r.left -= row.width
    out[i] = row.s
  }
}

// literals reads the literals of a block; it returns them and the number of bytes.
function literals(b, f) {
  const kind = b[0] & 3
  const form = (b[0] >> 2) & 3
  if (kind < 2) {
    const [head, n] = [[1, b[0] >> 3], [2, bits(b, 4, 12)], [1, b[0] >> 3], [3, bits(b, 4, 20)]][form]
    if (kind === 0) return [b.subarray(head, head + n), head + n]
    return [Buffer.alloc(n, b[head]), head + 1]
  }
  const width = [10, 10, 14, 18][form]
  const head = [3, 3, 4, 5][form]
  const out = Buffer.alloc(bits(b, 4, width))
  const end = head + bits(b, 4 + width, width)
  let body = b.subarray(head, end)
  if (kind === 2) {
    const [tree, n] = huffman(body)
    f.tree = tree
    body = body.subarray(n)
  }
  if (form === 0) {
    unhuff(f.tree, body, out)
    return [out, end]
  }
  const part = (out.length + 3) >> 2
  for (let i = 0, at = 6; i < 4; i++) {
    const n = i < 3 ? body.readUInt16LE(2 * i) : body.length - at
    unhuff(f.tree, body.subarray(at, at + n), out.subarray(i * part, i < 3 ? (i + 1) * part : out.length))
    at += n
  }
  return [out, end]
}

const codes = (first, start, widths) => {
  const list = Array.from({ length: start }, (_, i) => [i + first, 0])
  let base = start + first
  for (const w of widths) { list.push([base, w]); base += 2 ** w }
  return list
}
const lengths = codes(0, 16, [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])
const matches = codes(3, 32, [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])
const ones = (n, v = 1) => new Array(n).fill(v)
const known = [
  fse([4, 3, ...ones(11, 2), 1, 1, 1, ...ones(9, 2), 3, 2, ...ones(5), ...ones(4, -1)], 6),
  fse([...ones(6), 2, 2, 2, ...ones(15), ...ones(5, -1)], 5),
  fse([1, 4, 3, ...ones(6, 2), ...ones(37), ...ones(7, -1)], 6),
]

function block(b, f, out) {
  const [lits, used] = literals(b, f)
  let at = used
  let count = b[at++]
  if (count === 255) { count = b.readUInt16LE(at) + 0x7f00; at += 2 } else if (count > 127) count = ((count - 128) << 8) + b[at++]
  if (count === 0) { out.push(lits); return }
  const modes = b[at++]
  f.tables = [6, 4, 2].map((shift, i) => {
    const mode = (modes >> shift) & 3
    if (mode === 0) return known[i]
    if (mode === 1) return { accuracy: 0, rows: [{ s: b[at++], width: 0, base: 0 }] }
    if (mode === 3) return f.tables[i]
    const [t, n] = readFSE(b.subarray(at))
    at += n
    return t
  })
  const r = new Back(b.subarray(at))
  const state = f.tables.map((t) => t.rows[r.read(t.accuracy)])
  let from = 0
  for (; count > 0; count--) {
    const value = 2 ** state[1].s + r.read(state[1].s)
    const [m, mw] = matches[state[2].s]
    const match = m + r.read(mw)
    const [l, lw] = lengths[state[0].s]
    const length = l + r.read(lw)
    let offset = value - 3
    const again = value > 3 ? 3 : value - (length === 0 ? 0 : 1)
    if (value <= 3) offset = again === 3 ? f.offsets[0] - 1 : f.offsets[again]
    if (again > 0) { f.offsets.splice(Math.min(again, 2), 1); f.offsets.unshift(offset) }
    out.push(lits.subarray(from, from + length))
    from += length
    out.repeat(offset, match)
    if (count > 1) for (const i of [0, 2, 1]) state[i] = f.tables[i].rows[state[i].base + r.read(state[i].width)]
  }
  out.push(lits.subarray(from))
}

class Out {
  constructor() { this.b = Buffer.alloc(1 << 16); this.n = 0 }
  room(n) {
    if (this.n + n <= this.b.length) return
    const bigger = Buffer.alloc(2 * (this.n + n))
    this.b.copy(bigger, 0, 0, this.n)
    this.b = bigger
  }
  push(part) { this.room(part.length); part.copy(this.b, this.n); this.n += part.length }
  repeat(offset, n) {
    if (offset > this.n || offset < 1) throw new Error('zstd: offset before the beginning')
    this.room(n)
    for (let i = 0; i < n; i++, this.n++) this.b[this.n] = this.b[this.n - offset]
  }
}

// unzstd decompresses one frame.
export function unzstd(b) {
  if (b.readUInt32LE(0) !== 0xfd2fb528) throw new Error('zstd: not a frame')
  const single = (b[4] >> 5) & 1
  let at = 5 + (single ? 0 : 1) + [0, 1, 2, 4][b[4] & 3] + [single, 2, 4, 8][b[4] >> 6]
  const out = new Out()
  const f = { offsets: [1, 4, 8], tables: [], tree: null }
  for (let last = 0; !last;) {
    const head = b.readUIntLE(at, 3)
    const size = head >> 3
    at += 3
    last = head & 1
    const kind = (head >> 1) & 3
    if (kind === 0) out.push(b.subarray(at, at + size))
    else if (kind === 1) out.push(Buffer.alloc(size, b[at]))
    else block(b.subarray(at, at + size), f, out)
    at += kind === 1 ? 1 : size
  }
  return out.b.subarray(0, out.n)
}
