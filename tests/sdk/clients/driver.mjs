// The loop that every JavaScript client runs; requests and outcomes are those of driver.py.
// The packages are in the folder that the first argument names.

import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";

// Standard output is for outcomes.
console.info = console.log = console.warn = () => {};

export const load = createRequire(path.join(path.resolve(process.argv[2]), "package.json"));

export const schema = (keys) => ({
  type: "object",
  properties: Object.fromEntries(keys.map((key) => [key, { type: "string" }])),
});

/** What two runs of one error have in common. */
function described(error) {
  const last = error.lastError ?? error;
  const status = last.status ?? last.statusCode ?? null;
  return { type: last.constructor.name, name: last.name, status, body: last.error ?? last.responseBody ?? null };
}

export function serve(run) {
  readline.createInterface({ input: process.stdin }).on("line", async (line) => {
    const request = JSON.parse(line);
    let outcome;
    try {
      outcome = await run(request);
    } catch (error) {
      outcome = { error: described(error), message: String(error) };
    }
    process.stdout.write(`${JSON.stringify({ id: request.id, ...outcome })}\n`);
  });
  process.stdout.write("ready\n");
}
