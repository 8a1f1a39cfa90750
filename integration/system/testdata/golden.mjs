// Decodes each message that a line has in hex, and encodes it again. It prints the lines whose bytes differ, and the number of lines.
import { readFileSync } from "node:fs";
import { Decoder, Encoder } from "@msgpack/msgpack";

const lines = readFileSync(0, "utf8").trim().split("\n");
for (const line of lines) {
  const bytes = Buffer.from(line, "hex");
  const value = new Decoder({ useBigInt64: true }).decode(bytes);
  const again = Buffer.from(new Encoder({ useBigInt64: true }).encode(value)).toString("hex");
  if (again !== line) console.log(line, again);
}
console.log(lines.length);
