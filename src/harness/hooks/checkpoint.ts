// The four points where hooks are evaluated, and what they are told there.
import type { ErrorCode, Fault, Json, JsonObject } from '../../base/index.ts';
import type { LimitEvent, WarningEvent } from '../limits/limit.ts';

export type Checkpoint = 'before_step' | 'after_step' | 'on_error' | 'on_limit';
export type StepKind = 'turn' | 'tool' | 'spawn';

/** A step as events name it. */
export interface Step {
  readonly kind: StepKind;
  /** The executed item's id, `search`, `load` or `help`; absent for a turn. */
  readonly tool?: string;
  readonly turn: number;
  readonly arguments?: Json;
}

export type CheckpointEvent =
  | {
      readonly name: 'before_step';
      readonly kind: StepKind;
      readonly step: string;
      readonly turn: number;
      readonly tool?: string;
      readonly arguments?: Json;
    }
  | {
      readonly name: 'after_step';
      readonly kind: StepKind;
      readonly step: string;
      readonly turn: number;
      readonly tool?: string;
      readonly result: Json;
    }
  | { readonly name: 'error'; readonly code: ErrorCode; readonly detail: Fault['detail'] }
  | LimitEvent
  | WarningEvent;

/** `fs/write_file`, or `turn 3`. */
export const stepName = (step: Step): string => step.tool ?? `turn ${step.turn}`;

export const beforeStep = (step: Step): CheckpointEvent => ({
  name: 'before_step',
  step: stepName(step),
  ...step,
});

export const afterStep = (step: Step, result: Json): CheckpointEvent => ({
  name: 'after_step',
  kind: step.kind,
  step: stepName(step),
  turn: step.turn,
  ...(step.tool !== undefined && { tool: step.tool }),
  result,
});

export const onError = ({ code, detail }: Fault): CheckpointEvent => ({
  name: 'error',
  code,
  detail,
});

const CHECKPOINTS: Readonly<Record<CheckpointEvent['name'], Checkpoint>> = {
  before_step: 'before_step',
  after_step: 'after_step',
  error: 'on_error',
  limit: 'on_limit',
  warning: 'on_limit',
};

export const checkpointOf = (event: CheckpointEvent): Checkpoint => CHECKPOINTS[event.name];

/** As conditions and templates read it. */
export const eventView = (event: CheckpointEvent): JsonObject => ({ ...event });

/** The fault behind an event that ends a run. No `default`: a new event must fail to compile here. */
export function faultOf(event: CheckpointEvent): Fault | undefined {
  switch (event.name) {
    case 'before_step':
    case 'after_step':
      return undefined;
    case 'error':
      return { code: event.code, detail: event.detail };
    case 'limit':
    case 'warning': {
      const { code, limit, current, max } = event;
      const message =
        limit === 'context' || limit === 'depth'
          ? `limit \`${limit}\` reached: ${current} is more than ${max}`
          : `limit \`${limit}\` reached: ${current} of ${max} used`;
      return { code, detail: { limit, current, max, message } };
    }
  }
}
