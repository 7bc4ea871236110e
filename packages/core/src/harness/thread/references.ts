// What strangers wrote, kept where a model cannot read it. The model is shown that something is there, of
// what type and how much of it, under a name (`$r3`); it writes that name where it wants the thing, and the
// call is made with the very value, its marks and its facts. Numbers are given in the order in which things
// come in, so a thread that goes on from its journal has the same ones.
//
// INVARIANT: nothing that carries `untrusted` is shown, at any depth, and what was put in the place of a
// name is never looked at again: a stranger's text that says `$r1` is a text.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  setOwn,
} from '../../base/index.ts';
import {
  addMarks,
  carries,
  type Descriptor,
  EMPTY,
  elementOf,
  LIMIT_NAMES,
  makeContainer,
  makeValue,
  mergeDescriptors,
  removeLabels,
  restoreFields,
  type Value,
  withOrigin,
} from '../../flow/index.ts';
import type { Display, KeptResult, Visible } from '../../journal/index.ts';
import { fillForm } from '../../kernel/index.ts';

export interface References extends Display {
  /**
   * What a model wrote, with each reference replaced by that very value with its own marks and facts; inside
   * of a longer text its text is put in. `own`: of what the model wrote itself.
   */
  resolve(written: Json, own: Descriptor): Outcome<Value>;
  /** Everything that has a name, in order. */
  values(): readonly Value[];
  /** Large results by their hash. They are read from the store before a thread resumes. */
  readonly wholes: Map<string, Json>;
}

const isForeign = (marks: Descriptor): boolean => carries(marks, 'untrusted');

/** Its type and its size, and no word of it: names of fields are words too. */
function shapeOf(data: Json): JsonObject {
  if (typeof data === 'string') return { type: 'text', characters: data.length };
  if (Array.isArray(data)) return { type: 'list', items: data.length };
  if (isObject(data)) return { type: 'object', fields: Object.keys(data).length };
  return { type: data === null ? 'nothing' : typeof data };
}

/** Codes of ours: a tool may report its own, and a stranger may have chosen those. */
const CODES: ReadonlySet<string> = new Set([
  ...'approval_denied approval_expired cancelled config_invalid conflict http_error'.split(' '),
  ...'internal_error invalid_input loop_detected mcp_connection_failed needs_input'.split(' '),
  ...'network_error not_found outcome_unknown output_invalid permission_denied'.split(' '),
  ...'quota_exceeded rate_limit response_too_large sandbox_missing spawn_failed'.split(' '),
  ...'thread_ended timeout tool_chain_failed'.split(' '),
  ...LIMIT_NAMES.map((name) => `${name}_exceeded`),
]);
const SOME_FAILURE = 'tool_failed';

// `$r3`, `$r3.field`, `$r3[0]`, `$r3["any name"]`; `$$r3` is the text itself.
const STEP = String.raw`\.[\p{L}\p{N}_-]+|\[\d+\]|\["[^"\]]+"\]`;
const NAMED = new RegExp(String.raw`(\$?)\$r(\d+)(?![\p{L}\p{N}_])((?:${STEP})*)`, 'gu');
const STEPS = new RegExp(STEP, 'gu');

/** More than any honest call is nested. */
const MAX_DEPTH = 200;
/** In characters, of all that one call is given by reference. */
const MAX_PUT_IN = 32_000_000;

const keyOf = (step: string): string =>
  step.startsWith('.') ? step.slice(1) : step.slice(1, -1).replace(/^"|"$/g, '');

const has = (data: Json, key: string): boolean =>
  Array.isArray(data)
    ? /^\d+$/.test(key) && Number(key) < data.length
    : Object.hasOwn(data as object, key);

/** What stands there; a text has no fields, so what follows its name is text. Undefined: nothing does. */
function follow(root: Value, path: string): { value: Value; rest: string } | undefined {
  let [value, rest] = [root, path];
  for (const [step] of path.matchAll(STEPS)) {
    if (typeof value.data !== 'object' || value.data === null) break;
    const key = keyOf(step);
    if (!has(value.data, key)) return undefined;
    value = elementOf(value, key);
    rest = rest.slice(step.length);
  }
  return { value, rest };
}

const refuse = (message: string): Outcome<never> => fail('invalid_input', message);

/** One call: what it is given, and how much of it. */
class Resolving {
  readonly #values: readonly Value[];
  #size = 0;
  /** Is it anything but what was written? */
  isOther = false;

  constructor(values: readonly Value[]) {
    this.#values = values;
  }

  #there(): string {
    const { length } = this.#values;
    if (length === 0) return 'there are none yet';
    return length === 1 ? 'there is `$r1`' : `there are \`$r1\` to \`$r${length}\``;
  }

  #find(number: string, path: string): Outcome<{ value: Value; rest: string }> {
    const root = this.#values[Number(number) - 1];
    const as = `write \`$$r${number}\` for the text itself`;
    if (!root) return refuse(`there is no reference \`$r${number}\`; ${this.#there()}; ${as}`);
    const found = follow(root, path);
    if (!found) {
      const { type, ...size } = shapeOf(root.data);
      const much = Object.entries(size).map(([of, count]) => `${plainText(count)} ${of}`);
      return refuse(
        `there is no \`$r${number}${path}\`: \`$r${number}\` is ${plainText(type)} with ${much.join('')}, and this is not in it`,
      );
    }
    this.#size += found.value.text.length;
    return this.#size > MAX_PUT_IN
      ? refuse(`a call is given at most ${MAX_PUT_IN} characters by reference`)
      : ok(found);
  }

  #text(written: string): Outcome<Value> {
    let [text, marks, end] = ['', EMPTY, 0];
    for (const match of written.matchAll(NAMED)) {
      const [all, escape, number = '', path = ''] = match;
      this.isOther = true;
      text += written.slice(end, match.index);
      end = match.index + all.length;
      if (escape !== '') {
        text += all.slice(1);
        continue;
      }
      const found = this.#find(number, path);
      if (!found.ok) return found;
      const { value, rest } = found.output;
      if (all === written && rest === '') return ok(withOrigin(value, { reference: written }));
      text += value.text + rest;
      marks = mergeDescriptors(marks, value.meta.descriptor);
    }
    return ok(makeValue(text + written.slice(end), { descriptor: marks }));
  }

  value(written: Json, depth = 0): Outcome<Value> {
    if (depth > MAX_DEPTH) return refuse(`a call is nested at most ${MAX_DEPTH} deep`);
    if (typeof written === 'string') return this.#text(written);
    if (typeof written !== 'object' || written === null) return ok(makeValue(written));
    const parts = new Map<string, Value>();
    for (const [name, item] of Object.entries(written)) {
      const part = this.value(item, depth + 1);
      if (!part.ok) return part;
      parts.set(name, part.output);
    }
    return ok(makeContainer(Array.isArray(written) ? [...parts.values()] : parts));
  }
}

const asObject = (value: Json | undefined): JsonObject => (isObject(value) ? value : {});

/** `shortened`: what is too large to be said in full; undefined when it is not. */
export function createReferences(
  shortened: (content: Json) => Json | undefined = () => undefined,
): References {
  const values: Value[] = [];
  const wholes = new Map<string, Json>();

  function refer(value: Value): JsonObject {
    values.push(value);
    return { reference: `$r${values.length}`, ...shapeOf(value.data) };
  }

  function show(value: Value): Visible {
    const { data } = value;
    const { descriptor, elements } = value.meta;
    if (!isForeign(descriptor)) return { content: data, marks: descriptor };
    const around = elements && mergeDescriptors(elements.own, elements.shape);
    if (!around || isForeign(around) || typeof data !== 'object' || data === null) {
      return { content: refer(value), marks: EMPTY };
    }
    let marks = around;
    const part = (key: string | number): Json => {
      const shown = show(elementOf(value, key));
      marks = mergeDescriptors(marks, shown.marks);
      return shown.content;
    };
    if (Array.isArray(data)) return { content: data.map((_, at) => part(at)), marks };
    const content: JsonObject = {};
    for (const name of Object.keys(data)) setOwn(content, name, part(name));
    return { content, marks };
  }

  /** That it failed and how, in a word of ours; what is said about it may quote anybody. */
  function showFault(content: Json, descriptor: Descriptor): Visible {
    const error = getOwn(content, 'error');
    const code = plainText(getOwn(error, 'code') ?? '');
    const detail = makeValue(getOwn(error, 'detail') ?? content, { descriptor });
    const told = { code: CODES.has(code) ? code : SOME_FAILURE, detail: refer(detail) };
    return { content: { ok: false, error: told }, marks: EMPTY };
  }

  /** The directive, with names where its text speaks of inputs that are not shown. */
  function showOpening(
    content: Json,
    marks: Descriptor,
    given: ReadonlyMap<string, Value>,
  ): Visible {
    const names: JsonObject = {};
    const inputs: JsonObject = { ...asObject(getOwn(getOwn(content, 'directive'), 'inputs')) };
    for (const [name, value] of given) {
      const told = refer(value);
      setOwn(inputs, name, told);
      setOwn(names, name, told.reference ?? null);
    }
    const directive = fillForm({ ...asObject(getOwn(content, 'directive')), inputs }, names);
    const shown = { ...asObject(content), directive };
    return { content: shown, marks: removeLabels(marks, ['untrusted']) };
  }

  function result({ content, marks, isError, facts, given }: KeptResult, whole = content): Visible {
    if (given) return showOpening(content, marks, given);
    if (!isForeign(marks)) return { content, marks };
    if (isError) return showFault(whole, marks);
    const value = restoreFields(whole, marks, facts);
    const shown = show(value);
    const preview = shortened(shown.content);
    if (preview === undefined) return shown;
    const { artifact = null, bytes = null } = asObject(content);
    const message = 'shortened; all of it is in the reference';
    return { ...shown, content: { artifact, bytes, ...refer(value), preview, message } };
  }

  return {
    show,
    result,
    resolve(written, own) {
      const call = new Resolving(values);
      const resolved = call.value(written);
      if (!resolved.ok) return resolved;
      return ok(
        call.isOther ? addMarks(resolved.output, own) : makeValue(written, { descriptor: own }),
      );
    },
    values: () => values,
    wholes,
  };
}
