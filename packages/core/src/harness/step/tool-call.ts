// What a call of the model is about, before anything is done: which item, with which effect.
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
import type { References } from '../thread/references.ts';
import type { HarnessPorts } from '../thread/thread.ts';

const VERBS: ReadonlyMap<string, Verb> = new Map(
  (['search', 'load', 'execute', 'help'] as const).map((verb) => [verb, verb]),
);

export interface IdentifiedCall {
  verb: Verb;
  /** What events call it: the executed item's id, or the verb. */
  tool: string;
  effect: ToolEffect;
  volatile: readonly string[];
  request: JsonObject;
  /** Which part of the arguments goes to the tool itself. */
  parameters: JsonObject;
  /** One of the shipped tools that read for the thread: its result says itself what it carries. */
  isReading?: boolean;
  /** All of them with what references stand for, where its model writes such. */
  resolved?: JsonObject;
}

const CHANGES: ReadonlySet<string> = new Set(['create', 'update', 'delete']);
/** What one may do with a thread's handle that changes nothing. */
const READS_THREAD: ReadonlySet<string> = new Set(['status', 'wait']);

/** What is about to be called; an unknown verb or item is left for the kernel to refuse. */
export function identifyCall(
  { library }: Pick<HarnessPorts, 'library'>,
  call: ToolCallBlock,
): Outcome<IdentifiedCall> {
  const verb = VERBS.get(call.name);
  if (!verb) {
    return fail(
      'invalid_input',
      `there is no tool \`${call.name}\`; there are: ${[...VERBS.keys()].join(', ')}`,
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

/** A call with what its references stand for. */
interface NamedCall {
  known: IdentifiedCall;
  values: Record<string, Value>;
  marks: Descriptor;
}

/** What is called is written out; what it is given may be named. */
const WRITTEN_OUT: ReadonlySet<string> = new Set(['item_type', 'item_id', 'action', 'dry_run']);

/** Every reference replaced; a failure names those there are, and no word of what they stand for. */
export function resolveCall(
  references: References,
  known: IdentifiedCall,
  own: Descriptor,
): Outcome<NamedCall> {
  const values: Record<string, Value> = Object.create(null);
  const request: JsonObject = {};
  let marks = own;
  for (const [name, written] of Object.entries(known.request)) {
    // Which parameters there are is for the model to say.
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
  return ok({ known: { ...known, request, parameters, resolved: request }, values, marks });
}

/** What a call needs, named as in `permissions.granted`: what its chain requires, and the tool itself. */
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

/** The primitive at the end of these chains, and its function that spawns. */
const [PRIMITIVE, FUNCTION] = ['thread', 'spawn'];
const BASE = 'threads/spawn_thread';

/** Also a project's own tool that stands on the bundle's. */
export function stepKind(library: Pick<Library, 'chain'>, tool: string): 'spawn' | 'tool' {
  const chain = library.chain(tool);
  return chain.ok && chain.output.links.some(({ id }) => id === BASE) ? 'spawn' : 'tool';
}

/** A call of this tool spawns a thread; undefined when it does anything else. */
export function spawnsBy(
  library: Pick<Library, 'chain'>,
  tool: string,
): { makesId: boolean } | undefined {
  const chain = library.chain(tool);
  if (!chain.ok || chain.output.primitive !== PRIMITIVE) return undefined;
  // As the kernel merges them: the link nearest to the caller has the word.
  const word = (name: string): Json | undefined =>
    chain.output.links
      .map((link) => getOwn(link.tool?.config ?? {}, name))
      .find((value) => value !== undefined);
  return word('function') === FUNCTION ? { makesId: word('make_id') === true } : undefined;
}
