// A tool that is called again and again with nothing but another body, as a model's provider is. Plan,
// checks, config, address, headers and redactor are worked out once and hold until something changes;
// rights and addresses are judged at every sending. INVARIANT: what is sent is sent once, whatever the
// chain says about retries: whoever sends pays for each, and decides about the next.
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

/** Reads what comes back; made anew for every sending. */
interface LineReader {
  events(events: readonly StreamEvent[]): void;
  /** It is over, however it went. */
  end?(): void;
}

interface LineSending {
  caller: Caller;
  authority: Authority;
  signal: AbortSignal;
  /** On the monotonic clock: it is not sent later. */
  sendBy?: number;
  reader(): LineReader;
  /** What is in the body that is sent: it marks what the tool's own sinks keep of the answer. */
  marks?: () => Descriptor;
  filter?: (() => EventFilter | undefined) | undefined;
}

export interface FormedBody {
  readonly text: string;
  /** Sends `body` in the place of the text. Answers as a call of the tool does. */
  send(body: string, sending: LineSending): Promise<Outcome<JsonObject>>;
}

export interface ToolLine {
  /** Known by the keys of every link: a rule about the tool that sends holds whatever stands above it. */
  readonly op: Operation;
  /** The right to use it, narrowed to what this tool may do. */
  admit(authority: Authority): Outcome<Authority>;
  /**
   * `varying` names the parameter that differs in the bodies that are going to be sent. Whose they are
   * is a parameter too, where the tool has one.
   */
  form(parameters: JsonObject, varying: string, thread?: string): Outcome<FormedBody>;
}

/** There is one; a program may mount another under its name. */
const isHttp = (primitive: Primitive | undefined): primitive is HttpPrimitive =>
  primitive !== undefined && 'prepare' in primitive;

/** Only the body changes, only whoever sends gets the events, and nothing has to be installed first. */
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

/** Of the stream that `received` was, in the fields of a tool's result. */
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

/** Straight from the connection to the reader. */
const direct = (plan: Plan, prepared: PreparedRequest): FormedBody => ({
  text: prepared.request.body ?? '',
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

/** Through everything that a tool may want besides: sinks of its own, another primitive. */
const indirect = (
  ports: ToolPorts,
  { plan, parameters }: Omit<AllowedCall, 'authority'>,
  primitive: Primitive | undefined,
): FormedBody => ({
  text: '',
  async send(_body, { caller, authority, signal, reader, marks, filter }) {
    const about = marks ? { descriptor: marks() } : {};
    const values = Object.values(parameters).map((data) => makeValue(data, about));
    const sinks = (): Sink[] => [sinkFor(reader())];
    const by = { ...caller, signal, sinks, filter };
    // Over a connection of its own, as a write: a request on a kept one could be sent a second time.
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
    const given = takesThread && thread !== undefined ? { ...parts, thread_id: thread } : parts;
    if (plan.misconfigured) return plan.misconfigured;
    const harmless = refusePatterns(plan, ports.signatures);
    if (!harmless.ok) return harmless;
    const checked = checkParameters(leaf.id, given, declared, schema);
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
    form(given, varying, thread) {
      const formed = form(given, varying, thread);
      return formed.ok ? formed : inChain(formed, plan);
    },
  };
}

/** Another place that speaks as the tool's own does, and the variable with its key: none, no key is sent. */
export interface LineEndpoint {
  readonly base_url?: string;
  readonly key?: string;
}

const START = /^(?:\$\{[^}]*\}|[a-z]+:\/\/[^/]*)/i;

/** The path of the tool's address at another base, which may end with the version that it begins with. */
function movedUrl(url: string, base: string): string {
  const path = url.replace(START, '');
  const [, version = ''] = /^(\/v\d+)\//.exec(path) ?? [];
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

/** The same line as long as the chain and what it reads of the environment stay. */
export function createToolLines(ports: ToolPorts): OpenLine {
  const lines = new WeakMap<Plan, { line: ToolLine; env: readonly (string | undefined)[] }>();
  const moved = new WeakMap<Plan, Map<string, Plan>>();
  /** The same plan for the same place, so that it has one line. */
  function planAt(plan: Plan, endpoint: LineEndpoint): Plan {
    const places = moved.get(plan) ?? new Map<string, Plan>();
    moved.set(plan, places);
    const name = JSON.stringify([endpoint.base_url ?? null, endpoint.key ?? null]);
    const made = places.get(name) ?? movedPlan(plan, endpoint);
    places.set(name, made);
    return made;
  }
  return (item, endpoint) => {
    const found = resolvePlan(ports.library, item, {});
    if (!found.ok) return found;
    const plan = endpoint ? planAt(found.output, endpoint) : found.output;
    const known = lines.get(plan);
    const env: (string | undefined)[] = [];
    let isSame = known !== undefined;
    for (const name of plan.env) {
      isSame &&= known?.env[env.length] === ports.env[name];
      env.push(ports.env[name]);
    }
    if (known && isSame) return ok(known.line);
    return openLine(ports, plan).then((line) => {
      lines.set(plan, { line, env });
      return ok(line);
    });
  };
}
