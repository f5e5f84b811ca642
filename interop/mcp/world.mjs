// A folder with a gate that runs, an agent, a bank behind, and the official SDKs in front, each behind the same few words.
//
// Everything is on loopback and bounded in time; every process is started here and ended here, by its id.

import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

export const PATIENCE = 60_000;
const { COUNTERSIGN, BANK_PYTHON, BANK } = process.env;

export class World {
  // `upstream` is where the bank is: the words of a command, or an address.
  static async make(upstream, pact) {
    const world = new World();
    world.folder = mkdtempSync(join(tmpdir(), "countersign-ts-"));
    const place = Array.isArray(upstream) ? `command = ${JSON.stringify(upstream)}` : `url = ${JSON.stringify(upstream)}`;
    writeFileSync(join(world.folder, "countersign.toml"), `[mcp.upstream.bank]\n${place}\n`);
    copyFileSync(pact, join(world.folder, "bank.toml"));
    world.run("init", "--open");
    world.gate = await world.listening("serve", "--listen", "127.0.0.1:0");
    const agent = { roles: [], standing: "active", org: "acme", trust: 500 };
    world.run("fact", "put", "Agent", "coder-1", JSON.stringify(agent), "--server", world.gate.url);
    world.run("mcp", "approve", "--server", world.gate.url);
    world.run("pact", "publish", "bank.toml", "--server", world.gate.url);
    return world;
  }

  run(...words) {
    return this.ended(words, [0]);
  }

  // Runs a command whose answer may be that a call is on its way, which is not done yet.
  begin(...words) {
    return this.ended(words, [0, 6]);
  }

  ended(words, statuses) {
    const done = spawnSync(COUNTERSIGN, words, { cwd: this.folder, encoding: "utf8", timeout: PATIENCE });
    if (!statuses.includes(done.status)) throw new Error(`${words.join(" ")}: ${done.status}: ${done.stderr}`);
    return done.stdout;
  }

  // Starts something that listens; its process and address.
  async listening(...words) {
    const child = spawn(COUNTERSIGN, words, { cwd: this.folder, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    for await (const line of createInterface({ input: child.stderr })) {
      said += `${line}\n`;
      if (line.startsWith("Listening on ")) {
        // What it says later must not fill the pipe.
        child.stderr.resume();
        return { child, url: line.slice("Listening on ".length).trim() };
      }
    }
    throw new Error(`${words.join(" ")} ended: ${said}`);
  }

  gateway() {
    return ["mcp", "serve", "--agent", "coder-1", "--server", this.gate.url];
  }

  async end() {
    await stop(this.gate.child);
    this.run("audit");
    rmSync(this.folder, { recursive: true });
  }
}

export async function stop(child) {
  if (child.exitCode === null) {
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
    await new Promise((done) => child.once("exit", done));
    clearTimeout(late);
  }
  if (child.exitCode !== 0) throw new Error(`${child.spawnargs.join(" ")} ended with ${child.exitCode}, ${child.signalCode}`);
}

// The bank as a server over HTTP.
export async function bankOverHttp() {
  const port = await new Promise((done) => {
    const free = createServer().listen(0, "127.0.0.1", () => {
      const { port } = free.address();
      free.close(() => done(port));
    });
  });
  const child = spawn(BANK_PYTHON, ["-B", BANK, String(port)], { stdio: ["ignore", "ignore", "ignore"] });
  const until = Date.now() + PATIENCE;
  while (!(await reachable(port))) {
    if (Date.now() > until || child.exitCode !== null) throw new Error("the bank does not listen");
    await sleep(50);
  }
  return { child, url: `http://127.0.0.1:${port}/mcp` };
}

function reachable(port) {
  return new Promise((done) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => (socket.destroy(), done(true)));
    socket.once("error", () => done(false));
  });
}

const INFO = { name: "judge", version: "1.0.0" };

// The SDK of the 2025 handshake.
class First {
  name = "sdk 1, handshake";
  isModern = false;

  async connect(transport, { onChanged }) {
    this.client = new Client1(INFO, { capabilities: { elicitation: {} } });
    this.client.setRequestHandler(ElicitRequestSchema, yes);
    this.client.setNotificationHandler(ToolListChangedNotificationSchema, onChanged);
    await this.client.connect(transport, { timeout: PATIENCE });
    return this.client;
  }

  stdio = (parameters) => new Stdio1(parameters);
  http = (url) => new Http1(new URL(url));
  call = (params, options) => this.client.callTool(params, undefined, { timeout: PATIENCE, ...options });
}

// The SDK of the stateless revision, which also knows the handshake.
class Second {
  constructor(mode, isModern) {
    this.name = `client 2, ${typeof mode === "string" ? mode : mode.pin}`;
    this.mode = mode;
    this.isModern = isModern;
  }

  async connect(transport, { onChanged }) {
    const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode: this.mode } };
    this.client = new Client2(INFO, options);
    this.client.setRequestHandler("elicitation/create", yes);
    this.client.setNotificationHandler("notifications/tools/list_changed", onChanged);
    await this.client.connect(transport, { timeout: PATIENCE });
    return this.client;
  }

  stdio = (parameters) => new Stdio2(parameters);
  http = (url) => new Http2(new URL(url));
  call = (params, options) => this.client.callTool(params, { timeout: PATIENCE, ...options });
}

const yes = async () => ({ action: "accept", content: { sure: true } });

// Everybody that judges, in every revision that it knows.
export const judges = () => [
  new First(),
  new Second("legacy", false),
  new Second({ pin: "2026-07-28" }, true),
  new Second("auto", true),
];
