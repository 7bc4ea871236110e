// What the condition and the inputs of a hook can read. The names are those that `items` checks
// conditions against when a directive is loaded; a test keeps the two together. Most conditions look
// at the event and at nothing else, at every checkpoint, so each part is made when it is read.
import type { JsonObject } from '../base/index.ts';
import type { Directive } from '../items/index.ts';
import { type CheckpointEvent, eventView } from './checkpoint.ts';

export interface HookFacts {
  readonly event: CheckpointEvent;
  readonly directive: Pick<Directive, 'name' | 'version'>;
  readonly inputs: JsonObject;
  /** `CostMeter.view()` and `limitsView(…)`. */
  readonly cost: () => JsonObject;
  readonly limits: () => JsonObject;
  readonly permissions: () => {
    readonly granted: readonly string[];
    /** What this step needs; at the start, what is declared. */
    readonly required: readonly string[];
  };
  readonly thread: {
    readonly id: string;
    readonly parent?: string;
    readonly depth: number;
    readonly attempt: number;
  };
  readonly labels: () => readonly string[];
}

/** Made once, when it is first read: what a hook saw does not change while it is asked. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

export function buildContext(facts: HookFacts): JsonObject {
  const { event, directive, inputs, thread } = facts;
  const [cost, limits] = [once(facts.cost), once(facts.limits)];
  const labels = once(() => [...facts.labels()]);
  const permissions = once(() => {
    const { granted, required } = facts.permissions();
    return { granted: [...granted], required: [...required] };
  });
  return {
    event: eventView(event),
    directive: { name: directive.name, version: directive.version, inputs },
    get cost() {
      return cost();
    },
    get limits() {
      return limits();
    },
    get permissions() {
      return permissions();
    },
    // The name it has in older directives.
    get token() {
      return { capabilities: permissions().granted };
    },
    thread: {
      id: thread.id,
      parent: thread.parent ?? null,
      depth: thread.depth,
      attempt: thread.attempt,
    },
    get labels() {
      return labels();
    },
  };
}
