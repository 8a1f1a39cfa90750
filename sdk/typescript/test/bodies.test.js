import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { Bodies } from "../lib/bodies.js";
import { maxBodyBytes, maxBodyPiece } from "../lib/limits.js";
import { outcome } from "../lib/outcome.js";

const body = Buffer.alloc(2 * maxBodyPiece + 5, "body ");
const digest = createHash("sha256").update(body).digest("hex");

test("a body is stored and read in pieces, where a node refuses for a while and another one takes the call over", async () => {
  let got = Buffer.alloc(0);
  const ids = new Set();
  const bodies = new Bodies("s", async (id, method, path, piece) => {
    assert.ok(!ids.has(id));
    ids.add(id);
    if (ids.size === 2 || ids.size === 9) return { status: 429, body: {} };
    if (ids.size === 4) return { status: 409, body: {} };
    if (method === "GET") {
      const [, of, offset] = /^\/v1\/sessions\/s\/blobs\/(\w+)\?offset=(\d+)$/.exec(path) ?? [];
      assert.equal(of, digest);
      const data = body.subarray(Number(offset), Number(offset) + maxBodyPiece).toString("base64");
      return { status: 200, body: { digest, size: body.length, offset: Number(offset), data } };
    }
    assert.deepEqual([path, piece.digest, piece.size], ["/v1/sessions/s/blobs", digest, body.length]);
    got = Buffer.concat([got.subarray(0, piece.offset), Buffer.from(piece.data, "base64")]);
    return got.length < body.length ? { status: 202, body: undefined } : { status: 201, body: { digest, size: body.length } };
  });
  const [stored, read] = await Promise.all([bodies.store(body), bodies.read(digest)]); // one after the other
  assert.deepEqual(stored, { digest, size: body.length });
  assert.ok(got.equals(body));
  assert.ok(body.equals(read));
});

test("a body that a node or a limit refuses", async () => {
  let asked = 0;
  const bodies = new Bodies("s", async () => {
    asked++;
    return { status: 403, body: { detail: "no" } };
  });
  await assert.rejects(bodies.store(body), { message: "store body: status 403: no", class: "permission_denied" });
  await assert.rejects(bodies.read(digest), { message: "read body: status 403: no", class: "permission_denied" });
  await assert.rejects(bodies.store(Buffer.alloc(0)), RangeError);
  await assert.rejects(bodies.store(Buffer.alloc(maxBodyBytes + 1)), RangeError);
  assert.equal(asked, 2);
});

test("an attachment of a result is bytes or a reference", async () => {
  const attachments = [{ mediaType: "image/png", digest, size: 3 }, { mediaType: "image/png", data: Buffer.from("abc") }];
  const { json } = await outcome(async () => ({ attachments }), new AbortController().signal);
  assert.deepEqual(JSON.parse(json.toString()), { attachments: [{ media_type: "image/png", digest, size: 3 }, { media_type: "image/png", data: "YWJj" }] });
});
