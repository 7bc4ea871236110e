// What the condition and the inputs of a hook can read. The names are those that `items` checks
// conditions against when a directive is loaded; a test keeps the two together.
import type { JsonObject } from '../base/index.ts';
import type { Directive } from '../items/index.ts';
import { type CheckpointEvent, eventView } from './checkpoint.ts';

export interface HookFacts {
  readonly event: CheckpointEvent;
  readonly directive: Pick<Directive, 'name' | 'version'>;
  readonly inputs: JsonObject;
  /** `CostMeter.view()` and `limitsView(…)`. */
  readonly cost: JsonObject;
  readonly limits: JsonObject;
  readonly permissions: {
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
  readonly labels: readonly string[];
}

export function buildContext(facts: HookFacts): JsonObject {
  const { event, directive, inputs, cost, limits, permissions, thread, labels } = facts;
  const granted = [...permissions.granted];
  return {
    event: eventView(event),
    directive: { name: directive.name, version: directive.version, inputs },
    cost,
    limits,
    permissions: { granted, required: [...permissions.required] },
    // The name it has in older directives.
    token: { capabilities: granted },
    thread: {
      id: thread.id,
      parent: thread.parent ?? null,
      depth: thread.depth,
      attempt: thread.attempt,
    },
    labels: [...labels],
  };
}
