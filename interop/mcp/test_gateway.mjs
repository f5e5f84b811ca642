// The gateway in front of the official TypeScript SDKs: the one of the 2025 handshake, and the one of the stateless revision,
// over standard input and output and over HTTP, with a bank behind that is a process of each session or one for all.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { PATIENCE, World, bankOverHttp, judges, stop } from "./world.mjs";

const { COUNTERSIGN, BANK_PYTHON, BANK, BANK_PACT } = process.env;

async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    assert(Date.now() < end, what);
    await sleep(20);
  }
}

function isPartOf(part, whole) {
  for (const [name, value] of Object.entries(part)) {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) isPartOf(value, whole[name]);
    else assert.deepEqual(value, whole[name], name);
  }
}

// What the gate says of a call that was not carried out: for a program, and once more where a model reads it.
function said(result) {
  assert.equal(result.isError, true, JSON.stringify(result));
  const read = result.structuredContent ?? JSON.parse(result.content[1].text);
  // A text holds what a program branches on; `_meta` has all of it.
  assert(read.countersign.code ?? read.countersign.error?.code ?? read.countersign.verdict, JSON.stringify(read));
  isPartOf(read.countersign, result._meta.countersign);
  return result._meta.countersign;
}

// What passes is the server's own, with what it reports on the way.
async function passing(judge, client, heard) {
  const names = (await client.listTools()).tools.map((tool) => tool.name);
  for (const name of ["get_account", "transfer", "audit", "countersign_continue"]) assert(names.includes(name), `${name}: ${names}`);
  const account = await judge.call({ name: "get_account", arguments: { account: "abc" } });
  assert.deepEqual(account.structuredContent, { status: "active", balance: 3 });
  assert.deepEqual(account._meta.countersign.observed, ['Account::"abc"'], "the pact has a fact from this tool");
  const unmapped = await judge.call({ name: "waits_given_up", arguments: {} });
  assert.equal(unmapped._meta?.countersign, undefined, "what no pact maps carries no word of the gate");
  const audited = await judge.call({ name: "audit", arguments: {} }, { onprogress: () => {} });
  assert.equal(audited.content[0].text, "all is well");
  // As it came: the first SDK forgets progress that it reads in one go with the answer.
  assert.deepEqual(heard.progress.map(({ progress, total }) => [progress, total]), [[1, 3], [2, 3], [3, 3]]);
  assert.equal(new Set(heard.progress.map(({ progressToken }) => progressToken)).size, 1);
  assert.equal((await client.readResource({ uri: "bank://rules" })).contents[0].text, "be fair");
  const greeting = await client.getPrompt({ name: "greet", arguments: { name: "Ada" } });
  assert(greeting.messages[0].content.text.includes("Ada"));
  if (!judge.isModern) {
    // The calls of a pact rest on this server, and an answer to its question could come between a last look and a call.
    const asked = await judge.call({ name: "are_you_sure", arguments: {} }).then(
      (result) => (result.isError ? result.content[0].text : ""),
      (error) => error.message,
    );
    assert.match(asked, /does not let it answer/);
  }
}

// What a pact maps is decided, and what the gate says can be read by a program.
async function gated(judge) {
  const done = await judge.call({ name: "transfer", arguments: { account: "abc", amount: 2 } });
  assert.equal(done.isError ?? false, false, JSON.stringify(done));
  assert.equal(done.content[0].text, "moved 2 from abc");
  assert.equal(done._meta.countersign.verdict, "settled");
  assert.equal(done._meta.countersign.atomicity, "rechecked");
  const refused = await judge.call({ name: "transfer", arguments: { account: "abc", amount: 9 } });
  const why = said(refused);
  assert.equal(why.code, "precondition_failed");
  assert.equal(why.failed[0].precondition, "balance-covers-it");
  // The account is as it was seen, so seeing it again would change nothing.
  assert.deepEqual(why.retry, { how: "change" });
  assert.match(refused.content[0].text, /balance-covers-it/);
  const wrong = await judge.call({ name: "transfer", arguments: { account: "abc", amount: "much" } });
  assert.equal(said(wrong).code, "invalid_params");
}

// A call that waits for a person is asked for again by its continuation, and is made once.
async function reviewed(judge, world) {
  const params = { name: "transfer", arguments: { account: "a".repeat(150), amount: 120 } };
  const waiting = said(await judge.call(params));
  assert.equal(waiting.verdict, "review", JSON.stringify(waiting));
  assert.equal(waiting.retry.how, "continue");
  const again = { name: "countersign_continue", arguments: { continuation: waiting.continuation, wait_ms: 0 } };
  assert.equal(said(await judge.call(again)).verdict, "review");
  world.begin("review", "approve", waiting.review, "--yes", "--server", world.gate.url);
  let done;
  await until("the approved call is made", async () => {
    done = await judge.call({ ...again, arguments: { ...again.arguments, wait_ms: 1000 } });
    return !done.isError;
  });
  assert.equal(done.content[0].text, `moved 120 from ${"a".repeat(150)}`);
  assert.equal(done._meta.countersign.verdict, "settled");
  const repeated = await judge.call(again);
  assert.equal(repeated._meta.countersign.entry, done._meta.countersign.entry);
  const unknown = await judge.call({ name: "countersign_continue", arguments: { continuation: "made up" } });
  assert.equal(said(unknown).error.code, "outcome_unknown");
}

// A call that the client gives up is cancelled behind the gateway too.
async function givingUp(judge, isShared) {
  const count = async () => (await judge.call({ name: "waits_given_up", arguments: {} })).structuredContent.result;
  const before = await count();
  const stopping = new AbortController();
  const waiting = judge.call({ name: "wait_for_the_manager", arguments: {} }, { signal: stopping.signal });
  setTimeout(() => stopping.abort("bored"), 300);
  await assert.rejects(waiting);
  // Without a session and with a process for each, the process that waited has ended with its request.
  if (isShared) await until("the bank hears of it", async () => (await count()) > before);
  else assert.equal(typeof (await count()), "number");
}

// A change of the list is told, and what is new in it is not shown: nobody has approved it.
async function changing(judge, client, heard) {
  const listening = judge.isModern ? await client.listen({ toolsListChanged: true }, { timeout: PATIENCE }) : null;
  const before = heard.count;
  for (const wanted of ["open", "closed"]) {
    const toggled = await judge.call({ name: "open_or_close_the_branch", arguments: {} });
    assert.equal(toggled.content[0].text, wanted);
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    assert(!names.includes("branch") && names.includes("get_account"), String(names));
  }
  await until("the changes are heard", () => heard.count >= before + 2);
  await listening?.close();
}

async function judged(judge, transport, world, { how, isShared, sharesList }) {
  const heard = { count: 0, progress: [] };
  const client = await judge.connect(transport, { onChanged: () => void (heard.count += 1) });
  const taken = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.method === "notifications/progress") heard.progress.push(message.params);
    return taken.call(transport, message, extra);
  };
  try {
    await passing(judge, client, heard);
    await gated(judge);
    await reviewed(judge, world);
    await givingUp(judge, isShared || (!judge.isModern));
    if (sharesList || !judge.isModern) await changing(judge, client, heard);
  } finally {
    await client.close();
  }
  console.log(`ok ${judge.name}, ${how}`);
}

async function all(upstream, what, isShared) {
  const world = await World.make(upstream, BANK_PACT);
  try {
    for (const judge of judges()) {
      const transport = judge.stdio({ command: COUNTERSIGN, args: world.gateway(), cwd: world.folder, stderr: "inherit" });
      await judged(judge, transport, world, { how: `stdio, ${what}`, isShared: true, sharesList: true });
    }
    const gateway = await world.listening(...world.gateway(), "--listen", "127.0.0.1:0");
    for (const judge of judges()) {
      const transport = judge.http(gateway.url);
      await judged(judge, transport, world, { how: `HTTP, ${what}`, isShared, sharesList: isShared });
    }
    await stop(gateway.child);
  } finally {
    await world.end();
  }
}

await all([BANK_PYTHON, "-B", BANK], "a bank for each session", false);
const bank = await bankOverHttp();
try {
  await all(bank.url, "one bank over HTTP", true);
} finally {
  bank.child.kill("SIGTERM");
}
console.log("ok");
process.exit(0);
