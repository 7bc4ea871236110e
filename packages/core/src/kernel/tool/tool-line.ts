// Opens a tool that is called many times with only the body changed, such as a model's provider. Plan, checks,
// config, address, headers and redactor are computed once and reused until something changes. Rights and
// addresses are judged at every sending. INVARIANT: each body is sent at most once, whatever retries the
// chain declares: the sender pays for each sending and decides about the next.
import {
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  withDetail,
} from '../../base/index.ts';
import { type Descriptor, type MaybePromise, makeValue, type Operation } from '../../flow/index.ts';
import type { Authority, Caller } from '../call.ts';
import type { HttpPrimitive } from '../http/http-client.ts';
import type { PreparedRequest, Received } from '../http/prepared-request.ts';
import type { StreamedBody } from '../http/request.ts';
import type { Primitive } from '../primitive.ts';
import { verifierOf } from '../rights/authority.ts';
import type { EventFilter, Sink, StreamEvent } from '../sink.ts';
import { checkParameters } from './parameters.ts';
import { type Plan, type PlannedTool, resolvePlan, toolKeys } from './plan.ts';
import { type AllowedCall, completeConfig, declaredIn, runBody } from './run-primitive.ts';
import { inChain, type ToolPorts } from './run-tool.ts';
import {
  gateTool,
  refusePatterns,
  refuseSecrets,
  restrictUnsigned,
  toolFacts,
  unsignedLink,
} from './tool-rights.ts';

/** Reads the response. Each sending gets a new one. */
interface LineReader {
  events(events: readonly StreamEvent[]): void;
  /** Called at the end, on success and on failure. */
  end?(): void;
}

interface LineSending {
  caller: Caller;
  authority: Authority;
  signal: AbortSignal;
  /** Time on the monotonic clock after which the body is not sent. */
  sendBy?: number;
  reader(): LineReader;
  /** Returns the marks of the body, which sinks of the tool record with the answer. */
  marks?: () => Descriptor;
  filter?: (() => EventFilter | undefined) | undefined;
  /** Completes the JSON text of a call that is not sent as one body. */
  fill?: (text: string) => Promise<string>;
}

export interface FormedBody {
  readonly text: string;
  /** Address of the request. Absent: the tool sends it with sinks of its own. */
  readonly url?: URL;
  /** Sends `body` in place of the original text. Returns the result of a call of the tool. */
  send(body: string | StreamedBody, sending: LineSending): Promise<Outcome<JsonObject>>;
}

export interface ToolLine {
  /**
   * The operation has the keys of every link, so a rule about the sending tool also applies to tools above it.
   */
  readonly op: Operation;
  /** Returns the right to use the line, restricted to what this tool may do. */
  admit(authority: Authority): Outcome<Authority>;
  /**
   * Returns a body for these parameters. `varying` names the parameter that differs between the bodies.
   * `thread` fills the tool's parameter `thread_id`, if it has one.
   */
  form(parameters: JsonObject, varying: string, thread?: string): Outcome<FormedBody>;
}

/** False if a program mounted another primitive under this name. */
const isHttp = (primitive: Primitive | undefined): primitive is HttpPrimitive =>
  primitive !== undefined && 'prepare' in primitive;

/** True if only the body changes, only the sender receives the events, and nothing must be installed. */
function isDirect({ config, dependencies }: Plan, varying: string): boolean {
  const { body: _, ...rest } = config;
  const listed = getOwn(getOwn(config, 'stream'), 'destinations') ?? [];
  return (
    !new RegExp(`\\{\\s*${varying}\\s*\\}`).test(JSON.stringify(rest)) &&
    Array.isArray(listed) &&
    listed.every((one) => isObject(one) && one.type === 'return') &&
    dependencies.length === 0
  );
}

/** Returns the end of the stream in the fields of a tool's result. */
function resultOf(received: Received): Outcome<JsonObject> {
  if (received.kind === 'answer') return ok(received.output);
  const { facts, count, endedCleanly, failure } = received.end;
  const fields = {
    ...facts,
    body: null,
    stream_events_count: count,
    ended_cleanly: endedCleanly,
    dropped: 0,
  };
  return failure ? withDetail(failure, fields) : ok(fields);
}

/** Sends from the connection directly to the reader. */
const direct = (plan: Plan, prepared: PreparedRequest): FormedBody => ({
  text: prepared.request.body ?? '',
  url: prepared.request.url,
  async send(body, { authority, signal, sendBy, reader }) {
    const { events, end } = reader();
    const received = await prepared.send(body, {
      signal,
      ...(sendBy !== undefined && { sendBy }),
      isOnce: true,
      verify: verifierOf(authority),
      onEvents(some) {
        events(some);
        return undefined;
      },
    });
    end?.();
    const sent = received.ok ? resultOf(received.output) : received;
    return sent.ok ? sent : inChain(sent, plan);
  },
});

function sinkFor({ events, end }: LineReader): Sink {
  let delivered = 0;
  return {
    type: 'line',
    write(some) {
      delivered += some.length;
      events(some);
    },
    async close() {
      end?.();
      return { type: 'line', delivered, dropped: 0 };
    },
  };
}

const asWrite = ({ facts, strictFacts }: Plan): Pick<Plan, 'facts' | 'strictFacts'> => ({
  facts: { ...facts, effect: 'write' },
  strictFacts: { ...strictFacts, effect: 'write' },
});

/** Sends with everything that a tool may need: sinks of its own, or another primitive. */
const indirect = (
  ports: ToolPorts,
  { plan, parameters: formed }: Omit<AllowedCall, 'authority'>,
  primitive: Primitive | undefined,
): FormedBody => ({
  text: '',
  async send(_body, { caller, authority, signal, reader, marks, filter, fill }) {
    const text = await fill?.(JSON.stringify(formed));
    const parameters = text === undefined ? formed : (JSON.parse(text) as JsonObject);
    const about = marks ? { descriptor: marks() } : {};
    const values = Object.values(parameters).map((data) => makeValue(data, about));
    const sinks = (): Sink[] => [sinkFor(reader())];
    const by = { ...caller, signal, sinks, filter };
    // The sending uses a new connection, as a write, because a request on a reused connection could be sent twice.
    const once = { ...plan, retries: [], ...(isHttp(primitive) && asWrite(plan)) };
    const sent = await runBody(ports, { plan: once, parameters, authority }, values, by);
    return sent.ok ? ok(sent.output.data as JsonObject) : inChain(sent, plan);
  },
});

async function openLine(ports: ToolPorts, plan: Plan): Promise<ToolLine> {
  const { leaf, schema, parameters: declared } = plan;
  const mounted = ports.primitives.get(plan.primitive);
  const primitive = (await mounted?.loaded?.()) ?? mounted;
  const takesThread = declared.some(({ name }) => name === 'thread_id');
  function form(parts: JsonObject, varying: string, thread?: string): Outcome<FormedBody> {
    const values = takesThread && thread !== undefined ? { ...parts, thread_id: thread } : parts;
    if (plan.misconfigured) return plan.misconfigured;
    const harmless = refusePatterns(plan, ports.signatures);
    if (!harmless.ok) return harmless;
    const checked = checkParameters(leaf.id, values, declared, schema);
    if (!checked.ok) return checked;
    const parameters = checked.output;
    if (!isHttp(primitive) || !isDirect(plan, varying)) {
      return ok(indirect(ports, { plan, parameters }, primitive));
    }
    const about = thread === undefined ? {} : { __thread_id: thread };
    const filled = completeConfig(plan, parameters, ports.env, [], about);
    if (!filled.ok) return filled;
    const prepared = primitive.prepare({
      tool: toolFacts(plan, ports.signatures),
      config: filled.output.config,
      parameters,
      timeoutMs: plan.timeoutMs,
      secrets: [...filled.output.secrets, ...declaredIn(ports.env, plan)],
    });
    return prepared.ok ? ok(direct(plan, prepared.output)) : prepared;
  }
  return {
    op: { ...plan.op, opLabels: [...new Set(plan.links.flatMap(({ id }) => toolKeys(id)))] },
    admit(authority) {
      const narrowed = restrictUnsigned(authority, plan, ports.signatures);
      const allowed = gateTool(plan, narrowed);
      const unsigned = plan.unsigned && unsignedLink(plan, ports.signatures);
      const refused = allowed.ok && unsigned ? refuseSecrets(plan, unsigned) : allowed;
      return refused.ok ? ok(narrowed) : inChain(refused, plan);
    },
    form(values, varying, thread) {
      const formed = form(values, varying, thread);
      return formed.ok ? formed : inChain(formed, plan);
    },
  };
}

/** Another server with the same protocol, and the variable with its key. Without a variable no key is sent. */
export interface LineEndpoint {
  readonly base_url?: string;
  readonly key?: string;
}

const START = /^(?:\$\{[^}]*\}|[a-z]+:\/\/[^/]*)/i;

/**
 * Moves the path of the tool's address to another base, which may end with the version that the path
 * begins with.
 */
function movedUrl(url: string, base: string): string {
  const path = url.replace(START, '');
  const [, version = ''] = /^(\/v\d+\w*)\//.exec(path) ?? [];
  const plain = base.replace(/\/+$/, '');
  return version !== '' && plain.endsWith(version)
    ? `${plain}${path.slice(version.length)}`
    : `${plain}${path}`;
}

function movedPlan(plan: Plan, { base_url, key }: LineEndpoint): Plan {
  const { auth, url, ...rest } = plan.config;
  const slots = Object.entries(isObject(auth) ? auth : {}).map(([name, value]) => {
    const isKey = typeof value === 'string' && /^\$\{[^}]+\}$/.test(value);
    return [name, isKey ? `\${${key}}` : value] as const;
  });
  const config: JsonObject = {
    ...rest,
    ...(typeof url === 'string' && {
      url: base_url === undefined ? url : movedUrl(url, base_url),
    }),
    ...(key !== undefined && slots.length > 0 && { auth: Object.fromEntries(slots) }),
  };
  const env = new Set(key === undefined ? plan.env : [...plan.env, key]);
  return { ...plan, config, env, isFixed: false };
}

export type OpenLine = (
  item: PlannedTool,
  endpoint?: LineEndpoint,
) => MaybePromise<Outcome<ToolLine>>;

/**
 * Returns a function that opens lines. A line is reused while the chain and its environment variables
 * are the same.
 */
export function createToolLines(ports: ToolPorts): OpenLine {
  const lines = new WeakMap<Plan, { line: ToolLine; env: readonly (string | undefined)[] }>();
  const moved = new WeakMap<Plan, Map<string, Plan>>();
  /** Returns the same plan for the same endpoint, so that an endpoint has one line. */
  function planAt(plan: Plan, endpoint: LineEndpoint): Plan {
    const places = moved.get(plan) ?? new Map<string, Plan>();
    moved.set(plan, places);
    const name = JSON.stringify([endpoint.base_url ?? null, endpoint.key ?? null]);
    const target = places.get(name) ?? movedPlan(plan, endpoint);
    places.set(name, target);
    return target;
  }
  return (item, endpoint) => {
    const resolved = resolvePlan(ports.library, item, {});
    if (!resolved.ok) return resolved;
    const plan = endpoint ? planAt(resolved.output, endpoint) : resolved.output;
    const cached = lines.get(plan);
    const env: (string | undefined)[] = [];
    let isSame = cached !== undefined;
    for (const name of plan.env) {
      isSame &&= cached?.env[env.length] === ports.env[name];
      env.push(ports.env[name]);
    }
    if (cached && isSame) return ok(cached.line);
    return openLine(ports, plan).then((line) => {
      lines.set(plan, { line, env });
      return ok(line);
    });
  };
}
