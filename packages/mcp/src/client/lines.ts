// Opens the transport to one server: the pipes of a sandboxed process, or HTTP to checked addresses. It
// also provides the status of the process and its last output.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Failure, fail, messageOf, type Outcome, ok } from '@kernmantle/core/base';
import { EMPTY } from '@kernmantle/core/flow';
import { type KeptProcess, openFetch, startKept, type Verifier } from '@kernmantle/core/kernel';
import { StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { connectionFailed, nameOf } from './failures.ts';
import { loginFor, refreshingOnce } from './oauth.ts';
import type { Endpoint, HttpEndpoint, StdioEndpoint } from './pool.ts';
import type { McpPoolPorts } from './ports.ts';
import { createProcessBox, type ProcessBox } from './process-box.ts';
import { ProcessTransport } from './stdio-transport.ts';

export interface McpLine {
  readonly transport: Transport;
  /** Marks of a process. Absent over HTTP. */
  readonly box?: ProcessBox;
  readonly process?: KeptProcess;
  /** The rules under which the process was started. */
  readonly verify: Verifier;
  /** Trace attributes for the location of the server. */
  readonly place: Readonly<Record<string, string | number>>;
  /** Returns the exit status and last output. Undefined if the process runs or was closed by this client. */
  ended(): string | undefined;
  /** Returns the last lines of the process on stderr. */
  said(): string;
  /** Must be awaited before `ended` is read after an error, because the exit event can be late. */
  settled(): Promise<void>;
  /** Returns why the last request failed. Undefined if it succeeded. */
  fault(): Failure | undefined;
  /** Completes a login. Returns true if a person logged in, so that a retry makes sense. */
  loggedIn(): Promise<Outcome<boolean>>;
  /** Ends the session on the server, with a short timeout. */
  takeLeave(): Promise<void>;
  /** Ends the process or the streams. Never throws. */
  close(): Promise<Outcome<null>>;
}

const MAX_SAID = 400;
const SETTLE_MS = 500;
/** Matches a line of a stack trace. The message is before it. */
const STACK_LINE = /^[ \t]+at .*?(\{?)[ \t]*$/gm;

/** Returns the last output of a process without stack traces, which would hide the message. */
const lastWords = (output: string): string =>
  output.replaceAll(STACK_LINE, '$1').trim().slice(-MAX_SAID);
const MAX_LINES = 20;
const MAX_LINE = 300;

function lastLines(output: string): string {
  const lines = output
    .replaceAll(STACK_LINE, '$1')
    .split('\n')
    .map((line) => line.trimEnd());
  const last = lines.filter((line) => line !== '').slice(-MAX_LINES);
  return last.map((line) => line.slice(0, MAX_LINE)).join('\n');
}
const LEAVE_MS = 500;

async function openProcess(
  endpoint: StdioEndpoint,
  ports: McpPoolPorts,
  maxBytes: number,
): Promise<Outcome<McpLine>> {
  const { command, args, env, grants } = endpoint;
  const verify = ports.verify();
  let box: ProcessBox | undefined;
  const started = await startKept(
    {
      id: `mcp server ${nameOf(endpoint)}`,
      command,
      args,
      env,
      grants,
      verify,
      projectRoot: ports.projectRoot,
      async beforeStart(facts) {
        const may = { mayWrite: grants.write.length > 0, hasNetwork: grants.network };
        box = createProcessBox(facts, may, ports);
        const recorded = await box.give(EMPTY);
        return recorded.ok ? ok(null) : recorded;
      },
    },
    await ports.process(),
  );
  if (!started.ok) return notStarted(endpoint, started);
  if (!box) return fail('internal_error', 'the process was started before its marks were recorded');
  const process = started.output;
  const ended = box.ended;
  let how: string | undefined;
  const over = process.closed.then((end) => {
    const output = lastWords(process.said());
    if (end.isOwn) how = output === '' ? end.how : `${end.how}: ${output}`;
    const { paths, folder } = end.quarantined;
    if (paths.length > 0) ports.onSetAside?.(paths, folder);
    return ended();
  });
  over.catch(() => undefined);
  return ok({
    transport: new ProcessTransport(process, maxBytes),
    box,
    process,
    verify,
    place: { 'network.transport': 'pipe' },
    ended: () => how,
    said: () => lastLines(process.said()),
    async settled() {
      if (how !== undefined || process.stdin.writable) return;
      await Promise.race([over, sleep(SETTLE_MS)]);
    },
    fault: () => undefined,
    loggedIn: () => Promise.resolve(ok(false)),
    takeLeave: () => Promise.resolve(),
    async close() {
      await process.close();
      try {
        return await over;
      } catch (error) {
        // The writable paths stay marked after this failure.
        return fail('internal_error', messageOf(error));
      }
    },
  });
}

/** Translates a failed start. A missing program is a connection failure. A refusal stays a refusal. */
function notStarted(endpoint: Endpoint, failure: Failure): Failure {
  const { code, detail } = failure.error;
  if (code !== 'dependency_missing' && code !== 'config_invalid') return failure;
  return connectionFailed(endpoint, {
    cause: detail.message,
    retryable: false,
    remediation: 'check `command` and `args` of its connector',
    more: { sent: false },
  });
}

async function openHttp(
  endpoint: HttpEndpoint,
  ports: McpPoolPorts,
  maxBytes: number,
): Promise<Outcome<McpLine>> {
  const url = URL.parse(endpoint.url);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return fail('config_invalid', 'the address of an MCP server must begin with http or https');
  }
  const { clock, isHostAllowed } = ports;
  let fault: Failure | undefined;
  const opened = await openFetch({
    clock,
    isHostAllowed,
    verify: (need) => ports.verify()(need),
    maxBytes,
    onBroken(failure) {
      fault = failure;
    },
  });
  const own = Object.entries(endpoint.headers);
  const over = new AbortController();
  const { home, client, authorize } = ports;
  const login = loginFor(endpoint, home, client.name, authorize, over.signal);
  if (!login.ok) return login;
  const transport = new StreamableHTTPClientTransport(url, {
    ...(login.output && { authProvider: login.output }),
    fetch: refreshingOnce(async (target, init = {}) => {
      const headers = new Headers(init.headers);
      // Credentials are never sent to another origin, even after a redirect.
      if (new URL(target).origin === url.origin) {
        for (const [name, value] of own) if (!headers.has(name)) headers.set(name, value);
      }
      try {
        const answer = await opened.fetch(target, { ...init, headers });
        fault = undefined;
        return answer;
      } catch (error) {
        if (error instanceof Error && 'failure' in error) fault = error.failure as Failure;
        throw error;
      }
    }),
  });
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return ok({
    transport,
    verify: ports.verify(),
    place: { 'network.transport': 'tcp', 'server.address': url.hostname, 'server.port': port },
    ended: () => undefined,
    said: () => '',
    settled: () => Promise.resolve(),
    fault: () => fault,
    async loggedIn() {
      try {
        const finish = login.output?.finish ?? (() => Promise.resolve(false));
        return ok(await finish((query) => transport.finishAuth(query)));
      } catch (error) {
        return connectionFailed(endpoint, {
          cause: `the login failed: ${messageOf(error)}`,
          retryable: false,
          remediation: 'log in again',
        });
      }
    },
    async takeLeave() {
      const termination = transport.terminateSession().catch(() => undefined);
      await Promise.race([termination, sleep(LEAVE_MS)]);
    },
    async close() {
      over.abort();
      opened.close();
      return ok(null);
    },
  });
}

export async function openLine(
  endpoint: Endpoint,
  ports: McpPoolPorts,
  maxBytes: number,
): Promise<Outcome<McpLine>> {
  try {
    return endpoint.kind === 'stdio'
      ? await openProcess(endpoint, ports, maxBytes)
      : await openHttp(endpoint, ports, maxBytes);
  } catch (error) {
    return connectionFailed(endpoint, {
      cause: messageOf(error),
      retryable: false,
      remediation: 'check its connector',
    });
  }
}
