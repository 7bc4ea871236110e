// Lists the fields that the condition of a hook can read. Any other name is reported when a directive is loaded,
// because a misspelt name would never match.
import type { ContextSchema } from '../../expr/index.ts';
import { LIMIT_NAMES } from '../../flow/index.ts';

const values = (names: string): ContextSchema =>
  Object.fromEntries(names.split(' ').map((name) => [name, 'value' as const]));

export const EVENT_NAMES = [
  'before_step',
  'after_step',
  'error',
  'limit',
  'warning',
  'end',
] as const;
export type EventName = (typeof EVENT_NAMES)[number];

/** Fields of each event, besides its name. For any other field a condition reads null. */
export const EVENT_FIELDS: Readonly<Record<EventName, readonly string[]>> = {
  before_step: ['kind', 'step', 'turn', 'tool', 'arguments', 'asked', 'tokens', 'window'],
  after_step: ['kind', 'step', 'turn', 'tool', 'result'],
  error: ['code', 'detail'],
  limit: ['code', 'limit', 'current', 'max', 'reserved', 'needed', 'thread'],
  warning: ['code', 'limit', 'percent', 'current', 'max'],
  end: ['text', 'outputs', 'round'],
};
export const ALL_FIELDS = [...new Set(Object.values(EVENT_FIELDS).flat())];

export const HOOK_CONTEXT: ContextSchema = {
  event: {
    ...values(ALL_FIELDS.join(' ')),
    name: EVENT_NAMES,
    kind: ['turn', 'tool', 'spawn', 'compact'],
    limit: LIMIT_NAMES,
    arguments: 'open',
    result: 'open',
    detail: 'open',
    outputs: 'open',
  },
  directive: { ...values('name version'), inputs: 'open' },
  cost: {
    ...values('turns tokens input_tokens output_tokens cache_read_tokens cache_write_tokens'),
    ...values('tool_calls spawns compactions duration_seconds duration spend context_tokens'),
  },
  limits: {
    ...values('turns tokens spawns duration spend spend_currency input_tokens output_tokens'),
    ...values('context context_warn depth tool_calls'),
  },
  permissions: values('granted required'),
  thread: values('id parent depth attempt'),
  labels: 'value',
  token: values('capabilities'),
};
