// Finds the origins of the arguments in a call of a model. A model that has read untrusted data can write the text
// of an attacker. So each argument that steers a risky call must have a trusted source, word for word: the user,
// the author of the directive, a trusted result, or a person who approved it.
import { createRecent, getOwn, type Json, matchGlob, plainText } from '../../base/index.ts';
import {
  type Argument,
  type ArgumentOrigin,
  carries,
  elementOf,
  isPassedOn,
  makeValue,
  type Operation,
  type ResultFacts,
  restoreFields,
  singlesOf,
  type Value,
  vouchedAs,
  vouchedInAll,
} from '../../flow/index.ts';
import { type Grant, grantsAllow } from '../../trust/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { withoutTime } from '../thread/talk.ts';
import type { DirectiveTalk, HarnessPorts, RightsHolder, Thread } from '../thread/thread.ts';
import { allowedValues, originIn } from './approved-values.ts';
import { isNumber, saidIn } from './mentioned-values.ts';
import { declaredRights } from './thread-token.ts';

/** Yields the values of fields at any depth. Field names are not values. */
function* leavesOf(value: Value): Generator<Value> {
  const open = [value];
  for (let next = open.pop(); next; next = open.pop()) {
    const { data } = next;
    if (typeof data !== 'object' || data === null) yield next;
    else for (const key of Object.keys(data)) open.push(elementOf(next, key));
  }
}

/**
 * Returns the facts that a tool's files declare about its results: the kind of each field, and the fields with
 * untrusted text. `undefined`: no item has this name.
 */
export function declaredFacts({ library }: HarnessPorts, tool: string): ResultFacts | undefined {
  if (tool === '') return {};
  const chain = library.chain(tool);
  if (!chain.ok) {
    const isOther = (['directive', 'knowledge'] as const).some(
      (kind) => library.find(kind, tool).ok,
    );
    return isOther ? {} : undefined;
  }
  const list = chain.output.links.flatMap((link) => link.tool?.result ?? []);
  return {
    free_text: list.flatMap(({ free_text, identifiers = [] }) => [...free_text, ...identifiers]),
    kinds: Object.fromEntries(list.toReversed().flatMap(({ kinds = {} }) => Object.entries(kinds))),
  };
}

/** Returns the directive as the model got it. With untrusted inputs: the directive as it was signed. */
function directiveParts({ talk, place }: DirectiveTalk): Json[] {
  for (const event of talk.opening) {
    if (event.type !== 'tool_result' || event.data.is_error) continue;
    // The other fields of the result contain texts of tools.
    const directive = getOwn(event.data.content, 'directive');
    const isForeign = carries(unpackMarks(event.data.marks), 'untrusted');
    if (!isForeign && directive !== undefined) return [directive];
  }
  const { state } = place.item.signature;
  if (state !== 'signed' && state !== 'bundle' && state !== 'program') return [];
  const { directive } = place;
  const before = asSigned.get(directive);
  if (before) return before;
  const { description, process, context, outputs } = directive;
  const parts = [JSON.parse(JSON.stringify([description, process, context, outputs])) as Json];
  asSigned.set(directive, parts);
  return parts;
}
const asSigned = new WeakMap<object, Json[]>();

interface MentionedTexts {
  /** Wholes, and single words that are written like names. */
  readonly words: ReadonlySet<string>;
  readonly wholes: ReadonlySet<string>;
}
const cachedMentions = createRecent<string, MentionedTexts>(512);
const mentionsIn = (text: string): MentionedTexts =>
  cachedMentions.get(text) ??
  cachedMentions.set(text, { words: saidIn(text, true), wholes: saidIn(text, false) });

/** A trusted origin of a value, and the kind that it holds for. */
interface Vouching {
  readonly origin: ArgumentOrigin;
  readonly kind: string | undefined;
}

type ObservedRun = ReturnType<Thread['talk']['conversation']['trusted']>;

/** Trusted texts of a conversation: messages and fields of results. They only grow, so each is read once. */
class Sayings {
  readonly #said: MentionedTexts[] = [];
  readonly #fields = new Map<Json, Vouching[]>();
  #read = 0;

  update({ texts, results }: ObservedRun, ports: HarnessPorts): void {
    for (const text of texts.slice(this.#said.length)) this.#said.push(mentionsIn(text));
    for (const result of results.slice(this.#read)) this.#hear(result, ports);
    this.#read = results.length;
  }

  #hear(
    { tool, content, marks, facts }: ObservedRun['results'][number],
    ports: HarnessPorts,
  ): void {
    const declared = facts ?? declaredFacts(ports, tool);
    if (!declared) return;
    for (const single of leavesOf(restoreFields(withoutTime(content), marks, declared))) {
      const { data, meta } = single;
      const isForeign = carries(meta.descriptor, 'untrusted');
      const kind = plainText(meta.origin.kind ?? '') || undefined;
      const as = isForeign ? vouchedAs(single, kind) : 'result';
      const isMute = meta.origin.unvouched === true;
      if (data === null || isMute || as === undefined || as === 'reference') continue;
      const before = this.#fields.get(data) ?? [];
      if (before.some((one) => one.kind === kind && one.origin.kind === as)) continue;
      this.#fields.set(data, [...before, { origin: { kind: as }, kind }]);
    }
  }

  isSaid(value: string, words: boolean): boolean {
    return this.#said.some((one) => (words ? one.words : one.wholes).has(value));
  }

  /** Returns the strongest origin of a value among fields of this kind. */
  field(value: Json, kind: string | undefined): ArgumentOrigin | undefined {
    const found = this.#fields.get(value)?.filter((one) => one.kind === kind) ?? [];
    const best = found.find(({ origin }) => origin.kind !== 'identifier') ?? found[0];
    return best?.origin;
  }
}

const cachedTexts = new WeakMap<ObservedRun, Sayings>();

/** Trusted texts of a thread, for one call. */
class ThreadTexts {
  readonly #sayings: Sayings;
  readonly #directive: readonly MentionedTexts[];

  constructor(thread: DirectiveTalk) {
    const run = thread.talk.conversation.trusted();
    this.#sayings = cachedTexts.get(run) ?? new Sayings();
    cachedTexts.set(run, this.#sayings);
    this.#sayings.update(run, thread.ports);
    this.#directive = directiveParts(thread)
      .flatMap((part) => [...leavesOf(makeValue(part))])
      .flatMap(({ data }) => (typeof data === 'string' ? mentionsIn(data) : []));
  }

  #isSaid(value: string, words: boolean): boolean {
    const isInDirective = this.#directive.some((one) =>
      (words ? one.words : one.wholes).has(value),
    );
    return isInDirective || this.#sayings.isSaid(value, words);
  }

  /** Returns the origin of a value. A command must be a whole text, and a number never counts as an id. */
  originOf(part: Json, { role, kind }: Argument): ArgumentOrigin | undefined {
    const isText = typeof part === 'string' && !(kind !== undefined && isNumber(part));
    if (isText && this.#isSaid(part, role !== 'command')) return { kind: 'said' };
    return part === null ? undefined : this.#sayings.field(part, kind);
  }
}

const isEmpty = (value: Json): boolean =>
  value === null || value === '' || (typeof value === 'object' && Object.keys(value).length === 0);

const STEERS: ReadonlySet<string | undefined> = new Set(['destination', 'command', 'path']);

/** Origins, the weakest first. The weakest origin in a list counts. */
const STRENGTH: readonly ArgumentOrigin['kind'][] = ['identifier', 'directory', 'result', 'said'];
const isWeaker = (one: ArgumentOrigin, other: ArgumentOrigin | undefined): boolean =>
  !other || STRENGTH.indexOf(one.kind) < STRENGTH.indexOf(other.kind);

function originOf(
  texts: ThreadTexts,
  { fixed = {} }: Operation,
  argument: Argument,
): ArgumentOrigin | undefined {
  const { name, role, kind, value } = argument;
  const { data } = value;
  if (Object.hasOwn(fixed, name) && JSON.stringify(fixed[name]) === JSON.stringify(data)) {
    return { kind: 'fixed' };
  }
  // An empty value names nothing, but a destination can treat it as everything.
  if (isEmpty(data)) return STEERS.has(role) ? undefined : { kind: 'fixed' };
  const as = vouchedInAll(value, kind);
  if (as === 'identifier' || as === 'directory') return { kind: as };
  let best: ArgumentOrigin | undefined;
  for (const single of singlesOf(value)) {
    if (!carries(single.meta.descriptor, 'untrusted')) continue;
    // An untrusted value that was passed on has facts of its own. Its text proves nothing.
    if (isPassedOn(single)) return undefined;
    const origin = texts.originOf(single.data, argument);
    if (!origin) return undefined;
    best = isWeaker(origin, best) ? origin : best;
  }
  return best;
}

/** True for a glob that covers the whole project. */
const isWhole = (glob: string): boolean => /^[*?./]*$/.test(glob);

/** Returns the grants, declared or approved, that let this thread write to the path. */
function rightsTo({ ports, place, rights }: RightsHolder, path: string): Grant[] {
  const declared = declaredRights(ports, place.directive);
  const grants = [
    ...(declared.ok ? declared.output.grants : []),
    ...rights.approved.takeable().map(({ grant }) => grant),
  ];
  const { catalog } = ports.library.capabilities();
  const need = { capability: 'fs.write', scope: { path } };
  return grants.filter((grant) => grantsAllow([grant], need, catalog));
}

/** Returns an origin for a path: a new file, or a file that the thread made itself. */
async function originByPlace(
  thread: RightsHolder,
  { role, place, value: { data } }: Argument,
  inputs: readonly Argument[],
): Promise<ArgumentOrigin | undefined> {
  if (!place || role !== 'path' || typeof data !== 'string') return undefined;
  const values = new Map(inputs.map(({ name, value }) => [name, value.data]));
  const { relative, state, adds, sha256 } = await place(data, thread.place.id, values);
  const grants = state === 'closed' ? [] : rightsTo(thread, relative);
  if (grants.length === 0) return { kind: 'closed', holds: 'never' };
  const scopes = grants.flatMap(({ scope }) => scope?.path ?? []);
  const by = scopes.find((glob) => !isWhole(glob) && matchGlob(glob, relative));
  if (by === undefined) return undefined;
  if (adds) return { kind: 'granted', by, holds: 'add' };
  if (state === 'new') return { kind: 'granted', by, holds: 'new' };
  return state === 'own' && sha256 !== undefined ? { kind: 'own', by, holds: sha256 } : undefined;
}

/** Returns the arguments of a model's call with their origins. */
export async function traceOrigins(
  thread: Thread,
  op: Operation,
  inputs: readonly Argument[],
): Promise<readonly Argument[]> {
  const texts = new ThreadTexts(thread);
  // Approvals are read once, when a value needs one. Most calls need none.
  let allowed: Awaited<ReturnType<typeof allowedValues>> | undefined;
  const traced: Argument[] = [];
  for (const input of inputs) {
    let origin = originOf(texts, op, input);
    if (!origin && carries(input.value.meta.descriptor, 'untrusted')) {
      allowed ??= await allowedValues(thread.ports.store, thread.place.chain);
      origin =
        (await originIn(thread, allowed, op, input)) ??
        (await originByPlace(thread, input, inputs));
    }
    traced.push(origin ? { ...input, origin } : input);
  }
  return traced;
}
