// Creates the sinks of a stream before a chain runs. All sinks except `return` are tools: those of the
// bundle end in a built-in function, those of a project in a module that runs as a child process.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  mergeDeep,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import { MAX_DESTINATIONS } from '../http/config-shape.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { sinkId } from '../primitives/config-shapes.ts';
import {
  countingSink,
  filteredSink,
  missingSink,
  type Sink,
  type SinkContext,
  type SinkFactory,
} from '../sink.ts';
import { type Plan, resolvePlan } from './plan.ts';
import {
  type AskSignatures,
  refuseSecrets,
  toolFacts,
  unsignedLink,
  unsignedRefusal,
} from './tool-rights.ts';

export interface SinkPorts {
  library: Library;
  signatures: AskSignatures;
  factories: Readonly<Record<string, SinkFactory>>;
  /** Creates a sink from a project's module. */
  moduleSink: (tool: PrimitiveCall['tool']) => SinkFactory;
}

const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

/**
 * Returns the plan of a sink's tool. The signature of every link counts, and an unsigned one gets no secret.
 */
function sinkPlan(type: string, ports: SinkPorts): Outcome<Plan> {
  const sinkTool = ports.library.find('tool', sinkId(type));
  if (!sinkTool.ok) return sinkTool;
  const plan = resolvePlan(ports.library, sinkTool.output, {});
  if (!plan.ok) return plan;
  const { broken } = plan.output;
  if (broken) return broken.failure;
  const secretCheck = refuseSecrets(plan.output, unsignedLink(plan.output, ports.signatures));
  return secretCheck.ok ? plan : secretCheck;
}

function factoryOf(plan: Plan, ports: SinkPorts): Outcome<SinkFactory> {
  const { config, primitive, leaf } = plan;
  if (primitive !== 'function') return ok(ports.moduleSink(toolFacts(plan, ports.signatures)));
  const name = getOwn(config, 'function');
  const builtin = typeof name === 'string' ? own(ports.factories, name) : undefined;
  return builtin ? ok(builtin) : fail('config_invalid', `tool \`${leaf.id}\` is not a sink`);
}

async function makeSink(
  destination: Json,
  ports: SinkPorts,
  context: SinkContext,
): Promise<Outcome<Sink>> {
  const type = isObject(destination) ? getOwn(destination, 'type') : undefined;
  if (!isObject(destination) || typeof type !== 'string') {
    return fail('config_invalid', 'every destination of a stream needs a `type`');
  }
  const direct = type === 'return' ? own(ports.factories, type) : undefined;
  if (direct) {
    const sink = await direct(destination, context);
    // The destination is checked all the same, but a caller with its own sink needs no second copy.
    return sink.ok && context.isReadByCaller ? ok(countingSink(type)) : sink;
  }
  const plan = sinkPlan(type, ports);
  if (!plan.ok) return plan;
  const factory = factoryOf(plan.output, ports);
  if (!factory.ok) return factory;
  const refuse = unsignedRefusal(plan.output, ports.signatures);
  const verify: SinkContext['verify'] = (need) => refuse?.(need.capability) ?? context.verify(need);
  // An unsigned sink has fewer rights than the tool that streams into it: none to change or to send.
  const sinkContext = refuse ? { ...context, threadId: undefined, verify } : context;
  return await factory.output(mergeDeep(plan.output.config, destination), sinkContext);
}

/** Returns the facts of the tools whose module a stream's destination runs in a process. */
export function moduleSinks(config: JsonObject, ports: SinkPorts): PrimitiveCall['tool'][] {
  const listed = getOwn(getOwn(config, 'stream'), 'destinations');
  const processes: PrimitiveCall['tool'][] = [];
  for (const destination of Array.isArray(listed) ? listed.slice(0, MAX_DESTINATIONS) : []) {
    const type = getOwn(destination, 'type');
    const plan = typeof type === 'string' && type !== 'return' ? sinkPlan(type, ports) : undefined;
    if (!plan?.ok || plan.output.primitive === 'function') continue;
    processes.push(toolFacts(plan.output, ports.signatures));
  }
  return processes;
}

interface SinkSet {
  sinks: readonly Sink[];
  /** Number of events that reached any sink. After the first one a write must not be repeated. */
  delivered(): number;
}

/** Creates all sinks of a config, or fails with the first problem and closes those created before. */
export async function createSinks(
  config: JsonObject,
  ports: SinkPorts,
  context: SinkContext,
): Promise<Outcome<SinkSet>> {
  const stream = getOwn(config, 'stream');
  const listed = getOwn(stream, 'destinations') ?? (isObject(stream) ? [{ type: 'return' }] : []);
  if (!Array.isArray(listed) || listed.length > MAX_DESTINATIONS) {
    return fail(
      'config_invalid',
      `\`stream.destinations\` must be a list of at most ${MAX_DESTINATIONS}`,
    );
  }
  const sinks: Sink[] = [];
  let delivered = 0;
  for (const [index, destination] of listed.entries()) {
    const created = await makeSink(destination, ports, context);
    const type = plainText(getOwn(destination, 'type') ?? '');
    if (!created.ok && (!context.isReadByCaller || type === 'return')) {
      await Promise.all(sinks.map((sink) => sink.close()));
      created.error.detail.config_path = `config.stream.destinations.${index}`;
      return created;
    }
    const plain = created.ok ? created.output : missingSink(type, created.error.detail.message);
    const filter = context.filter?.();
    const sink = filter ? filteredSink(plain, filter) : plain;
    // A retry needs to know whether an event was delivered.
    sinks.push({
      type: sink.type,
      write(events) {
        delivered += events.length;
        return sink.write(events);
      },
      close: () => sink.close(),
    });
  }
  return ok({ sinks, delivered: () => delivered });
}
