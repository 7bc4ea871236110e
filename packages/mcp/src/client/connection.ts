// Implements a connection to one server: its tool list, its open requests, and whether it is still usable. The
// pool decides when it opens and closes.
import {
  compact,
  createRedactor,
  type Failure,
  fail,
  getOwn,
  isDeeperThan,
  isObject,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
  plainText,
  withDetail,
} from '@kernmantle/core/base';
import { type Descriptor, EMPTY, markFailure, mergeDescriptors } from '@kernmantle/core/flow';
import {
  Client,
  type jsonSchemaValidator,
  ProtocolError,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { asConnectionFault, failureOf, redacted, secretsOf } from './failures.ts';
import type { McpLine } from './lines.ts';
import { AS_IT_IS, hasValidHeaders, readTools, repeatsAsHeader } from './listing.ts';
import type { Endpoint, Listing, PoolCall, ServerAnswer, ServerTool } from './pool.ts';
import type { McpPoolPorts, PoolLimits, TraceContext } from './ports.ts';
import { TransportGate } from './transport-gate.ts';

const MAX_TIMER = 2 ** 31 - 1;
/** Minimum interval between two reads of the tool list, however often the server announces a change. */
const LIST_PAUSE_MS = 1000;
/** Error code of a server whose current tool maps other parameters to headers than the cached tool. */
const HEADER_MISMATCH = -32_020;
const MAX_ROUNDS = 8;
/** A process that does not answer this probe in time is treated as a server of the older revision. */
const PROBE_MS = 5000;

/** Accepts every value. The kernel validates inputs, so untrusted patterns of a server never run here. */
const UNJUDGED = {
  getValidator: () => (data: unknown) => ({ valid: true, data, errorMessage: undefined }),
} as unknown as jsonSchemaValidator;

export interface ServerRequest {
  readonly method: string;
  readonly params: JsonObject;
}

interface Listed extends Listing {
  readonly byName: ReadonlyMap<string, ServerTool>;
  readonly at: number;
  /** Number of changes that the server had announced when the list was requested. */
  readonly of: number;
}

const metaOf = (context: TraceContext): JsonObject => compact({ ...context });

function withMeta(params: JsonObject, meta: JsonObject): JsonObject {
  if (Object.keys(meta).length === 0) return params;
  const existing = getOwn(params, '_meta');
  return { ...params, _meta: { ...(isObject(existing) ? existing : {}), ...meta } };
}

function newClient(
  { client, elicit }: McpPoolPorts,
  isProcess: boolean,
  connectMs: number,
): Client {
  const sdkClient = new Client(
    { ...client },
    {
      capabilities: elicit ? { elicitation: { form: { applyDefaults: true } } } : {},
      versionNegotiation: {
        mode: 'auto',
        probe: { timeoutMs: isProcess ? Math.min(PROBE_MS, connectMs) : connectMs },
      },
      inputRequired: { maxRounds: MAX_ROUNDS },
      jsonSchemaValidator: UNJUDGED,
    },
  );
  if (elicit) {
    sdkClient.setRequestHandler('elicitation/create', async ({ params }) => {
      const answer = await elicit(params as unknown as JsonObject);
      return answer as { action: 'accept' };
    });
  }
  return sdkClient;
}

export class McpConnection {
  readonly client: Client;
  readonly line: McpLine;
  readonly #endpoint: Endpoint;
  readonly #ports: McpPoolPorts;
  readonly #limits: PoolLimits;
  readonly #gate: TransportGate;
  readonly #redactable: readonly string[];
  /** True if the server dropped this session or does not answer. */
  isWorn = false;
  isOpen = true;
  #changes = 0;
  #listed: Listed | undefined;
  #reading: Promise<Outcome<Listed>> | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #closing: Promise<Outcome<null>> | undefined;
  readonly #ending = new AbortController();

  constructor(endpoint: Endpoint, line: McpLine, ports: McpPoolPorts, limits: PoolLimits) {
    this.#endpoint = endpoint;
    this.#ports = ports;
    this.#limits = limits;
    this.line = line;
    this.#redactable = secretsOf(endpoint);
    this.client = newClient(ports, line.process !== undefined, limits.connectMs);
    this.#gate = new TransportGate(line.transport, {
      clock: ports.clock,
      answered: ports.elicit ? ['elicitation/create'] : [],
      onListChanged: () => {
        this.#changes++;
      },
    });
  }

  /** Connects to the server. `onClosed` is also called if the connection breaks. */
  async open(isLegacy: boolean, onClosed: () => void): Promise<Outcome<null>> {
    const onclose = (): void => {
      this.isOpen = false;
      onClosed();
    };
    Object.assign(this.client, { onclose, onerror: () => undefined });
    const timeout = this.#limits.connectMs;
    const { signal } = this.#ending;
    try {
      await this.client.connect(this.#gate, {
        timeout,
        signal,
        ...(isLegacy && { prior: { kind: 'legacy' } }),
      });
    } catch (error) {
      this.isOpen = false;
      const failure = await this.#failure(
        error,
        { signal, timeoutMs: timeout, secrets: [] },
        false,
      );
      await this.close();
      const log = this.line.said();
      const failed = asConnectionFault(this.#endpoint, failure);
      return log === '' ? failed : redacted(withDetail(failed, { said: log }), this.#redactable);
    }
    this.#listen();
    return ok(null);
  }

  /** Subscribes to changes of the tool list. Revision 2026-07-28 and later require it. */
  #listen(): void {
    if (this.client.getProtocolEra() !== 'modern') return;
    if (!this.client.getServerCapabilities()?.tools?.listChanged) return;
    const { signal } = this.#ending;
    this.client.listen({ toolsListChanged: true }, { signal }).catch(() => undefined);
  }

  async #failure(
    error: unknown,
    { signal, timeoutMs, secrets }: Pick<PoolCall, 'signal' | 'timeoutMs' | 'secrets'>,
    isSent: boolean,
  ): Promise<Failure> {
    const { line } = this;
    await line.settled();
    const endpoint = this.#endpoint;
    const [ended, fault] = [line.ended(), line.fault()];
    const failure = failureOf({ endpoint, error, signal, timeoutMs, isSent, ended, fault });
    return redacted(failure, [...secrets, ...this.#redactable]);
  }

  async #around<T>(
    { method, params }: ServerRequest,
    work: (context: TraceContext) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    const { span } = this.#ports;
    if (!span) return await work({});
    const tool = method === 'tools/call' ? getOwn(params, 'name') : undefined;
    const attributes = {
      'mcp.method.name': method,
      ...(typeof tool === 'string' && { 'gen_ai.tool.name': tool }),
      ...compact({
        'mcp.session.id': this.#gate.sessionId,
        'mcp.protocol.version': this.client.getNegotiatedProtocolVersion(),
      }),
      ...this.line.place,
    };
    const name = typeof tool === 'string' ? `${method} ${tool}` : method;
    return await span(name, attributes, work);
  }

  /** Returns the cached tool list, or undefined if it is not fresh. */
  kept(): Listed | undefined {
    const listed = this.#listed;
    const isYoung = listed && this.#ports.clock.monotonic() - listed.at < this.#limits.listAgeMs;
    return isYoung && listed.of === this.#changes ? listed : undefined;
  }

  /** Returns the cached tool list if it is fresh, or reads it. Parallel callers share one read. */
  list(isFresh: boolean): Promise<Outcome<Listed>> {
    const cached = isFresh ? undefined : this.kept();
    if (cached) return Promise.resolve(ok(cached));
    this.#reading ??= this.#read(isFresh).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(isFresh: boolean): Promise<Outcome<Listed>> {
    const { clock } = this.#ports;
    const pause = this.#readAt + LIST_PAUSE_MS - clock.monotonic();
    if (pause > 0 && !isFresh) await new Promise((resolve) => setTimeout(resolve, pause));
    const [at, of] = [clock.monotonic(), this.#changes];
    this.#readAt = at;
    const { signal } = this.#ending;
    const { connectMs: timeoutMs, maxTools } = this.#limits;
    const read = await this.#around({ method: 'tools/list', params: {} }, async (context) => {
      const meta = metaOf(context);
      const walk = () => readTools(this.client, { signal, timeoutMs, maxTools, meta });
      const walkAgain = async (error: unknown) => {
        if (error instanceof UnauthorizedError && (await this.#isWorthAnother(error))) {
          return await walk();
        }
        throw error;
      };
      try {
        return await walk().catch(walkAgain);
      } catch (error) {
        return await this.#failure(error, { signal, timeoutMs, secrets: [] }, true);
      }
    });
    if (!read.ok) {
      this.#noteWear(read, at);
      return read;
    }
    const isHeaded = this.client.getProtocolEra() === 'modern' && this.line.process === undefined;
    const tools = isHeaded
      ? read.output.filter(({ definition }) => hasValidHeaders(definition['inputSchema'] ?? null))
      : read.output;
    const server = JSON.parse(JSON.stringify(this.client.getServerVersion() ?? {})) as JsonObject;
    const byName = new Map(tools.map((tool) => [tool.name, tool]));
    this.#listed = { server, tools, byName, at, of };
    return ok(this.#listed);
  }

  /** Records the marks before the input is sent. Returns the marks of all inputs so far. */
  async give(marks: Descriptor): Promise<Outcome<Descriptor>> {
    return (await this.line.box?.give(marks)) ?? ok(marks);
  }

  /** Records all marks of the input, sends the request and returns the answer with its marks. */
  async ask(request: ServerRequest, call: PoolCall): Promise<Outcome<ServerAnswer>> {
    const recorded = await this.give(call.given);
    if (!recorded.ok) return recorded;
    const startedAt = this.#ports.clock.monotonic();
    const answered = await this.#around(request, (context) =>
      this.#send({ ...request, params: withMeta(request.params, metaOf(context)) }, call),
    );
    // The process may have read more files in the meantime.
    const current = await this.give(EMPTY);
    if (!current.ok) return current;
    const marks = mergeDescriptors(recorded.output, current.output);
    if (!answered.ok) {
      this.#noteWear(answered, startedAt);
      return markFailure(answered, marks);
    }
    return ok(this.#toAnswer(request, answered.output, marks, call.secrets));
  }

  #noteWear({ error: { code, detail } }: Failure, startedAt: number): void {
    const isSilent = code === 'timeout' && this.line.process && this.#gate.heardAt < startedAt;
    const isLost = detail.status === 404 && this.#gate.sessionId !== undefined;
    if (isSilent || isLost) this.isWorn = true;
  }

  /** True if the server refused a request because it dropped the session. */
  get isForgotten(): boolean {
    return this.isWorn && this.line.process === undefined;
  }

  #toAnswer(
    { method }: ServerRequest,
    result: JsonObject,
    marks: Descriptor,
    secrets: readonly string[],
  ): ServerAnswer {
    const { content, structuredContent, isError } = result;
    const visible =
      method === 'tools/call' ? compact({ content, structuredContent, isError }) : result;
    return { result: createRedactor(secrets).json(visible), marks };
  }

  async #send(input: ServerRequest, call: PoolCall, isRetry = false): Promise<Outcome<JsonObject>> {
    const { signal, onProgress } = call;
    const timeout = Math.min(Math.max(1, call.timeoutMs), MAX_TIMER);
    const options = { signal, timeout, maxTotalTimeout: timeout };
    const { json } = createRedactor(call.secrets);
    const followed = onProgress && this.#gate.follow((progress) => onProgress(json(progress)));
    const meta = followed ? { progressToken: followed.token } : {};
    const { method } = input;
    const params = withMeta(input.params, meta);
    try {
      const tool = await this.#toolFor(input);
      const result = tool
        ? await this.client.callTool(params as { name: string }, {
            ...options,
            toolDefinition: { ...tool.definition, outputSchema: undefined } as never,
          })
        : await this.client.request({ method, params }, AS_IT_IS, options);
      return resultOf(method, result as JsonObject);
    } catch (error) {
      if (!isRetry && (await this.#isWorthAnother(error))) {
        return await this.#send(input, call, true);
      }
      return await this.#failure(error, call, true);
    } finally {
      followed?.forget();
    }
  }

  /** Logs in or reads the tool list again after a refusal. Returns true if a retry makes sense. */
  async #isWorthAnother(error: unknown): Promise<boolean> {
    if (error instanceof UnauthorizedError) {
      const loggedIn = await this.line.loggedIn();
      return loggedIn.ok && loggedIn.output;
    }
    if (!(error instanceof ProtocolError && error.code === HEADER_MISMATCH)) return false;
    await this.list(true);
    return true;
  }

  /** Returns the called tool if some of its parameters are also headers, otherwise undefined. */
  async #toolFor({ method, params }: ServerRequest): Promise<ServerTool | undefined> {
    const isHeaded = this.client.getProtocolEra() === 'modern' && this.line.process === undefined;
    if (!isHeaded || method !== 'tools/call') return undefined;
    const listed = this.#listed ?? (await this.list(false).then((read) => read.ok && read.output));
    const tool = listed ? listed.byName.get(plainText(params['name'])) : undefined;
    return tool && repeatsAsHeader(tool) ? tool : undefined;
  }

  /** Sets whether a server process prevents the exit of this program. */
  hold(isHeld: boolean): void {
    this.line.process?.hold(isHeld);
  }

  close(): Promise<Outcome<null>> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<Outcome<null>> {
    if (this.isOpen && !this.isWorn) await this.line.takeLeave();
    this.isOpen = false;
    await this.client.close().catch(() => undefined);
    this.#ending.abort();
    await this.#gate.close().catch(() => undefined);
    return await this.line.close();
  }
}

function resultOf(method: string, result: JsonObject): Outcome<JsonObject> {
  if (!isObject(result) || isDeeperThan(result, MAX_DEPTH)) {
    return fail('tool_failed', 'the answer is not a valid result', { sent: true });
  }
  if (method !== 'tools/call') return ok(result);
  const content = getOwn(result, 'content') ?? [];
  return Array.isArray(content)
    ? ok({ ...result, content })
    : fail('tool_failed', 'the `content` of the answer must be a list', { sent: true });
}
