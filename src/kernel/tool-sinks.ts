// Sinks are made when a chain is about to run and handed to the primitive. Other than `return` they
// are tools: the bundle's end in a function of ours, a project's in a module run as a child process.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  mergeDeep,
  type Outcome,
  ok,
} from '../base/index.ts';
import type { Library } from '../items/index.ts';
import { resolvePlan } from './chain.ts';
import type { PrimitiveCall } from './primitive.ts';
import type { Sink, SinkContext, SinkFactory, StreamEvent } from './sink.ts';
import { type SignaturePolicy, toolFacts } from './tool-rights.ts';

export interface SinkPorts {
  library: Library;
  signatures: () => SignaturePolicy;
  factories: Readonly<Record<string, SinkFactory>>;
  /** Makes a sink from a project's module. */
  moduleSink: (tool: PrimitiveCall['tool']) => SinkFactory;
}

const ALIASES: Readonly<Record<string, string>> = {
  file: 'file_sink',
  websocket: 'websocket_sink',
  null: 'null_sink',
};
const MAX_SINKS = 16;

function factoryOf(
  type: string,
  ports: SinkPorts,
): Outcome<{ factory: SinkFactory; config: JsonObject }> {
  const direct = ports.factories[type];
  if (type === 'return' && direct) return ok({ factory: direct, config: {} });
  const found = ports.library.find('tool', ALIASES[type] ?? type);
  if (!found.ok) return found;
  const plan = resolvePlan(ports.library, found.output, {});
  if (!plan.ok) return plan;
  const { config, primitive, leaf } = plan.output;
  if (primitive !== 'function')
    return ok({ factory: ports.moduleSink(toolFacts(plan.output, ports.signatures())), config });
  const name = getOwn(config, 'function');
  const builtin = typeof name === 'string' ? ports.factories[name] : undefined;
  return builtin
    ? ok({ factory: builtin, config })
    : fail('config_invalid', `tool \`${leaf.id}\` is not a sink`);
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
  const made = factoryOf(type, ports);
  if (!made.ok) return made;
  return await made.output.factory(mergeDeep(made.output.config, destination), context);
}

export interface SinkSet {
  sinks: readonly Sink[];
  /** How many events reached any sink: after the first, a write must not be repeated. */
  delivered(): number;
}

/** Counts what goes through, so that a retry knows whether anything was delivered. */
function counting(sink: Sink, count: () => void): Sink {
  return {
    type: sink.type,
    write(event: StreamEvent) {
      count();
      return sink.write(event);
    },
    close: () => sink.close(),
  };
}

/** All sinks of a config, or the first problem; those already made are closed again. */
export async function createSinks(
  config: JsonObject,
  ports: SinkPorts,
  context: SinkContext,
): Promise<Outcome<SinkSet>> {
  const stream = getOwn(config, 'stream');
  const listed = getOwn(stream, 'destinations') ?? (isObject(stream) ? [{ type: 'return' }] : []);
  if (!Array.isArray(listed) || listed.length > MAX_SINKS) {
    return fail('config_invalid', `\`stream.destinations\` must be a list of at most ${MAX_SINKS}`);
  }
  const sinks: Sink[] = [];
  let delivered = 0;
  for (const [index, destination] of listed.entries()) {
    const made = await makeSink(destination, ports, context);
    if (!made.ok) {
      await Promise.all(sinks.map((sink) => sink.close()));
      made.error.detail.config_path = `config.stream.destinations.${index}`;
      return made;
    }
    sinks.push(counting(made.output, () => delivered++));
  }
  return ok({ sinks, delivered: () => delivered });
}
