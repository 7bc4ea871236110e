// Starts `km acp` as an editor does and speaks with it through the official client. Every line that the process writes
// is checked against the published schema of the protocol.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import {
  type AnyMessage,
  type ClientContext,
  client,
  ndJsonStream,
  type PromptResponse,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
} from '@agentclientprotocol/sdk';
import { type Schema, Validator } from '@cfworker/json-schema';
import { type ScriptedProvider, startScriptedProvider } from '@kernmantle/core/llm';
import { onTestFinished } from 'vitest';
import { type Fixture, makeFixture, TRUSTING } from './project.ts';

const KM = join(import.meta.dirname, '../../bin/km.js');

/** Finds the package by its entry, because its exports do not name the schema. */
function readSchema(): Schema {
  const entry = createRequire(import.meta.url).resolve('@agentclientprotocol/sdk');
  const folder = join(dirname(entry), '../../..');
  return JSON.parse(readFileSync(join(folder, 'schema/v1/schema.json'), 'utf8')) as Schema;
}

/** Names of the results of the methods that the agent answers, in the schema. */
const RESULTS: Readonly<Record<string, string>> = {
  initialize: 'InitializeResponse',
  'session/new': 'NewSessionResponse',
  'session/load': 'LoadSessionResponse',
  'session/resume': 'ResumeSessionResponse',
  'session/list': 'ListSessionsResponse',
  'session/close': 'CloseSessionResponse',
  'session/prompt': 'PromptResponse',
  'session/set_mode': 'SetSessionModeResponse',
  'session/set_config_option': 'SetSessionConfigOptionResponse',
};
/** Names of the parameters of the messages that the agent sends. */
const PARAMS: Readonly<Record<string, string>> = {
  'session/update': 'SessionNotification',
  'session/request_permission': 'RequestPermissionRequest',
  '$/cancel_request': 'CancelRequestNotification',
};

/** Returns a check of the lines of an agent. It throws at the first line that the schema refuses. */
export function createSchemaCheck() {
  const schema = readSchema();
  const validators = new Map<string, Validator>();
  const methods = new Map<unknown, string>();
  let count = 0;
  function check(name: string, value: unknown): void {
    const ref: Schema = { $defs: schema.$defs, $ref: `#/$defs/${name}` };
    const validator = validators.get(name) ?? new Validator(ref, '2020-12');
    validators.set(name, validator);
    const { valid, errors } = validator.validate(value);
    if (!valid) {
      const why = errors.map((one) => `${one.instanceLocation} ${one.error}`).join('; ');
      throw new Error(`${name}: ${why}: ${JSON.stringify(value)}`);
    }
    count += 1;
  }
  return {
    /** Number of messages that were checked. */
    count: () => count,
    sent({ id, method }: { id?: unknown; method?: unknown }): void {
      if (id !== undefined && typeof method === 'string') methods.set(id, method);
    },
    received(line: string): void {
      const message = JSON.parse(line) as Record<string, unknown>;
      if (message.jsonrpc !== '2.0') throw new Error(`no JSON-RPC: ${line}`);
      const { id, method, error, result, params } = message;
      if (typeof method === 'string') check(PARAMS[method] ?? method, params);
      else if (error !== undefined) check('Error', error);
      else check(RESULTS[methods.get(id) ?? ''] ?? 'unknown method', result);
    },
  };
}

export type Permission = (
  request: RequestPermissionRequest,
) => RequestPermissionResponse | Promise<RequestPermissionResponse>;

export const pick = (optionId: string): RequestPermissionResponse => ({
  outcome: { outcome: 'selected', optionId },
});

export interface AcpClient {
  readonly agent: ClientContext;
  readonly child: ChildProcess;
  /** Updates of all sessions so far. */
  readonly updates: SessionUpdate[];
  readonly asked: RequestPermissionRequest[];
  readonly checked: ReturnType<typeof createSchemaCheck>;
  /** Errors of the schema. A test expects none. */
  readonly faults: string[];
  /** Text of the answers so far. */
  text(): string;
  /** Text that the process wrote for people. */
  notes(): string;
  start(cwd: string): Promise<string>;
  prompt(sessionId: string, text: string): Promise<string>;
  /** Resolves with the exit code, or with null after a signal. */
  readonly ended: Promise<number | null>;
  /** Closes the input and returns the exit code. */
  end(): Promise<number | null>;
}

/** Creates a project with a scripted provider and with `files`. */
export async function acpProject(
  script: Parameters<typeof startScriptedProvider>[0],
  files: Record<string, string> = {},
): Promise<{ fixture: Fixture; provider: ScriptedProvider }> {
  const provider = await startScriptedProvider(script);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const fixture = makeFixture({ '../home/policy.yaml': TRUSTING, ...files });
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: provider.output.url, ANTHROPIC_API_KEY: 'key' });
  onTestFinished(async () => {
    await provider.output.close();
    fixture.remove();
  });
  return { fixture, provider: provider.output };
}

/** Starts the process and initializes the connection. `permission` answers the requests of the agent. */
export async function acpClient(
  { root, env }: Pick<Fixture, 'root' | 'env'>,
  permission: Permission = () => ({ outcome: { outcome: 'cancelled' } }),
  words: readonly string[] = [],
): Promise<AcpClient> {
  const child = spawn(process.execPath, [KM, 'acp', ...words], { cwd: root, env });
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  onTestFinished(() => void child.kill('SIGKILL'));
  let notes = '';
  child.stderr.on('data', (chunk: Buffer) => {
    notes += chunk.toString();
  });
  const checked = createSchemaCheck();
  const faults: string[] = [];
  let rest = '';
  const tee = new PassThrough();
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      try {
        checked.received(line);
      } catch (error) {
        faults.push((error as Error).message);
      }
    }
    tee.write(chunk);
  });
  child.stdout.on('end', () => tee.end());
  const wire = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(tee));
  const outgoing = new TransformStream<AnyMessage, AnyMessage>({
    transform(message, controller) {
      checked.sent(message);
      controller.enqueue(message);
    },
  });
  void outgoing.readable.pipeTo(wire.writable).catch(() => {});
  const updates: SessionUpdate[] = [];
  const asked: RequestPermissionRequest[] = [];
  const { agent } = client({ name: 'test' })
    .onNotification('session/update', ({ params }) => void updates.push(params.update))
    .onRequest('session/request_permission', ({ params }) => {
      asked.push(params);
      return permission(params);
    })
    .connect({ readable: wire.readable, writable: outgoing.writable });
  await agent.request('initialize', { protocolVersion: 1, clientCapabilities: {} });
  return {
    agent,
    child,
    updates,
    asked,
    checked,
    faults,
    ended,
    text: () =>
      updates
        .map((one) =>
          one.sessionUpdate === 'agent_message_chunk' && one.content.type === 'text'
            ? one.content.text
            : '',
        )
        .join(''),
    notes: () => notes,
    async start(cwd) {
      const { sessionId } = await agent.request('session/new', { cwd, mcpServers: [] });
      return sessionId;
    },
    async prompt(sessionId, text) {
      const prompt = [{ type: 'text' as const, text }];
      const done = await agent.request<PromptResponse>('session/prompt', { sessionId, prompt });
      return done.stopReason;
    },
    async end() {
      child.stdin.end();
      return await ended;
    },
  };
}
