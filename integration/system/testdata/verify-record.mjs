// Verifies a record in COSE_Sign1 with the library @ldclabs/cose-ts, and prints headers and payload as JSON.
// Usage: node verify-record.mjs MODULES RECORD PUBLIC-KEY-IN-HEX
import { readFileSync } from 'node:fs'
import { register } from 'node:module'
import { pathToFileURL } from 'node:url'

// The library's files name each other without the extension, as bundlers accept it.
const hook = `export async function resolve(name, context, next) {
  try { return await next(name, context) } catch (e) { return next(name + '.js', context) }
}`
register('data:text/javascript,' + encodeURIComponent(hook))

const [modules, file, publicKey] = process.argv.slice(2)
const load = (name) => import(pathToFileURL(modules + '/' + name).href)
const { Sign1Message } = await load('@ldclabs/cose-ts/dist/sign1.js')
const { Ed25519Key } = await load('@ldclabs/cose-ts/dist/ed25519.js')
const { decodeCBOR } = await load('@ldclabs/cose-ts/dist/utils.js')

const plain = (v) => {
  if (v instanceof Map) return Object.fromEntries([...v].map(([k, x]) => [String(k), plain(x)]))
  if (v instanceof Uint8Array) return { hex: Buffer.from(v).toString('hex') }
  if (Array.isArray(v)) return v.map(plain)
  if (typeof v === 'bigint') return Number(v)
  return v
}
const headers = (h) => plain(decodeCBOR(h.toBytes()))

const message = Sign1Message.fromBytes(Ed25519Key.fromPublic(Buffer.from(publicKey, 'hex')), readFileSync(file))
process.stdout.write(JSON.stringify({
  protected: headers(message.protected), unprotected: headers(message.unprotected), record: plain(decodeCBOR(message.payload)),
}))
