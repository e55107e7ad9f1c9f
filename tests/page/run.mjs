// The approvers' page in a real Chromium, against `holdpoint serve`:
//
//     node tests/page/run.mjs --binary target/debug/holdpoint --modules FOLDER [--shots FOLDER] [PART OF A NAME...]
//
// FOLDER has the packages of package.json. With --shots, pictures of the pages are left there to be looked at. Ends with a
// non-zero status on any failure.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { parseArgs } from "node:util";

import { PASSWORD, World, until } from "./world.mjs";

const { values: options, positionals: wanted } = parseArgs({
  options: { binary: { type: "string" }, modules: { type: "string" }, shots: { type: "string" } },
  allowPositionals: true,
});
const require = createRequire(path.join(path.resolve(options.modules), "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const tests = [];
const test = (name, run) => tests.push({ name, run });

const title = (page) => page.getByRole("heading", { level: 1 }).textContent();
const approve = (page) => page.getByRole("button", { name: "Approve once" });
const deny = (page) => page.getByRole("button", { name: "Deny" });

test("who has not logged in sees nothing, and a wrong password changes nothing", async (world) => {
  const { ticket } = await world.refund("1.01");
  const { page, trouble } = await world.person(null);
  await world.open(page, ticket);
  assert.match(page.url(), /\/login\?next=/);
  assert.doesNotMatch(await page.content(), /Refund/);
  await page.getByLabel("Name").fill("carol");
  await page.getByLabel("Password").fill("not the password at all");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Name").fill("carol");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(`**/tickets/${ticket}`);
  assert.equal(await title(page), "Refund 1.01 EUR on order A-1001");
  assert.deepEqual(trouble, []);
});

test("every page is closed to frames, other origins and caches", async (world) => {
  const { context } = await world.person("carol");
  const { ticket } = await world.refund("1.02");
  for (const at of ["/", "/history", "/unknown", "/mandates", "/audit", `/tickets/${ticket}`, "/tickets/tkt_none", "/login", "/assets/live.js"]) {
    const answer = await context.request.get(`${world.approvers}${at}`);
    const headers = answer.headers();
    const csp = headers["content-security-policy"];
    assert.match(csp, /default-src 'none'/, at);
    assert.match(csp, /frame-ancestors 'none'/, at);
    assert.match(csp, /form-action 'self'/, at);
    assert.doesNotMatch(csp, /unsafe|\*|data:|https?:/, at);
    assert.equal(headers["cache-control"], "no-store", at);
    assert.equal(headers["x-content-type-options"], "nosniff", at);
    assert.ok(["no-referrer", "same-origin"].includes(headers["referrer-policy"]), at);
    if (headers["content-type"].startsWith("text/html")) {
      assert.doesNotMatch(await answer.text(), /<style|style=|<script>|\son[a-z]+=|(src|href|action)="(https?:)?\/\//, at);
    }
  }
});

test("an approval lets the identical call through once, and the page says so", async (world) => {
  const before = world.hits.length;
  const first = await world.refund("2.01");
  assert.equal(first.body.error, "approval_required");
  const { page, trouble } = await world.person("carol");
  await page.getByRole("link", { name: "Refund 2.01 EUR on order A-1001" }).click();
  for (const shown of ["2.01", "A-1001", "refund_order", world.user, "helper-bot"]) {
    await page.getByText(shown, { exact: false }).first().waitFor();
  }
  await page.getByLabel("Comment").fill("seen <b>and</b> checked");
  await approve(page).click();
  await page.getByText("approved, not used yet").first().waitFor();
  await page.getByText("seen <b>and</b> checked").waitFor();
  assert.equal(world.hits.length, before, "an approval carries nothing out");
  const again = await world.refund("2.01");
  assert.equal(again.status, 200);
  const replay = await world.refund("2.01");
  assert.ok(replay.replayed);
  assert.equal(world.hits.length, before + 1);
  await page.getByText("Nothing more: the call was carried out").waitFor();
  assert.equal(await approve(page).count(), 0);
  assert.deepEqual(trouble, []);
});

test("a denial is told to the agent", async (world) => {
  const { ticket } = await world.refund("2.02");
  const { page } = await world.person("carol");
  await world.open(page, ticket);
  await deny(page).click();
  await page.getByText("denied").first().waitFor();
  assert.equal(world.state(ticket), "denied");
  assert.equal((await world.refund("2.02")).body.error, "approval_denied");
});

test("the list offers no answer, and reading changes nothing", async (world) => {
  const { ticket } = await world.refund("2.03");
  const { page, context } = await world.person("carol");
  const forms = await page.locator("form").evaluateAll((forms) => forms.map((form) => form.getAttribute("action")));
  assert.deepEqual(forms, ["/logout"]);
  for (const verb of ["approve", "deny", "revoke", "resolve", "mandate"]) {
    const answer = await context.request.get(`${world.approvers}/tickets/${ticket}/${verb}`, { maxRedirects: 0 });
    assert.equal(answer.status(), 405, verb);
  }
  await world.open(page, ticket);
  await page.reload();
  assert.equal(world.state(ticket), "requested");
});

test("padding is counted, and a long value has a page of its own", async (world) => {
  const body = `Thanks!${" ".repeat(400)}${"\n".repeat(300)}transfer everything to DE00 ${"x".repeat(60)}`;
  const { ticket } = await world.call("/notes", { to: "ann@shop.example", body });
  const { page } = await world.person("carol");
  await world.open(page, ticket);
  const shown = await page.locator("dl.arguments").last().innerText();
  assert.match(shown, /Thanks!/);
  assert.match(shown, /64 spaces/);
  assert.match(shown, new RegExp(`\\(${body.length + 2} characters, sha256 [0-9a-f]{12}…\\)`));
  await page.getByRole("link", { name: "Whole value" }).click();
  const text = await page.locator("ol.lines").innerText();
  assert.match(text, /Thanks!400 spaces/);
  assert.match(text, /299 blank lines/);
  assert.match(text, /transfer everything to DE00/);
  assert.equal(await page.locator("ol.lines > li").last().evaluate((line) => line.value), 301);
});

test("hidden, reordering and misleading characters are escapes", async (world) => {
  const { ticket } = await world.call("/notes", {
    to: "p\u0430y@shop.example",
    body: "Pay 10 EUR\u202eRUE 0001 yaP\u200b and {/amount} <img src=x onerror=alert(1)> a\u0301",
  });
  const { page, trouble } = await world.person("carol");
  await world.open(page, ticket);
  assert.equal(await title(page), 'Send a note to p\\u{430}y@shop.example');
  const text = await page.locator("main").innerText();
  for (const shown of ["p\\u{430}y@shop.example", "\\u{202e}RUE 0001 yaP\\u{200b}", "<img src=x onerror=alert(1)>", "a\\u{301}"]) {
    assert.ok(text.includes(shown), shown);
  }
  assert.match(text, /4 hidden or misleading characters in 2 arguments/);
  assert.doesNotMatch(await page.content(), /[\u0430\u202e\u200b\u0301]/u);
  assert.equal(await page.locator("main img").count(), 0);
  assert.deepEqual(trouble, []);
});

test("each object is shown with its owner and its state as it was", async (world) => {
  const { ticket } = await world.refund("9.01");
  const { page } = await world.person("carol");
  await world.open(page, ticket);
  const objects = page.getByRole("region", { name: "Objects" });
  const own = await objects.innerText();
  assert.match(own, /A-1001\s+belongs to the user, user-\d+/);
  assert.match(own, /named by \/order_id, found by order_owner/);
  assert.match(own, /status: deli\\u\{202e\}vered/);
  assert.match(own, /note: null/);
  assert.equal(await page.getByText("somebody else's object").count(), 0);
  assert.match(await page.locator("dl.arguments.key").innerText(), /belongs to the user/);

  const shared = await world.call("/albums", { album: "H-1" });
  assert.equal(shared.body.error, "approval_required");
  await page.goto(`${world.approvers}/`);
  const entry = page.locator(`[data-id="${shared.ticket}"]`);
  await entry.getByText("somebody else's object").waitFor();
  await world.open(page, shared.ticket);
  const text = await page.locator("main").innerText();
  assert.match(text, new RegExp(`not the user's belongs to bob, ${world.user}`));
  assert.match(text, /not to the user/);
});

const find = (payee) => [
  { role: "user", content: "Pay the invoice 17, and 5 EUR to friend@people.example." },
  { role: "assistant", tool_calls: [{ id: "t1", type: "function", function: { name: "find_invoice", arguments: '{"number":"17"}' } }] },
  { role: "tool", tool_call_id: "t1", content: JSON.stringify({ payee }) },
];

test("who named a payee is told, and a first time is marked until there was one", async (world) => {
  await world.says(find("billing@firm.example"), "p1");
  const { page } = await world.person("carol");
  const look = async (to, amount) => {
    const { ticket, body } = await world.call("/payments", { to, amount }, "p1");
    assert.equal(body.error, "approval_required", JSON.stringify(body));
    await world.open(page, ticket);
    return { ticket, text: await page.locator("main").innerText() };
  };
  const said = await look("friend@people.example", "5.00");
  assert.match(said.text, /friend@people\.example.*first time[\s\S]*the user said it/);
  assert.match(said.text, /1 argument with a recipient that this user has never used before/);
  const given = await look("billing@firm.example", "80.00");
  assert.match(given.text, /The value of \/to first appeared in the output of `find_invoice`, field `payee`, not in what the user wrote/);
  assert.match(given.text, /value from a tool output/);
  // The amount is in nothing that anybody said, and matters.
  assert.match(given.text, /The value of \/amount is in nothing that anybody said/);
  assert.match(given.text, /value that nobody said/);
  await page.goto(`${world.approvers}/`);
  await page.locator(`[data-id="${given.ticket}"]`).getByText("first-time recipient").waitFor();

  await world.open(page, said.ticket);
  await approve(page).click();
  await page.getByText("approved, not used yet").first().waitFor();
  assert.equal((await world.call("/payments", { to: "friend@people.example", amount: "5.00" }, "p1")).status, 200);
  const known = await look("friend@people.example", "6.00");
  assert.doesNotMatch(known.text, /first time|never used before/);
  assert.match(known.text, /Earlier acts of this user with this tool[\s\S]*Pay 5\.00 EUR to friend@people\.example/);
});

test("a mandate is offered, narrowed, used up and ended", async (world) => {
  await world.says(find("billing@firm.example"), "m1");
  const pay = (amount, to = "billing@firm.example") => world.call("/payments", { to, amount }, "m1");
  const { ticket } = await pay("10.00");
  const { page, trouble } = await world.person("carol");
  await world.open(page, ticket);
  await page.getByText("Permit more than this one call").click();
  const offer = page.locator("details");
  assert.match(await offer.innerText(), new RegExp(`A mandate for ${world.user}: up to 3 calls of pay, together at most 100\\.00, within 24 h , with the same /to|A mandate for ${world.user}: up to 3 calls of pay, together at most 100\\.00, within 24 h`));
  await page.getByLabel("Calls").fill("2");
  await page.getByLabel("Sum of all amounts").fill("25.00");
  await page.getByRole("button", { name: "Give this mandate" }).click();
  await until("the mandate is given", () => world.mandates().length === 1);
  assert.equal((await pay("10.00")).status, 200);
  assert.equal((await pay("16.00")).body.error, "approval_required", "past the sum");
  assert.equal((await pay("1.00", "friend@people.example")).body.error, "approval_required", "another payee");
  await page.goto(`${world.approvers}/mandates`);
  const row = page.locator("main").getByText("billing@firm.example").or(page.getByText(world.user)).first();
  await row.waitFor();
  const text = await page.locator("main").innerText();
  assert.match(text, /10\.00/);
  assert.match(text, /25\.00/);
  await page.getByRole("button", { name: "End" }).first().click();
  await until("the mandate is ended", () => world.mandates().every((mandate) => mandate.ended_at));
  assert.equal((await pay("2.00")).body.error, "approval_required");
  assert.deepEqual(trouble, []);
});

test("what cannot be decoded cannot be inspected", async (world) => {
  const bytes = Buffer.from(Array.from({ length: 96 }, (_, n) => (n * 37 + 128) % 256));
  const { ticket } = await world.call("/notes", { to: "x@shop.example", blob: bytes.toString("base64"), words: Buffer.from("pay Mallory 1,000 EUR now, quickly, Number 7").toString("base64") });
  const { page } = await world.person("carol");
  await world.open(page, ticket);
  const text = await page.locator("main").innerText();
  assert.match(text, /1 argument cannot be inspected/);
  assert.match(text, /96 bytes that are no text/);
  assert.match(text, /base64 of the text: pay Mallory 1,000 EUR now/);
});

test("two people race: the second is told, and a denial still wins", async (world) => {
  const { ticket } = await world.refund("3.01");
  const [carol, dave] = await Promise.all([world.person("carol", { javaScriptEnabled: false }), world.person("dave", { javaScriptEnabled: false })]);
  await Promise.all([world.open(carol.page, ticket), world.open(dave.page, ticket)]);
  const third = await dave.context.newPage();
  await world.open(third, ticket);
  await approve(carol.page).click();
  await carol.page.getByText("approved, not used yet").first().waitFor();
  const [late] = await Promise.all([dave.page.waitForResponse((answer) => answer.request().method() === "POST"), approve(dave.page).click()]);
  assert.equal(late.status(), 409);
  await dave.page.getByText("Your answer changed nothing").waitFor();
  assert.equal(world.ticket(ticket).votes.length, 1);
  await deny(third).click();
  await third.getByText("taken back").first().waitFor();
  assert.equal(world.state(ticket), "revoked");
  assert.equal((await world.refund("3.01")).body.error, "approval_denied");
});

test("two tabs of one person, and two clicks at once, are one answer", async (world) => {
  const { ticket } = await world.refund("3.02");
  const { page, context } = await world.person("carol", { javaScriptEnabled: false });
  const other = await context.newPage();
  await Promise.all([world.open(page, ticket), world.open(other, ticket)]);
  await Promise.all([approve(page).click(), approve(other).click()]);
  for (const tab of [page, other]) await tab.getByText("approved, not used yet").first().waitFor();
  const { state, votes } = world.ticket(ticket);
  assert.equal(state, "approved");
  assert.equal(votes.length, 1);
});

test("a stale click says so and changes nothing", async (world) => {
  const { ticket } = await world.refund("3.03");
  const [carol, dave] = await Promise.all([world.person("carol", { javaScriptEnabled: false }), world.person("dave")]);
  await world.open(carol.page, ticket);
  await world.open(dave.page, ticket);
  await deny(dave.page).click();
  await dave.page.getByText("denied").first().waitFor();
  const [late] = await Promise.all([carol.page.waitForResponse((answer) => answer.request().method() === "POST"), approve(carol.page).click()]);
  assert.equal(late.status(), 409);
  assert.equal(await title(carol.page), "Too late");
  assert.equal(world.state(ticket), "denied");
  await carol.page.getByRole("link", { name: "Look at the request anew" }).click();
  await carol.page.getByText("denied").first().waitFor();
});

test("another digest is not approved", async (world) => {
  const { ticket } = await world.refund("3.04");
  const { page } = await world.person("carol");
  await world.open(page, ticket);
  await page.locator('form[action$="/approve"] input[name=digest]').evaluate((field) => { field.value = "0000000000000000"; });
  await approve(page).click();
  await page.getByText("Not the call that was shown").waitFor();
  assert.equal(world.state(ticket), "requested");
});

test("another site can neither answer nor frame", async (world) => {
  const { ticket } = await world.refund("4.01");
  const digest = world.ticket(ticket).digest.slice(0, 16);
  const { page, context } = await world.person("carol");
  await world.open(page, ticket);
  const csrf = await page.locator("form input[name=csrf]").first().inputValue();
  const form = (token) => `<!doctype html><form method="post" action="${world.approvers}/tickets/${ticket}/approve">
    <input name="csrf" value="${token}"><input name="digest" value="${digest}"><input name="seen" value="requested.0">
    </form><script>document.forms[0].submit()</script>`;
  // Also with a token that leaked, for the origin is checked as well.
  for (const [name, token] of [["/blind", ""], ["/leaked", csrf]]) {
    world.pages.set(name, form(token));
    // From another site, and from another port of this one, to which a browser gives the cookie.
    for (const origin of [world.evil, world.neighbour]) {
      const attacker = await context.newPage();
      const [answer] = await Promise.all([
        attacker.waitForResponse((answer) => answer.url().includes("/approve")),
        attacker.goto(`${origin}${name}`).catch(() => {}),
      ]);
      assert.ok([401, 403].includes(answer.status()), `${origin}${name}: ${answer.status()}`);
      assert.equal(world.state(ticket), "requested");
    }
  }
  // From here, but without the token.
  const status = await page.evaluate(
    async ([to, digest]) => {
      const body = new URLSearchParams({ digest, seen: "requested.0" });
      return (await fetch(to, { method: "POST", body })).status;
    },
    [`/tickets/${ticket}/approve`, digest],
  );
  assert.equal(status, 403);
  assert.equal(world.state(ticket), "requested");

  world.pages.set("/frame", `<!doctype html><iframe src="${world.approvers}/tickets/${ticket}" width="800" height="800"></iframe>`);
  for (const origin of [world.evil, world.neighbour]) {
    const attacker = await context.newPage();
    await attacker.goto(`${origin}/frame`);
    await until("the frame is refused", () => attacker.frames().some((frame) => frame.url().startsWith("chrome-error:")));
    for (const frame of attacker.frames()) assert.doesNotMatch(await frame.content(), /Approve once/);
  }
  // The person's own page works as before.
  await approve(page).click();
  await page.getByText("approved, not used yet").first().waitFor();
});

test("a link on another site, or in a mail, leads to the page and changes nothing", async (world) => {
  const { ticket } = await world.refund("4.02");
  const { context } = await world.person("carol");
  world.pages.set("/mail", `<!doctype html><a href="${world.approvers}/tickets/${ticket}">Approve</a>`);
  const page = await context.newPage();
  await page.goto(`${world.evil}/mail`);
  await page.getByRole("link").click();
  await approve(page).waitFor();
  assert.equal(world.state(ticket), "requested");
});

test("without scripts everything works", async (world) => {
  const { ticket } = await world.refund("5.01");
  const { page } = await world.person("carol", { javaScriptEnabled: false });
  await page.getByRole("link", { name: "Refund 5.01 EUR on order A-1001" }).click();
  await approve(page).click();
  await page.getByText("approved, not used yet").first().waitFor();
  await page.getByRole("button", { name: "Take the approval back" }).click();
  await page.getByText("taken back").first().waitFor();
  assert.equal(world.state(ticket), "revoked");
  await page.getByRole("link", { name: "History" }).click();
  await page.getByLabel("State").selectOption("revoked");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByRole("link", { name: "Refund 5.01 EUR on order A-1001" }).waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Password").waitFor();
});

test("the keyboard alone is enough, and no key answers by itself", async (world) => {
  const { ticket } = await world.refund("5.02");
  const { page } = await world.person("carol");
  await world.open(page, ticket);
  for (const key of ["a", "y", "Enter", "Space", "Control+Enter"]) await page.keyboard.press(key);
  assert.equal(world.state(ticket), "requested");
  await world.open(page, ticket);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  assert.ok(await page.evaluate(() => document.activeElement.getBoundingClientRect().left >= 0));
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  let reached = "";
  for (let at = 0; at < 40 && reached !== "Approve once"; at += 1) {
    await page.keyboard.press("Tab");
    reached = await page.evaluate(() => document.activeElement.textContent.trim());
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none", reached);
  }
  assert.equal(reached, "Approve once");
  await page.keyboard.press("Enter");
  await page.getByText("approved, not used yet").first().waitFor();
  assert.equal(world.state(ticket), "approved");
});

test("the pages follow what happens elsewhere", async (world) => {
  const { page, trouble } = await world.person("carol");
  const { ticket } = await world.refund("6.01");
  const link = page.getByRole("link", { name: "Refund 6.01 EUR on order A-1001" });
  await link.waitFor();
  await until("it is said", async () => /request/.test(await page.locator("#news").textContent()));
  assert.match(await page.title(), /^\(\d+\) Waiting/);
  await page.locator("time[data-until]").filter({ hasText: /\d+ s$/ }).first().waitFor();
  await link.click();
  await approve(page).waitFor();
  const dave = await world.person("dave");
  await world.open(dave.page, ticket);
  await dave.page.getByLabel("Comment").fill("not sure yet");
  await approve(page).click();
  // Dave's words stay, and his buttons no longer work.
  await dave.page.locator("[data-stale]").waitFor();
  assert.equal(await dave.page.getByLabel("Comment").inputValue(), "not sure yet");
  assert.ok(await approve(dave.page).isDisabled());
  await world.refund("6.01");
  await page.getByText("Nothing more: the call was carried out").waitFor();
  assert.deepEqual(trouble.concat(dave.trouble), []);
});

test("equal acts of several sessions are one entry with their number", async (world) => {
  await world.refund("6.02", "s2");
  await world.refund("6.02", "s3");
  await world.refund("6.02", "s4");
  const { page } = await world.person("carol");
  assert.equal(await page.getByRole("link", { name: "Refund 6.02 EUR on order A-1001" }).count(), 1);
  await page.getByText("The same act was asked for 2 more times").waitFor();
});

test("who may not answer is told why beforehand", async (world) => {
  const { ticket } = await world.refund("7.01", "s1", "ann");
  for (const [name, why] of [["ann", /nobody approves an own request/], ["erin", /needs the role/]]) {
    const { page } = await world.person(name);
    await world.open(page, ticket);
    await page.getByText(why).waitFor();
    assert.equal(await approve(page).count(), 0);
    // Nor by a form of their own making.
    const status = await page.evaluate(async (to) => {
      const value = (name) => document.querySelector(`form[action$="/deny"] input[name=${name}]`).value;
      const body = new URLSearchParams({ csrf: value("csrf"), digest: value("digest"), seen: value("seen") });
      return (await fetch(to, { method: "POST", body })).status;
    }, `/tickets/${ticket}/approve`);
    assert.equal(status, 403, name);
  }
  assert.equal(world.state(ticket), "requested");
});

test("an unknown outcome is closed by a person with a note", async (world) => {
  const { ticket } = await world.call("/lost", { amount: "9.01" });
  const { page } = await world.person("carol");
  await world.open(page, ticket);
  await approve(page).click();
  await page.getByText("approved, not used yet").first().waitFor();
  await world.call("/lost", { amount: "9.01" });
  await page.getByRole("link", { name: "Unknown outcomes" }).click();
  await page.getByRole("link", { name: "Book 9.01 EUR" }).click();
  await page.getByLabel("It was not carried out").check();
  await page.getByRole("button", { name: "Close the matter" }).click();
  assert.equal(world.state(ticket), "unknown", "a note is required");
  await page.getByLabel("How do you know?").fill("no row in the ledger of that day");
  await page.getByRole("button", { name: "Close the matter" }).click();
  await page.getByText("no row in the ledger of that day").waitFor();
  assert.equal(world.state(ticket), "resolved_not_done");
});

test("the history is narrowed and paged", async (world) => {
  await world.call("/notes", { to: "a@shop.example" });
  const { page } = await world.person("carol");
  await page.goto(`${world.approvers}/history?tool=send_note&user=${world.user}`);
  assert.equal(await page.locator(".list > li").count(), 1);
  assert.equal(await page.getByText("Refund").count(), 0);
  for (let n = 0; n < 52; n += 1) await world.refund(`8.${10 + n}`, `h${n}`, `user-${36 + (n % 4)}`);
  await page.goto(`${world.approvers}/history?state=requested&tool=refund_order`);
  assert.equal(await page.locator(".list > li").count(), 50);
  const newest = await page.locator(".list > li").first().getAttribute("data-id");
  await page.getByRole("link", { name: "Older" }).click();
  await page.waitForURL(/state=requested&tool=refund_order&before=\d+/);
  assert.ok((await page.locator(".list > li").count()) >= 2);
  assert.equal(await page.locator(`[data-id="${newest}"]`).count(), 0);
  const odd = await page.goto(`${world.approvers}/history?state=nonsense`);
  assert.equal(odd.status(), 400);
});

test("a log-out ends it in every tab", async (world) => {
  const { ticket } = await world.refund("7.02");
  const { page, context } = await world.person("carol");
  const other = await context.newPage();
  await world.open(other, ticket);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Password").waitFor();
  await other.waitForURL("**/login?next=**");
  await other.goBack().catch(() => {});
  assert.equal(await approve(other).count(), 0);
  const answer = await context.request.get(`${world.approvers}/`, { maxRedirects: 0 });
  assert.ok(answer.status() === 303 || answer.status() === 401, String(answer.status()));
  assert.equal(world.state(ticket), "requested");
});

test("nothing stands against people with other eyes, ears and screens", async (world) => {
  const long = { to: `${"very-long-local-part".repeat(9)}@shop.example`, body: `${"word ".repeat(90)}\u202e`, list: Array.from({ length: 30 }, (_, n) => n) };
  const { ticket } = await world.call("/notes", long);
  const pages = ["/", `/tickets/${ticket}`, `/tickets/${ticket}/value?at=/body`, "/history", "/unknown", "/mandates", "/audit"];
  for (const colorScheme of ["light", "dark"]) {
    const { page, context } = await world.person("carol", { colorScheme });
    for (const at of pages) {
      await page.goto(`${world.approvers}${at}`);
      await accessible(page, `${at} ${colorScheme}`);
      await page.setViewportSize({ width: 360, height: 740 });
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(wider, 0, `${at} is wider than a phone`);
      await page.setViewportSize({ width: 1280, height: 900 });
    }
    await context.clearCookies();
    await page.goto(`${world.approvers}/login`);
    await accessible(page, `/login ${colorScheme}`);
  }
});

/** WCAG 2.2 A and AA as far as axe can tell. Its script comes past the page's policy, as a debugger's. */
async function accessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"] }));
  const told = violations.map((rule) => `${where}: ${rule.id}: ${rule.nodes.map((node) => node.target).join(", ")}`);
  assert.deepEqual(told, []);
}

async function shots(world, folder) {
  mkdirSync(folder, { recursive: true });
  const spaced = await world.call("/notes", { to: "p\u0430y@shop.example", subject: "Your refund", body: `Thanks!${" ".repeat(300)}\u202e${"pad ".repeat(50)}`, blob: Buffer.from(Array.from({ length: 96 }, (_, n) => (n * 37 + 128) % 256)).toString("base64"), count: 3, urgent: true });
  const plain = await world.refund("19.90");
  await world.refund("5.00", "s8");
  await world.refund("5.00", "s9");
  const lost = world.ticket((await world.call("/lost", { amount: "77.00" })).ticket).id;
  const setter = await world.person("carol");
  await world.open(setter.page, lost);
  await approve(setter.page).click();
  await setter.page.getByText("approved, not used yet").first().waitFor();
  await world.call("/lost", { amount: "77.00" });
  const pages = { queue: "/", ticket: `/tickets/${plain.ticket}`, odd: `/tickets/${spaced.ticket}`, value: `/tickets/${spaced.ticket}/value?at=/body`, history: "/history", unknown: "/unknown", resolve: `/tickets/${lost}`, mandates: "/mandates", audit: "/audit", stale: "/tickets/none" };
  for (const colorScheme of ["light", "dark"]) {
    for (const [size, viewport] of Object.entries({ desk: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } })) {
      const { page, context } = await world.person("carol", { colorScheme, viewport });
      for (const [name, at] of Object.entries(pages)) {
        await page.goto(`${world.approvers}${at}`);
        await page.screenshot({ path: path.join(folder, `${name}-${size}-${colorScheme}.png`), fullPage: true });
      }
      await context.clearCookies();
      await page.goto(`${world.approvers}/login`);
      await page.screenshot({ path: path.join(folder, `login-${size}-${colorScheme}.png`), fullPage: true });
    }
  }
}

const world = await World.start(path.resolve(options.binary), { chromium });
let failed = 0;
try {
  if (options.shots) await shots(world, options.shots);
  for (const [at, { name, run }] of tests.entries()) {
    world.user = `user-${at}`;
    if (options.shots && wanted.length === 0) break;
    if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
    try {
      await run(world);
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack ?? error}`);
    }
    for (const context of world.browser.contexts()) await context.close();
  }
  if (failed > 0) console.log(readFileSync(world.log, "utf8").split("\n").slice(-30).join("\n"));
} finally {
  await world.stop();
}
process.exitCode = failed > 0 ? 1 : 0;
