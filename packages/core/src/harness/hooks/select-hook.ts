// What the condition and the inputs of a hook can read. The names are those that `items` checks
// conditions against when a directive is loaded; a test keeps the two together. Most conditions look
// at the event and at nothing else, at every checkpoint, so each part is made when it is read.
import {
  fail,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  setOwn,
} from '../../base/index.ts';
import { compileExpression, fillTemplate, templatePaths } from '../../expr/index.ts';
import { EVENT_FIELDS, EVENT_NAMES, type Hook, mayMatch } from '../../items/index.ts';
import { limitsView } from '../limits/limit.ts';
import type { CompiledHook, Thread } from '../thread/thread.ts';
import type { CheckpointEvent } from './checkpoint.ts';

/** Each part is made once, when it is first read: what a hook saw does not change while it is asked. */
function withParts(context: JsonObject, parts: Readonly<Record<string, () => Json>>): JsonObject {
  for (const [name, make] of Object.entries(parts)) {
    const get = (): Json => {
      const value = make();
      Object.defineProperty(context, name, { value });
      return value;
    };
    Object.defineProperty(context, name, { get, configurable: true, enumerable: true });
  }
  return context;
}

/** What this step needs; at the start, what is declared. */
function requiredBy(event: CheckpointEvent, ofStep: () => readonly string[]): string[] {
  const detail = event.name === 'error' ? event.detail : undefined;
  const missing = detail?.required ?? detail?.missing_all;
  const named = Array.isArray(missing) ? missing.map(plainText) : [];
  return [...new Set([...named, ...ofStep()])];
}

/** The part of a thread that conditions and inputs of hooks can read. */
type HookView = Pick<Thread, 'place' | 'control' | 'budget' | 'rights' | 'talk'>;

export function buildContext(
  { place, control, budget, rights, talk }: HookView,
  event: CheckpointEvent,
  required: () => readonly string[] = () => [],
): JsonObject {
  const { id, parent = null, depth, inputs } = place;
  const { name, version } = place.directive;
  const granted = (): string[] => [...rights.own.granted];
  return withParts(
    {
      event: { ...event },
      directive: { name, version, inputs },
      thread: { id, parent, depth, attempt: control.attempt },
    },
    {
      cost: () => budget.meter.view(),
      limits: () => limitsView(budget.limits),
      permissions: () => ({ granted: granted(), required: requiredBy(event, required) }),
      // The name it has in older directives.
      token: () => ({ capabilities: granted() }),
      labels() {
        const { conversation, references } = talk;
        return [...(references ? conversation.allMarks() : conversation.marks()).labels];
      },
    },
  );
}

// Which hook answers at a checkpoint. A condition about `event` is asked anew for every event; one
// that reads only running figures would match at every step once it is true, so it fires when it
// becomes true and not again before it was false.

/** Hooks of a directive that was read once are compiled once, however many threads run it. */
const COMPILED = new WeakMap<readonly Hook[], readonly CompiledHook[]>();

/** Conditions were checked when the directive was loaded; a failure here names the place all the same. */
export function compileHooks(hooks: readonly Hook[]): Outcome<readonly CompiledHook[]> {
  const before = COMPILED.get(hooks);
  if (before) return ok(before);
  const compiled: CompiledHook[] = [];
  for (const [index, hook] of hooks.entries()) {
    const expression = compileExpression(hook.when);
    if (!expression.ok) {
      const { message } = expression.error.detail;
      return fail('invalid_item', `the condition of hook ${index + 1} cannot be read: ${message}`, {
        ...expression.error.detail,
        line: hook.line,
      });
    }
    const readsEvent = expression.output.paths.some(({ path }) => path[0] === 'event');
    const events = new Set(
      EVENT_NAMES.filter((name) => mayMatch(expression.output, name, EVENT_FIELDS[name])),
    );
    compiled.push({ hook, index, expression: expression.output, readsEvent, events });
  }
  COMPILED.set(hooks, compiled);
  return ok(compiled);
}

/** The first match in document order. Remembers in `fired` what fired and what became false. */
export function select(hooks: readonly CompiledHook[], context: Json, fired: Set<number>) {
  /** Conditions that could not be evaluated: they did not match, and somebody should know. */
  const errors: { hook: Hook; message: string }[] = [];
  let chosen: CompiledHook | undefined;
  for (const each of hooks) {
    const isLatched = fired.has(each.index);
    // After a match only falling edges are of interest: a hook that fired must see its condition end.
    if (chosen && !isLatched) continue;
    const holds = each.expression.test(context);
    if (!holds.ok) errors.push({ hook: each.hook, message: holds.error.detail.message });
    if (!holds.ok || !holds.output) {
      fired.delete(each.index);
    } else if (!chosen && !isLatched) {
      chosen = each;
      if (!each.readsEvent) fired.add(each.index);
    }
  }
  return { hook: chosen, errors };
}

/**
 * The hook's inputs with the context put in. One that is nothing but a path that is not there is left out,
 * so that its default holds; within a text what is missing is empty. Template text is never passed on.
 */
export function fillInputs({ hook }: CompiledHook, context: Json): JsonObject {
  const inputs: JsonObject = {};
  for (const [name, given] of Object.entries(hook.inputs)) {
    const value = withoutMissing(given, context);
    if (value !== undefined) setOwn(inputs, name, value);
  }
  return fillTemplate(inputs, context) as JsonObject;
}

/** A context in which nothing is told of what came in from outside. */
export function withoutOutside(context: JsonObject): JsonObject {
  const { event, directive, permissions } = context;
  const about = isObject(event) ? event : {};
  const said = ['arguments', 'result', 'detail'].filter((name) => Object.hasOwn(about, name));
  const none = Object.fromEntries(said.map((name) => [name, null]));
  return {
    ...context,
    event: { ...about, ...none },
    directive: { ...(isObject(directive) ? directive : {}), inputs: {} },
    permissions: { ...(isObject(permissions) ? permissions : {}), required: [] },
  };
}

/** Without the placeholders that the context does not fill; undefined when nothing else was there. */
function withoutMissing(given: Json, context: Json): Json | undefined {
  if (Array.isArray(given)) return given.map((item) => withoutMissing(item, context) ?? null);
  if (isObject(given)) {
    const kept: JsonObject = {};
    for (const [key, item] of Object.entries(given)) {
      const value = withoutMissing(item, context);
      if (value !== undefined) setOwn(kept, key, value);
    }
    return kept;
  }
  if (typeof given !== 'string') return given;
  const left = templatePaths(given).reduceRight((text, { offset }) => {
    const end = text.indexOf('}', offset) + 1;
    const placeholder = text.slice(offset, end);
    const isFilled = fillTemplate(placeholder, context) !== placeholder;
    return isFilled ? text : text.slice(0, offset) + text.slice(end);
  }, given);
  return left === '' && given !== '' ? undefined : left;
}
