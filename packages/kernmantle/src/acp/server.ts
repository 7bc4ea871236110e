// Implements the Agent Client Protocol, version 1, for one client: sessions, each of which is a thread. INVARIANT: the
// client never gets more than a person at a chat has; the policy of the surface `acp` narrows it.
import { statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import {
  type Failure,
  getOwn,
  type Json,
  type JsonObject,
  masked,
  type Outcome,
  ok,
  systemRandom,
  textAt,
} from '@kernmantle/core/base';
import type { RunRequest } from '@kernmantle/core/harness';
import { chatDirective, findPerson, type Runtime } from '@kernmantle/core/runtime';
import { readPrompt } from './prompt.ts';
import { createRpc, RPC, refuse } from './rpc.ts';
import { type AcpSession, createAcpSession } from './session.ts';

const PROTOCOL = 1;
const [MAX_SESSIONS, PAGE] = [64, 50];

interface ServerPorts {
  readonly input: Readable;
  readonly output: Writable;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** Directive of new sessions. Absent: that of the user's settings, or the shipped assistant. */
  readonly directive: string | undefined;
  /** Folder whose sessions are listed if the client names none. */
  readonly cwd: string;
  open(cwd: string): Promise<Outcome<Runtime>>;
  note(text: string): void;
}

const CAPABILITIES = {
  loadSession: true,
  promptCapabilities: { image: true, audio: false, embeddedContext: true },
  mcpCapabilities: { http: false, sse: false },
  sessionCapabilities: { list: {}, resume: {}, close: {} },
};

/** Shares the runtimes of projects between sessions. A runtime is closed when its last session ends. */
function createProjects(open: ServerPorts['open']) {
  const all = new Map<string, { opened: Promise<Outcome<Runtime>>; uses: number }>();
  return {
    async take(cwd: string): Promise<Outcome<Runtime>> {
      const entry = all.get(cwd) ?? { opened: open(cwd), uses: 0 };
      all.set(cwd, entry);
      entry.uses += 1;
      return await entry.opened;
    },
    async release(cwd: string): Promise<void> {
      const entry = all.get(cwd);
      if (!entry) return;
      entry.uses -= 1;
      if (entry.uses > 0) return;
      all.delete(cwd);
      const opened = await entry.opened;
      if (opened.ok) await opened.output.close();
    },
  };
}

/** Returns the folder of a session. It must be there, because a registry is created in it. */
function folderOf(cwd: string): Outcome<string> {
  const isFolder = isAbsolute(cwd) && statSync(cwd, { throwIfNoEntry: false })?.isDirectory();
  return isFolder === true
    ? ok(cwd)
    : refuse(RPC.invalidParams, '`cwd` must be the absolute path of a folder');
}

/** Returns the failure of a session that cannot start. A missing key is a missing login for the client. */
function startFailure({ error: { code, detail } }: Failure): Failure {
  const rpc = typeof detail.variable === 'string' ? RPC.authRequired : RPC.internal;
  return refuse(rpc, detail.message, { code });
}

export async function serveAcp(ports: ServerPorts): Promise<void> {
  const { input, output, env, version, note } = ports;
  const by = { who: findPerson(env), channel: 'acp' } as const;
  const projects = createProjects(ports.open);
  const sessions = new Map<string, { session: AcpSession; cwd: string }>();
  let [isInitialized, opening] = [false, 0];

  const onError = (error: unknown): void =>
    note(`acp: ${masked(error instanceof Error ? (error.stack ?? error.message) : String(error))}`);

  /** Opens a session in a folder. `id`: an existing thread. Absent: a new one. */
  async function openSession(params: JsonObject, id?: string): Promise<Outcome<AcpSession>> {
    const folder = folderOf(textAt(params, 'cwd'));
    if (!folder.ok) return folder;
    const cwd = folder.output;
    if (sessions.size + opening >= MAX_SESSIONS) {
      return refuse(RPC.invalidRequest, `${MAX_SESSIONS} sessions are open; close one first`);
    }
    opening += 1;
    const opened = await projects.take(cwd);
    const session = opened.ok ? await create(opened.output, id) : startFailure(opened);
    opening -= 1;
    if (!session.ok) {
      await projects.release(cwd);
      return session;
    }
    await closeSession(session.output.id);
    sessions.set(session.output.id, { session: session.output, cwd });
    const servers = params.mcpServers;
    if (Array.isArray(servers) && servers.length > 0) {
      note(`acp: ${servers.length} MCP servers of the client are not used`);
    }
    return session;
  }
  async function create(runtime: Runtime, known?: string): Promise<Outcome<AcpSession>> {
    const set =
      ports.directive === undefined ? chatDirective(runtime.home, 'acp') : ok(ports.directive);
    if (!set.ok) return startFailure(set);
    const directive = set.output;
    const starter = { who: by.who, surface: by.channel };
    const request: RunRequest = { directive, chat: 'acp', by: starter };
    const may = known === undefined ? await runtime.mayRun(request, true) : ok(null);
    if (!may.ok) return startFailure(may);
    const id = known ?? `acp_${Buffer.from(systemRandom(12)).toString('base64url')}`;
    return ok(createAcpSession({ id, runtime, rpc, by, request, onError }));
  }
  async function closeSession(id: string): Promise<void> {
    const entry = sessions.get(id);
    if (!entry) return;
    sessions.delete(id);
    await entry.session.close();
    await projects.release(entry.cwd);
  }
  function sessionOf(params: JsonObject): Outcome<AcpSession> {
    const id = textAt(params, 'sessionId');
    const entry = sessions.get(id);
    const missing = `session \`${id.slice(0, 100)}\` is not open; load or resume it first`;
    return entry ? ok(entry.session) : refuse(RPC.notFound, missing);
  }
  /** Continues a thread of the store as a session. A pending approval is asked again. */
  async function reopen(params: JsonObject, isReplayed: boolean): Promise<Outcome<Json>> {
    const id = textAt(params, 'sessionId');
    if (sessions.get(id)?.session.isWorking()) {
      return refuse(RPC.invalidRequest, `session \`${id}\` is at work; cancel it first`);
    }
    const opened = await openSession(params, id);
    if (!opened.ok) return opened;
    const session = opened.output;
    const row = await session.continue(isReplayed);
    if (!row.ok) {
      await closeSession(id);
      return row;
    }
    // The client gets the answer before the request.
    if (row.output.status === 'waiting') setImmediate(() => void session.askAgain());
    return ok(session.options.fields());
  }
  async function list(params: JsonObject): Promise<Outcome<Json>> {
    const folder = folderOf(textAt(params, 'cwd') || ports.cwd);
    if (!folder.ok) return folder;
    const cwd = folder.output;
    const opened = await projects.take(cwd);
    try {
      if (!opened.ok) return startFailure(opened);
      if (!opened.output.registry.isThere()) return ok({ sessions: [] });
      const threads = await opened.output.threads();
      if (!threads.ok) return startFailure(threads);
      const cursor = textAt(params, 'cursor');
      const filter = { runner: 'acp', limit: PAGE, ...(cursor !== '' && { cursor }) };
      const page = await threads.output.store.query(filter);
      if (!page.ok) return refuse(RPC.invalidParams, page.error.detail.message);
      const { rows, next_cursor: nextCursor } = page.output;
      const listed = rows.map(({ id, title, updated }) => ({
        sessionId: id,
        cwd,
        updatedAt: new Date(updated).toISOString(),
        ...(title !== undefined && { title: masked(title) }),
      }));
      return ok({ sessions: listed, ...(nextCursor !== undefined && { nextCursor }) });
    } finally {
      await projects.release(cwd);
    }
  }

  const methods: Readonly<Record<string, (params: JsonObject) => Promise<Outcome<Json>>>> = {
    async 'session/new'(params) {
      const opened = await openSession(params);
      if (!opened.ok) return opened;
      return ok({ sessionId: opened.output.id, ...opened.output.options.fields() });
    },
    'session/load': (params) => reopen(params, true),
    'session/resume': (params) => reopen(params, false),
    'session/list': list,
    async 'session/close'(params) {
      const session = sessionOf(params);
      if (session.ok) await closeSession(session.output.id);
      return session.ok ? ok({}) : session;
    },
    async 'session/prompt'(params) {
      const found = sessionOf(params);
      if (!found.ok) return found;
      const { runtime, run } = found.output;
      const isUntrusted = runtime.policies().policy.acp.words === 'untrusted';
      const line = readPrompt(params.prompt, { project: runtime.project, isUntrusted });
      const stopped = line.ok ? await run(line.output) : line;
      return stopped.ok ? ok({ stopReason: stopped.output }) : stopped;
    },
    async 'session/set_config_option'(params) {
      const session = sessionOf(params);
      return session.ok ? session.output.options.setOption(params) : session;
    },
    async 'session/set_mode'(params) {
      const session = sessionOf(params);
      return session.ok ? session.output.options.setMode(params) : session;
    },
    async 'session/cancel'(params) {
      const session = sessionOf(params);
      if (session.ok) await session.output.cancel();
      return session.ok ? ok(null) : session;
    },
    authenticate: async () =>
      refuse(RPC.invalidParams, 'there is nothing to log in to; keys are variables of the process'),
  };
  const initialize = async (params: JsonObject): Promise<Outcome<Json>> => {
    if (!Number.isSafeInteger(getOwn(params, 'protocolVersion'))) {
      return refuse(RPC.invalidParams, '`protocolVersion` must be a number');
    }
    isInitialized = true;
    return ok({
      protocolVersion: PROTOCOL,
      agentCapabilities: CAPABILITIES,
      authMethods: [],
      agentInfo: { name: 'kernmantle', title: 'kernmantle', version },
    });
  };
  const guarded = Object.entries(methods).map(([name, method]) => [
    name,
    (params: JsonObject) =>
      isInitialized
        ? method(params)
        : Promise.resolve(refuse(RPC.invalidRequest, 'send `initialize` first')),
  ]);
  const rpc = createRpc({
    input,
    output,
    methods: { ...Object.fromEntries(guarded), initialize },
    onError,
  });
  await rpc.run();
  await Promise.all([...sessions.keys()].map(closeSession));
}
