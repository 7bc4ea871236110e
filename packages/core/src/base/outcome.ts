export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** The result type of every exported operation: kernel, primitives, harness, scripts. */
export type Outcome<T> = { ok: true; output: T } | { ok: false; error: Fault };
export type Failure = { ok: false; error: Fault };

export interface Fault {
  code: ErrorCode;
  /** `message` is for people; the other fields are for hooks to match. */
  detail: { message: string; [key: string]: Json };
}

/** Documented codes. Hooks match them, so a change of one is a breaking change. */
const KNOWN_CODES = [
  ...(['invalid_input', 'invalid_item', 'not_found', 'ambiguous', 'permission_denied'] as const),
  ...(['signature_invalid', 'timeout', 'cancelled', 'rate_limit', 'network_error'] as const),
  ...(['quota_exceeded', 'model_unavailable', 'provider_error', 'stream_incomplete'] as const),
  ...(['outcome_unknown', 'loop_detected', 'stuck', 'tool_failed', 'output_invalid'] as const),
  ...(['tool_chain_failed', 'config_invalid', 'dependency_missing', 'sandbox_missing'] as const),
  ...([
    'unsupported_input',
    'thread_exists',
    'spawn_failed',
    'mcp_connection_failed',
    'hook_failed',
  ] as const),
  ...([
    'mcp_definition_changed',
    'hook_unaffordable',
    'hook_unfit',
    'ended_by_hook',
    'needs_input',
  ] as const),
  ...(['expression_error', 'http_error', 'response_too_large', 'internal_error'] as const),
];

/** Documented codes of the registry of threads, of approvals and of scripts. */
const REGISTRY_CODES = [
  ...(['conflict', 'stale_epoch', 'lease_held', 'lease_expired', 'thread_ended'] as const),
  ...(['store_failed', 'disk_full', 'store_busy', 'store_unknown', 'signalled'] as const),
  ...(['store_closed', 'store_newer', 'store_foreign', 'not_recorded'] as const),
  ...(['journal_unreadable', 'approval_pending', 'approval_denied', 'approval_expired'] as const),
  ...(['approval_used', 'bail', 'steps_differ', 'plan_invalid', 'expectation_failed'] as const),
  ...(['criteria_unmet'] as const),
];

/** Every documented code. A limit has its own code (`turns_exceeded` and so on). */
export type Code =
  | (typeof KNOWN_CODES)[number]
  | (typeof REGISTRY_CODES)[number]
  | `${string}_exceeded`;

const OWN_CODES: ReadonlySet<string> = new Set<string>([
  ...KNOWN_CODES,
  ...REGISTRY_CODES,
  // Only other folders of this package and the command line use these codes.
  'retry_requested',
  'handed_over',
  'shared_limit',
  'items_differ',
  'usage',
  'unavailable',
  'length_required',
  'request_too_large',
  'store_exists',
  'drivers_missing',
  'script_unavailable',
  'project_unnamed',
  'other_place',
  'anneal_refused',
  'retry_in_group',
]);
const OWN_FAMILIES = /_exceeded$|^(?:approval|store|lease|journal|hook|stale|disk|mcp|sandbox)_/;

/** True if the runtime makes decisions by this code. The module of a tool may not report such a code. */
export function isOwnCode(code: string): boolean {
  const name = code.trim().toLowerCase();
  return OWN_CODES.has(name) || OWN_FAMILIES.test(name);
}

// Any text is a valid code, because a tool may report its own codes and a hook may match them.
export type ErrorCode = Code | (string & {});

export const ok = <T>(output: T): Outcome<T> => ({ ok: true, output });

export function fail(
  code: ErrorCode,
  message: string,
  detail: Readonly<Record<string, Json>> = {},
): Failure {
  return { ok: false, error: { code, detail: { ...detail, message } } };
}

/** Adds context to a failure on its way up. Details of the failing part are never replaced. */
export function withDetail(failure: Failure, detail: Readonly<Record<string, Json>>): Failure {
  return {
    ok: false,
    error: { code: failure.error.code, detail: { ...detail, ...failure.error.detail } },
  };
}

/**
 * Passes an answer to `next`, synchronously unless it is a promise. Most answers take less time than a
 * promise would.
 */
export const whenReady = <T, U>(
  answer: T | Promise<T>,
  next: (answer: T) => U | Promise<U>,
): U | Promise<U> => (answer instanceof Promise ? answer.then(next) : next(answer));

/** Returns an answer of a program's code. A thenable, or a promise of another realm, becomes a promise. */
export const toOutcome = <T>(
  answer: Outcome<T> | Promise<Outcome<T>>,
): Outcome<T> | Promise<Outcome<T>> =>
  answer instanceof Promise || typeof answer.ok === 'boolean' ? answer : Promise.resolve(answer);

/** Calls `work` and passes its exception or rejection to `caught`. */
export function catchToOutcome<T>(
  work: () => T | Promise<T>,
  caught: (thrown: unknown) => T | Promise<T>,
): T | Promise<T> {
  try {
    const answer = work();
    return answer instanceof Promise ? answer.catch(caught) : answer;
  } catch (thrown) {
    return caught(thrown);
  }
}

/** Visits one element after the other until a visit returns a value, and returns that value. */
export function inTurn<T, U>(
  items: readonly T[],
  visit: (item: T, at: number) => U | undefined | Promise<U | undefined>,
): U | undefined | Promise<U | undefined> {
  for (let at = 0; at < items.length; at++) {
    const answer = visit(items[at] as T, at);
    if (answer instanceof Promise) return restInTurn(items, visit, at, answer);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** Visits the elements after the first promise in a loop, so that a long list makes no long chain of promises. */
async function restInTurn<T, U>(
  items: readonly T[],
  visit: (item: T, at: number) => U | undefined | Promise<U | undefined>,
  first: number,
  waiting: Promise<U | undefined>,
): Promise<U | undefined> {
  let answer: U | undefined = await waiting;
  for (let at = first + 1; at < items.length && answer === undefined; at++) {
    const next = visit(items[at] as T, at);
    answer = next instanceof Promise ? await next : next;
  }
  return answer;
}

/** Returns the message of any thrown value. Never throws. */
export function messageOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? String(thrown.message) : String(thrown);
  } catch {
    return 'the thrown value has no readable message';
  }
}

/** Returns the code of the operating system, such as `ENOENT`, or the message if there is none. */
export const errnoOf = (thrown: unknown): string =>
  typeof thrown === 'object' &&
  thrown !== null &&
  'code' in thrown &&
  typeof thrown.code === 'string'
    ? thrown.code
    : messageOf(thrown);

/** True for the codes of a file that does not exist. */
export const isMissing = (errno: string | undefined): boolean =>
  errno === 'ENOENT' || errno === 'ENOTDIR';

/**
 * Wraps a program's own function that is called for its effect. An exception or rejection is reported
 * once and has no other effect.
 */
export function harmless<Args extends unknown[]>(
  name: string,
  callback: ((...args: Args) => unknown) | undefined,
  trouble: (message: string) => void,
): (...args: Args) => void {
  let isReported = false;
  const report = (error: unknown): void => {
    if (isReported) return;
    isReported = true;
    trouble(`\`${name}\` of the program failed: ${messageOf(error)}`);
  };
  return (...values) => {
    try {
      const answer = callback?.(...values);
      const isLater = typeof answer === 'object' && answer !== null && 'then' in answer;
      if (isLater) Promise.resolve(answer).catch(report);
    } catch (error) {
      report(error);
    }
  };
}

// Exit codes of commands. The numbers are stable.
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  invalid: 3,
  denied: 4,
  limit: 5,
  provider: 6,
  needsInput: 7,
  interrupted: 130,
} as const;

const BY_CODE: Readonly<Record<string, number>> = {
  usage: EXIT.usage,
  invalid_item: EXIT.invalid,
  config_invalid: EXIT.invalid,
  permission_denied: EXIT.denied,
  signature_invalid: EXIT.denied,
  sandbox_missing: EXIT.denied,
  quota_exceeded: EXIT.limit,
  rate_limit: EXIT.provider,
  provider_error: EXIT.provider,
  model_unavailable: EXIT.provider,
  needs_input: EXIT.needsInput,
  cancelled: EXIT.interrupted,
};

/** Returns the exit code of a command that ended with this fault, or without one. */
export function exitCodeOf(fault: Fault | undefined): number {
  if (!fault) return EXIT.done;
  const { code, detail } = fault;
  if (code === 'expression_error') return detail.kind === 'syntax' ? EXIT.invalid : EXIT.failed;
  if (code.endsWith('_exceeded')) return EXIT.limit;
  return BY_CODE[code] ?? EXIT.failed;
}
