// Defines the five checkpoints at which hooks are evaluated, and the events that hooks get there.
import type { ErrorCode, Fault, Json } from '../../base/index.ts';
import type { FlowCheckpoint, MaybePromise } from '../../flow/index.ts';
import type { HookStart } from '../../journal/index.ts';
import { type LimitEvent, limitWords, type WarningEvent } from '../limits/limit.ts';

export type Checkpoint = 'before_step' | 'after_step' | 'on_error' | 'on_limit' | 'on_end';

export interface Step {
  readonly kind: 'turn' | 'tool' | 'spawn' | 'compact';
  /** Id of the executed item, `search`, `load` or `help`. Absent for a turn. */
  readonly tool?: string;
  readonly turn: number;
  /** Facts about a compaction before it starts: who asked, the next request in tokens, and the window. */
  readonly asked?: 'harness' | 'model' | 'person';
  readonly tokens?: number;
  readonly window?: number;
  readonly arguments?: Json;
  /** Capabilities that the step needs, for `permissions.required`. Not part of the event. */
  readonly required?: () => readonly string[];
  /** The open call and its result so far, for a hook that is resumed later. Not part of the event. */
  readonly call?: {
    readonly id: string;
    held(event: FlowCheckpoint): MaybePromise<NonNullable<HookStart['held']>>;
  };
}

type StepOfEvent = Omit<Step, 'required' | 'call'>;

export type CheckpointEvent =
  | ({ readonly name: 'before_step'; readonly step: string } & StepOfEvent)
  | ({ readonly name: 'after_step'; readonly step: string; readonly result: Json } & Omit<
      StepOfEvent,
      'arguments'
    >)
  | { readonly name: 'error'; readonly code: ErrorCode; readonly detail: Fault['detail'] }
  | LimitEvent
  | WarningEvent
  /** The run would complete. `round`: number of this place, from 1. */
  | { readonly name: 'end'; readonly text: string; readonly outputs: Json; readonly round: number };

/** Returns the name of a step: its tool, such as `fs/write_file`, or `turn 3` for a turn. */
export const stepName = (step: StepOfEvent): string => step.tool ?? `turn ${step.turn}`;

export function beforeStep(source: Step): CheckpointEvent {
  const { required: _, call: __, ...step } = source;
  return { name: 'before_step', step: stepName(step), ...step };
}

export function afterStep(source: Step, result: Json): CheckpointEvent {
  const { arguments: _, required: __, call: ___, ...step } = source;
  return { name: 'after_step', step: stepName(step), ...step, result };
}

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
  end: 'on_end',
};

export const checkpointOf = (event: CheckpointEvent): Checkpoint => CHECKPOINTS[event.name];

/** Returns the fault of an event that can end a run. Without a `default`, a new event does not compile. */
export function faultOf(event: CheckpointEvent): Fault | undefined {
  switch (event.name) {
    case 'before_step':
    case 'after_step':
    case 'end':
      return undefined;
    case 'error':
      return { code: event.code, detail: event.detail };
    case 'limit':
    case 'warning': {
      const { name: _, code, ...facts } = event;
      return { code, detail: { ...facts, message: limitWords(event) } };
    }
  }
}
