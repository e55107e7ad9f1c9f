// Makes the calls of its standard input at a URL and prints the results: client_node.mjs v1|v2|v2-auto MODULES URL
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [which, modules, url] = process.argv.slice(2);
const require = createRequire(`${modules}/x.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const me = { name: "holdpoint-peer", version: "1.0.0" };

let client, transport;
if (which === "v1") {
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  client = new Client(me);
  transport = new StreamableHTTPClientTransport(new URL(url));
} else {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  client = new Client(me, which === "v2-auto" ? { versionNegotiation: { mode: "auto" } } : {});
  transport = new StreamableHTTPClientTransport(new URL(url));
}
await client.connect(transport);
// Clients check structured results against the schemas that they have seen.
await client.listTools();
const results = [];
for (const [name, args] of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const result = await client.callTool({ name, arguments: args });
    results.push({
      isError: result.isError ?? false,
      text: result.content.map((part) => part.text ?? null),
      structured: result.structuredContent ?? null,
    });
  } catch (error) {
    results.push({ raised: String(error) });
  }
}
console.log(JSON.stringify(results));
await client.close();
process.exit(0);
