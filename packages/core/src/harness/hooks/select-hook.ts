// Selects the hook that answers at a checkpoint, and fills its inputs. A condition about `event` is evaluated
// for every event. A condition about figures alone fires when it becomes true, not at every step after that.
// `items` checks the names in conditions when a directive is loaded.
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

/** Adds parts that are computed on their first read, because most conditions read the event alone. */
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

function requiredBy(event: CheckpointEvent, ofStep: () => readonly string[]): string[] {
  const detail = event.name === 'error' ? event.detail : undefined;
  const missing = detail?.required ?? detail?.missing_all;
  const named = Array.isArray(missing) ? missing.map(plainText) : [];
  return [...new Set([...named, ...ofStep()])];
}

/** The part of a thread that conditions and inputs of hooks can read. */
export type HookView = Pick<Thread, 'place' | 'control' | 'budget' | 'rights' | 'talk'>;

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
      // Older directives use this name.
      token: () => ({ capabilities: granted() }),
      labels() {
        const { conversation, references } = talk;
        return [...(references ? conversation.allMarks() : conversation.marks()).labels];
      },
    },
  );
}

/** Compiled hooks of each parsed directive, shared by all threads that run it. */
const COMPILED = new WeakMap<readonly Hook[], readonly CompiledHook[]>();

/** Compiles the conditions of hooks. Fails with `invalid_item` and the line of a hook that cannot be read. */
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
      EVENT_NAMES.filter(
        // A condition with figures alone is not evaluated at the end, so that it never demands another round.
        (name) =>
          (name !== 'end' || readsEvent) && mayMatch(expression.output, name, EVENT_FIELDS[name]),
      ),
    );
    compiled.push({ hook, index, expression: expression.output, readsEvent, events });
  }
  COMPILED.set(hooks, compiled);
  return ok(compiled);
}

/** Returns the first match in document order. Adds it to `fired` and removes hooks that are rearmed. */
export function select(hooks: readonly CompiledHook[], context: Json, fired: Set<number>) {
  /** Conditions that could not be evaluated. They do not match, and the journal records them. */
  const errors: { hook: Hook; message: string }[] = [];
  let chosen: CompiledHook | undefined;
  for (const each of hooks) {
    const isLatched = fired.has(each.index);
    // After a match only hooks that have fired are evaluated, so that they can be rearmed.
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
 * Returns the hook's inputs with values from the context. An input that is only a path without a value is left
 * out, so that its default applies. A path without a value inside a text becomes empty.
 */
export function fillInputs({ hook }: CompiledHook, context: Json): JsonObject {
  const inputs: JsonObject = {};
  for (const [name, input] of Object.entries(hook.inputs)) {
    const value = withoutMissing(input, context);
    if (value !== undefined) setOwn(inputs, name, value);
  }
  return fillTemplate(inputs, context) as JsonObject;
}

/** Returns the context without untrusted data. */
export function withoutOutside(context: JsonObject): JsonObject {
  const { event, directive, permissions } = context;
  const about = isObject(event) ? event : {};
  const fields = ['arguments', 'result', 'detail', 'text', 'outputs'].filter((name) =>
    Object.hasOwn(about, name),
  );
  const none = Object.fromEntries(fields.map((name) => [name, null]));
  return {
    ...context,
    event: { ...about, ...none },
    directive: { ...(isObject(directive) ? directive : {}), inputs: {} },
    permissions: { ...(isObject(permissions) ? permissions : {}), required: [] },
  };
}

/** Returns the value without placeholders that have no value; `undefined` if nothing else is left. */
function withoutMissing(template: Json, context: Json): Json | undefined {
  if (Array.isArray(template)) return template.map((item) => withoutMissing(item, context) ?? null);
  if (isObject(template)) {
    const filled: JsonObject = {};
    for (const [key, item] of Object.entries(template)) {
      const value = withoutMissing(item, context);
      if (value !== undefined) setOwn(filled, key, value);
    }
    return filled;
  }
  if (typeof template !== 'string') return template;
  const rest = templatePaths(template).reduceRight((text, { offset }) => {
    const end = text.indexOf('}', offset) + 1;
    const placeholder = text.slice(offset, end);
    const isFilled = fillTemplate(placeholder, context) !== placeholder;
    return isFilled ? text : text.slice(0, offset) + text.slice(end);
  }, template);
  return rest === '' && template !== '' ? undefined : rest;
}
