// A shop that counts what reaches it, `holdpoint serve` before it, and people in a real Chromium. Everything is a process or
// socket of its own and ends with the run.

import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync, openSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

const POLICY = `
version: 1
name: page-test
layers: {catalog: enforce, identity: off, egress: off, recipients: enforce, ownership: enforce, injection: off, tickets: enforce}
lookups:
  order_owner: {store: shop, sql: "SELECT :principal AS owner, id AS order_id FROM orders WHERE id = :order_id"}
  order_state: {store: shop, sql: "SELECT status, note FROM orders WHERE id = :order_id"}
  album_owners: {store: shop, sql: "SELECT :principal AS owner, id AS album FROM albums WHERE id = :album UNION SELECT other, id FROM albums WHERE id = :album"}
tools:
  - tool: refund_order
    effect: write
    ownership: [{resource: /order_id, as: order_id, owner: order_owner}]
    ticket:
      gate: approve
      role: finance
      ttl: 15m
      summary: "Refund {/amount} EUR on order {/order_id}"
      state: {resource: /order_id, as: order_id, lookup: order_state, columns: [status, note]}
  - tool: share_album
    effect: write
    ownership: [{resource: /album, as: album, owner: album_owners, owners: any}]
    ticket: {gate: approve, role: finance, ttl: 15m, summary: "Share the album {/album}"}
  - tool: pay
    effect: write
    recipients: [{at: /to, kind: email, allow: [{from: user}, {from: tool_output, tools: find_invoice, fields: payee}]}]
    ticket:
      gate: approve
      role: finance
      ttl: 15m
      summary: "Pay {/amount} EUR to {/to}"
      mandate: {amount: /amount, at_most: "100.00", uses: 3, for: 24h, same: /to}
  - {tool: find_invoice, effect: read}
  - tool: send_note
    effect: write
    ticket: {gate: approve, role: finance, ttl: 15m, summary: "Send a note to {/to}"}
  - tool: lose
    effect: write
    ticket: {gate: approve, role: finance, ttl: 15m, summary: "Book {/amount} EUR"}
`;

// Each test has a user of its own: what one may ask for in an hour is limited.
const USERS = ["ann", ...Array.from({ length: 40 }, (_, n) => `user-${n}`)];
const keyOf = (user) => `a-key-of-the-agent-of-${user}-which-nobody-else-has`;
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

const config = (agents, approvers, operations, upstream) => `
listen: {agents: "127.0.0.1:${agents}", approvers: "127.0.0.1:${approvers}", operations: "127.0.0.1:${operations}"}
policy: policy.yaml
upstreams: {shop: {url: "http://127.0.0.1:${upstream}"}}
routes:
  - {name: model, prefix: /openai, upstream: shop, protocol: openai_chat}
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools:
      - {tool: refund_order, method: POST, path: "/orders/{order_id}/refunds"}
      - {tool: share_album, method: POST, path: /albums}
      - {tool: pay, method: POST, path: /payments}
      - {tool: send_note, method: POST, path: /notes}
      - {tool: lose, method: POST, path: /lost}
stores: {shop: {sqlite: shop.db}}
principal:
  api_keys:
    header: x-agent-key
    keys:
${USERS.map((user) => `      - {key_sha256: ${sha256(keyOf(user))}, tenant: shop, subject: ${user}, agent: helper-bot}`).join("\n")}
session: {header: holdpoint-session}
tickets: {store: tickets.db}
approvers:
  accounts:
    - {name: carol, password_hash_env: CAROL, subject: carol, roles: [finance]}
    - {name: dave, password_hash_env: DAVE, subject: dave, roles: [finance]}
    - {name: ann, password_hash_env: ANN, subject: ann, roles: [finance]}
    - {name: erin, password_hash_env: ERIN, subject: erin, roles: [support]}
`;

const SHOP = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript("""
CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT, note TEXT);
INSERT INTO orders VALUES ('A-1001', 'deli\u202evered', NULL);
CREATE TABLE albums (id TEXT PRIMARY KEY, other TEXT);
INSERT INTO albums VALUES ('H-1', 'bob');
""")
db.close()
`;

/** What the model says to everything. */
const TURN = JSON.stringify({
  id: "c", object: "chat.completion", created: 1, model: "m",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Well." } }],
});

export const PASSWORD = "a long enough password";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--no-proxy-server",
];

export const freePort = () =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

export const until = async (what, test) => {
  for (let left = 600; left > 0; left -= 1) {
    if (await test()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`it did not come to pass: ${what}`);
};

const listen = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

/** Everything that runs. */
export class World {
  static async start(binary, { chromium }) {
    const world = new World();
    world.folder = mkdtempSync(path.join(tmpdir(), "holdpoint-page-"));
    world.hits = [];
    world.user = "ann";
    world.shop = http.createServer((request, response) => {
      request.resume().on("end", () => {
        world.hits.push(`${request.method} ${request.url}`);
        // The answer to this one is never known.
        if (request.url === "/lost") return request.socket.destroy();
        response.setHeader("content-type", "application/json");
        if (request.url.endsWith("/chat/completions")) return response.end(TURN);
        response.end(JSON.stringify({ done: true, number: world.hits.length }));
      });
    });
    const upstream = await listen(world.shop);
    // Another site, with whatever pages a test puts there.
    world.pages = new Map();
    world.elsewhere = http.createServer((request, response) => {
      response.setHeader("content-type", "text/html");
      response.end(world.pages.get(request.url) ?? "<!doctype html><title>elsewhere</title>");
    });
    const port = await listen(world.elsewhere);
    world.evil = `http://localhost:${port}`;
    world.neighbour = `http://127.0.0.1:${port}`;

    const [agents, approvers, operations] = await Promise.all([freePort(), freePort(), freePort()]);
    const file = (name) => path.join(world.folder, name);
    writeFileSync(file("policy.yaml"), POLICY);
    writeFileSync(file("config.yaml"), config(agents, approvers, operations, upstream));
    execFileSync("python3", ["-c", SHOP, file("shop.db")]);
    const hash = execFileSync(binary, ["approver", "hash"], { input: `${PASSWORD}\n` }).toString().trim();
    world.log = file("log");
    const log = openSync(world.log, "w");
    world.proxy = spawn(binary, ["serve", "--config", file("config.yaml")], {
      stdio: ["ignore", log, log],
      env: { ...process.env, CAROL: hash, DAVE: hash, ANN: hash, ERIN: hash },
    });
    world.agents = `http://127.0.0.1:${agents}`;
    world.approvers = `http://127.0.0.1:${approvers}`;
    world.store = file("tickets.db");
    world.binary = binary;
    await until("holdpoint serves", async () => {
      if (world.proxy.exitCode !== null) throw new Error(readFileSync(world.log, "utf8"));
      return fetch(`http://127.0.0.1:${operations}/readyz`).then((answer) => answer.ok, () => false);
    });
    world.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
    return world;
  }

  async stop() {
    await this.browser?.close();
    if (this.proxy && this.proxy.exitCode === null) {
      const ended = new Promise((resolve) => this.proxy.once("exit", resolve));
      this.proxy.kill("SIGTERM");
      await ended;
    }
    this.shop.close();
    this.elsewhere.close();
    this.shop.closeAllConnections();
    this.elsewhere.closeAllConnections();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** One call of the agent: its status and what it is told. `session` keeps equal calls apart. */
  async call(url, args, session = "s1", user = this.user) {
    const answer = await fetch(`${this.agents}/shop${url}`, {
      method: "POST",
      headers: { "content-type": "application/json", "holdpoint-session": session, "x-agent-key": keyOf(user) },
      body: JSON.stringify(args),
    });
    const text = await answer.text();
    const body = text ? JSON.parse(text) : null;
    return { status: answer.status, body, replayed: answer.headers.has("holdpoint-replayed"), ticket: body?.request_id };
  }

  /** A turn of the conversation that the agent has with its model. */
  async says(messages, session) {
    const answer = await fetch(`${this.agents}/openai/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", "holdpoint-session": session, "x-agent-key": keyOf(this.user) },
      body: JSON.stringify({ model: "m", messages }),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  }

  refund(amount, session, user) {
    return this.call("/orders/A-1001/refunds", { amount }, session, user);
  }

  /** The ticket as the command line tells it. */
  ticket(id) {
    return JSON.parse(execFileSync(this.binary, ["ticket", "show", id, "--store", this.store, "--json"]).toString());
  }

  /** Every mandate of the user, as the command line tells it. */
  mandates() {
    const all = JSON.parse(execFileSync(this.binary, ["ticket", "mandates", "--store", this.store, "--json"]).toString());
    return all.filter((mandate) => mandate.subject === this.user);
  }

  state(id) {
    return this.ticket(id).state;
  }

  /** A browser of somebody's own. `options` are those of a context. */
  async person(name, options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.setDefaultTimeout(10_000);
    const trouble = [];
    const page = await context.newPage();
    page.on("console", (message) => {
      // A refused form is told there too.
      if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) trouble.push(message.text());
    });
    page.on("pageerror", (error) => trouble.push(String(error)));
    page.on("request", (request) => {
      if (!request.url().startsWith(this.approvers)) trouble.push(`asked elsewhere: ${request.url()}`);
    });
    if (name) await this.logIn(page, name);
    return { context, page, trouble };
  }

  async logIn(page, name, password = PASSWORD) {
    await page.goto(`${this.approvers}/`);
    await page.getByLabel("Name").fill(name);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Log in" }).click();
  }

  open(page, id) {
    return page.goto(`${this.approvers}/tickets/${id}`);
  }
}
