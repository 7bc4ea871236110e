// Where a model has its arguments from. A model that has read what strangers wrote may speak for them, so
// what steers a risky call must have been said by somebody else, word for word: the user, whoever wrote
// the directive, a result that no stranger had a hand in, a person who was asked.
import { getOwn, isObject, type Json, matchGlob } from '../../base/index.ts';
import { type Argument, type ArgumentOrigin, carries, type Operation } from '../../flow/index.ts';
import { type Grant, grantsAllow } from '../../trust/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { withoutTime } from '../thread/talk.ts';
import type { HarnessPorts, Thread } from '../thread/thread.ts';
import { allowedValues, originIn } from './approved-values.ts';
import { saidIn } from './said-in.ts';
import { declaredRights } from './thread-token.ts';

/** Values of fields, those of these names left out, at any depth. */
function* leavesOf(value: Json, without: readonly string[] = []): Generator<Json> {
  if (Array.isArray(value)) for (const item of value) yield* leavesOf(item, without);
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) {
      if (!without.includes(name)) yield* leavesOf(item, without);
    }
  } else yield value;
}

/** Fields of a tool's results that other people can write: they vouch for nothing. */
function freeText({ library }: HarnessPorts, tool: string): readonly string[] {
  const chain = library.chain(tool);
  const links = chain.ok ? chain.output.links : [];
  return links.flatMap((link) => link.tool?.result?.free_text ?? []);
}

/** Everything of an argument that somebody must have said: names of fields carry data too. */
function* partsOf(value: Json): Generator<Json> {
  if (Array.isArray(value)) for (const item of value) yield* partsOf(item);
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) {
      yield name;
      yield* partsOf(item);
    }
  } else yield value;
}

/** The directive as it was shown, inputs filled in; after strangers had a hand in those, as it is signed. */
function directiveParts({ talk, place }: Thread): Json[] {
  for (const event of talk.opening) {
    if (event.type !== 'tool_result' || event.data.is_error) continue;
    // What stands beside it are words of tools, whoever wrote those.
    const directive = getOwn(event.data.content, 'directive');
    const isForeign = carries(unpackMarks(event.data.marks), 'untrusted');
    if (!isForeign && directive !== undefined) return [directive];
  }
  const { state } = place.item.signature;
  if (state !== 'signed' && state !== 'bundle') return [];
  const { description, process, context, outputs } = place.directive;
  return [JSON.parse(JSON.stringify([description, process, context, outputs])) as Json];
}

/** What was said to a thread and shown to it, for one call. */
class SaidToThread {
  readonly #texts: readonly string[];
  readonly #fields: ReadonlySet<Json>;
  readonly #said = new Map<boolean, ReadonlySet<string>>();

  constructor(thread: Thread) {
    const { texts, results } = thread.talk.conversation.trusted();
    const directive = directiveParts(thread).flatMap((part) => [...leavesOf(part)]);
    const written = directive.filter((leaf) => typeof leaf === 'string');
    this.#texts = [...texts, ...written];
    this.#fields = new Set(
      results.flatMap(({ tool, content }) => {
        const without = tool === '' ? [] : freeText(thread.ports, tool);
        return [...leavesOf(withoutTime(content), without)];
      }),
    );
  }

  #isSaid(value: string, words: boolean): boolean {
    let said = this.#said.get(words);
    if (!said) {
      said = new Set(this.#texts.flatMap((text) => [...saidIn(text, words)]));
      this.#said.set(words, said);
    }
    return said.has(value);
  }

  /** Undefined: nobody said it. A command is more than one of its words. */
  originOf(part: Json, role: Argument['role']): ArgumentOrigin | undefined {
    if (typeof part === 'string' && this.#isSaid(part, role !== 'command')) return { kind: 'said' };
    return part !== null && this.#fields.has(part) ? { kind: 'result' } : undefined;
  }
}

const isEmpty = (value: Json): boolean =>
  value === null || value === '' || (typeof value === 'object' && Object.keys(value).length === 0);

const STEERS: ReadonlySet<string | undefined> = new Set(['destination', 'command', 'path']);

/** Of one argument, by what it says alone. */
function originOf(
  said: SaidToThread,
  { fixed = {} }: Operation,
  { name, role, value: { data } }: Argument,
): ArgumentOrigin | undefined {
  if (Object.hasOwn(fixed, name) && JSON.stringify(fixed[name]) === JSON.stringify(data)) {
    return { kind: 'fixed' };
  }
  // Nothing says nothing, but may mean everything to whoever is told where or what.
  if (isEmpty(data)) return STEERS.has(role) ? undefined : { kind: 'fixed' };
  let found: ArgumentOrigin | undefined;
  for (const part of partsOf(data)) {
    const origin = said.originOf(part, role);
    if (!origin) return undefined;
    found ??= origin;
  }
  return found;
}

/** All of the project, however it is written. */
const isWhole = (glob: string): boolean => /^[*?./]*$/.test(glob);

/** What the directive declares, or a person has given, that lets this thread write there. */
function rightsTo({ ports, place, rights }: Thread, path: string): Grant[] {
  const declared = declaredRights(ports, place.directive);
  const grants = [
    ...(declared.ok ? declared.output.grants : []),
    ...rights.approved.takeable().map(({ grant }) => grant),
  ];
  const { catalog } = ports.library.capabilities();
  const need = { capability: 'fs.write', scope: { path } };
  return grants.filter((grant) => grantsAllow([grant], need, catalog));
}

/** What stands at the place decides: something new, or what the thread made itself. */
async function originByPlace(
  thread: Thread,
  { role, place, value: { data } }: Argument,
  inputs: readonly Argument[],
): Promise<ArgumentOrigin | undefined> {
  if (!place || role !== 'path' || typeof data !== 'string') return undefined;
  const given = new Map(inputs.map(({ name, value }) => [name, value.data]));
  const { relative, state, adds, sha256 } = await place(data, thread.place.id, given);
  const grants = state === 'closed' ? [] : rightsTo(thread, relative);
  if (grants.length === 0) return { kind: 'closed', holds: 'never' };
  const scopes = grants.flatMap(({ scope }) => scope?.path ?? []);
  const by = scopes.find((glob) => !isWhole(glob) && matchGlob(glob, relative));
  if (by === undefined) return undefined;
  if (adds) return { kind: 'granted', by, holds: 'add' };
  if (state === 'new') return { kind: 'granted', by, holds: 'new' };
  return state === 'own' && sha256 !== undefined ? { kind: 'own', by, holds: sha256 } : undefined;
}

/** The arguments of a call that a thread's model makes, with their origins. */
export async function traceOrigins(
  thread: Thread,
  op: Operation,
  inputs: readonly Argument[],
): Promise<readonly Argument[]> {
  const said = new SaidToThread(thread);
  const allowed = await allowedValues(thread);
  const traced: Argument[] = [];
  for (const input of inputs) {
    const origin =
      originOf(said, op, input) ??
      (await originIn(thread, allowed, op, input)) ??
      (await originByPlace(thread, input, inputs));
    traced.push(origin ? { ...input, origin } : input);
  }
  return traced;
}
