// Identifies a call of the model before it is made: its item and its effect.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  plainText,
  setOwn,
} from '../../base/index.ts';
import type { ToolEffect } from '../../flow/index.ts';
import {
  type Descriptor,
  elementOf,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import type { Library } from '../../items/index.ts';
import type { Verb } from '../../kernel/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { normalizeCapability } from '../../trust/index.ts';
import { NO_FUNCTION } from '../thread/permitted-tools.ts';
import type { References } from '../thread/references.ts';
import type { HarnessPorts } from '../thread/thread.ts';

const VERBS: ReadonlyMap<string, Verb> = new Map(
  (['search', 'load', 'execute', 'help'] as const).map((verb) => [verb, verb]),
);

export interface IdentifiedCall {
  verb: Verb;
  /** Name of the call in events: the id of the executed item, or the verb. */
  tool: string;
  effect: ToolEffect;
  volatile: readonly string[];
  request: JsonObject;
  /** The arguments that the tool itself gets. */
  parameters: JsonObject;
  /** True for a shipped tool that reads untrusted text. Its result has marks of its own. */
  isReading?: boolean;
  /** The arguments with the values of their references, if the model writes references. */
  resolved?: JsonObject;
}

const CHANGES: ReadonlySet<string> = new Set(['create', 'update', 'delete']);
/** Actions on a thread's handle that change nothing. */
const READS_THREAD: ReadonlySet<string> = new Set(['status', 'wait']);

/** Identifies a call. Fails with `invalid_input` for another verb. The kernel refuses a missing item later. */
export function identifyCall(
  { library }: Pick<HarnessPorts, 'library'>,
  call: ToolCallBlock,
): Outcome<IdentifiedCall> {
  const verb = VERBS.get(call.name);
  if (call.name === NO_FUNCTION) {
    return fail('invalid_input', 'this function does not exist; call one of those that you have');
  }
  if (!verb) {
    return fail(
      'invalid_input',
      `tool \`${call.name}\` not found; use one of: ${[...VERBS.keys()].join(', ')}`,
    );
  }
  const request = call.arguments;
  const parameters = (getOwn(request, 'parameters') ?? {}) as JsonObject;
  if (verb !== 'execute') {
    return ok({ verb, request, parameters, effect: 'read', volatile: [], tool: verb });
  }
  const kind = getOwn(request, 'item_type');
  const id = getOwn(request, 'item_id');
  const action = plainText(getOwn(request, 'action') ?? 'run');
  const isChange = CHANGES.has(action);
  const found = kind === 'tool' ? library.find('tool', plainText(id)) : undefined;
  if (!found?.ok) {
    const effect = isChange || (kind === 'thread' && !READS_THREAD.has(action)) ? 'write' : 'read';
    const tool = plainText(id ?? 'execute');
    return ok({ verb, request, parameters, effect, volatile: [], tool });
  }
  const { tool, id: name, source } = found.output;
  const chosen = tool?.actions.find((one) => one.name === getOwn(parameters, 'action'));
  const volatile: string[] = [];
  for (const list of [tool?.parameters, chosen?.parameters]) {
    for (const one of list ?? []) if (one.volatile) volatile.push(one.name);
  }
  const effect = isChange ? 'write' : (chosen?.effect ?? tool?.effect ?? 'write');
  const isRun = action === 'run' && !getOwn(request, 'dry_run');
  const isReading = isRun && source === 'bundle' && tool?.executor_id === 'reader';
  return ok({ verb, request, parameters, effect, volatile, tool: name, isReading });
}

interface NamedCall {
  known: IdentifiedCall;
  values: Record<string, Value>;
  marks: Descriptor;
}

/** Arguments that cannot be references, because they name what is called. */
const WRITTEN_OUT: ReadonlySet<string> = new Set(['item_type', 'item_id', 'action', 'dry_run']);

/** Replaces every reference. A failure lists the names of references and none of their values. */
export function resolveCall(
  references: References,
  callee: IdentifiedCall,
  own: Descriptor,
): Outcome<NamedCall> {
  const values: Record<string, Value> = Object.create(null);
  const request: JsonObject = {};
  let marks = own;
  for (const [name, written] of Object.entries(callee.request)) {
    // The model chooses the names of parameters.
    const isWhole = name === 'parameters' && !isObject(written);
    const found =
      WRITTEN_OUT.has(name) || isWhole
        ? ok(makeValue(written, { descriptor: own }))
        : references.resolve(written, own);
    if (!found.ok) return found;
    const value = found.output;
    setOwn(request, name, value.data);
    marks = mergeDescriptors(marks, value.meta.descriptor);
    if (name === 'content') values.content = value;
    else if (name === 'parameters' && isObject(value.data)) {
      for (const key of Object.keys(value.data)) values[key] = elementOf(value, key);
    }
  }
  const parameters = objectAt(request, 'parameters');
  return ok({ known: { ...callee, request, parameters, resolved: request }, values, marks });
}

/** Returns the capabilities of a call's chain and tool, named as in `permissions.granted`. */
export function requiredFor(
  { library }: Pick<HarnessPorts, 'library'>,
  { verb, tool, parameters }: Pick<IdentifiedCall, 'tool' | 'parameters'> & { verb: string },
): string[] {
  const chain = verb === 'execute' ? library.chain(tool) : undefined;
  if (!chain?.ok) return VERBS.has(verb) ? [`kernel.${verb}`] : [];
  const [own, ...below] = chain.output.links.flatMap(({ tool: link }) => (link ? [link] : []));
  const chosen = own?.actions.find((one) => one.name === getOwn(parameters, 'action'));
  const needs = below.map((link) => link.handsOn ?? link.requires);
  needs.unshift(chosen?.requires ?? own?.requires ?? []);
  const name = tool.slice(tool.lastIndexOf('/') + 1);
  return [...new Set([...needs.flat().map(normalizeCapability), `tool.${name}`])];
}

/** Names of the primitive and of its function that spawns. */
const [PRIMITIVE, FUNCTION] = ['thread', 'spawn'];
const BASE = 'threads/spawn_thread';

/** Returns `spawn` for every tool that calls the spawning function, also for a project's own tools. */
export function stepKind(library: Pick<Library, 'chain'>, tool: string): 'spawn' | 'tool' {
  const chain = library.chain(tool);
  return chain.ok && chain.output.links.some(({ id }) => id === BASE) ? 'spawn' : 'tool';
}

/** Returns how a tool spawns a thread, and `undefined` if it does not. */
export function spawnsBy(
  library: Pick<Library, 'chain'>,
  tool: string,
): { makesId: boolean } | undefined {
  const chain = library.chain(tool);
  if (!chain.ok || chain.output.primitive !== PRIMITIVE) return undefined;
  // The kernel merges configs in the same order: the link nearest to the caller wins.
  const word = (name: string): Json | undefined =>
    chain.output.links
      .map((link) => getOwn(link.tool?.config ?? {}, name))
      .find((value) => value !== undefined);
  return word('function') === FUNCTION ? { makesId: word('make_id') === true } : undefined;
}
