// Reads requests of `/api` strictly. An unsupported field or parameter is refused, texts and numbers
// have bounds, and the result has the type from `model/api.ts`.
import {
  didYouMean,
  fail,
  flag,
  isObject,
  type JsonObject,
  listOf,
  type Outcome,
  ok,
  oneOf,
  plainText,
  problemsIn,
  type Rule,
  record,
  wholeBetween,
  wrongType,
} from '@kernmantle/core/base';
import { readForkPoint } from '@kernmantle/core/journal';
import { parseThreadId, type Store, type ThreadRow } from '@kernmantle/core/store';
import type { Context } from 'hono';
import type {
  DataObject,
  DecisionRequest,
  ForkRequestBody,
  InjectRequestBody,
  ResumeRequestBody,
  RunRequestBody,
  SignalRequestBody,
} from '../../model/api.ts';
import { readBody } from '../answer.ts';
import type { ApiEnv, WebParts } from '../context.ts';

const MAX_NAME = 200;
const MAX_WORDS = 100_000;
const MAX_WHY = 2000;

/** Parses a text with at most this many characters. */
const words =
  (max: number, min = 0): Rule<string> =>
  (value, place) =>
    typeof value === 'string' && value.length >= min && value.length <= max
      ? value
      : wrongType(place, `a text of ${min} to ${max} characters`, value);

const name = words(MAX_NAME, 1);
const why = words(MAX_WHY);
const object: Rule<JsonObject> = (value, place) =>
  isObject(value) ? value : wrongType(place, 'an object', value);

/** Names of limits. `duration_seconds` is another name of `duration`. */
const LIMITS = [
  ...(['turns', 'tokens', 'input_tokens', 'output_tokens', 'spawns', 'duration'] as const),
  ...(['duration_seconds', 'spend', 'context', 'depth', 'tool_calls'] as const),
];
const MAX_LIMIT = 1e12;

const amount: Rule<number> = (value, place) =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 && value <= MAX_LIMIT
    ? value
    : wrongType(place, 'an amount, 0 or more', value);
const money: Rule<string | number> = (value, place) =>
  typeof value === 'string' && /^\d{1,9}(\.\d{1,9})?$/.test(value) ? value : amount(value, place);
const limits = record(
  Object.fromEntries(
    LIMITS.map((limit): [string, Rule<string | number>] => [
      limit,
      limit === 'spend'
        ? money
        : limit.startsWith('duration')
          ? amount
          : wholeBetween(0, MAX_LIMIT),
    ]),
  ),
);

const from: Rule<number | 'last'> = (value, place) =>
  value === 'last' ? value : wholeBetween(1, 1e9)(value, place);

const point: Rule<NonNullable<ForkRequestBody['at']>> = (value, place) =>
  readForkPoint(typeof value === 'number' ? String(value) : plainText(value)) ??
  wrongType(place, 'the number of an event, `turn:N` or `last`', value);
const attach = listOf(
  record({ upload: name, trusted: flag, paste: flag }, { required: ['upload'] }),
);

const RULES = {
  run: record(
    {
      directive: name,
      inputs: object,
      limits,
      model: name,
      message: words(MAX_WORDS),
      attach,
      chat: flag,
    },
    { required: ['directive'] },
  ),
  resume: record({ limits, model: name, message: words(MAX_WORDS, 1), from, why, attach }),
  fork: record({ limits, model: name, message: words(MAX_WORDS, 1), at: point, why, attach }),
  inject: record(
    { text: words(MAX_WORDS, 1), role: oneOf(['user', 'system']) },
    { required: ['text'] },
  ),
  signal: record({ reason: why }),
  interrupt: record({ reason: why, text: words(MAX_WORDS, 1) }),
  compact: record({ focus: words(2000, 1) }),
  endorse: record({ hash: words(64, 64) }, { required: ['hash'] }),
  decision: record(
    {
      decision: oneOf(['once', 'value', 'scope', 'deny', 'answer']),
      digest: words(64, 64),
      uses: wholeBetween(1, 1000),
      for_seconds: wholeBetween(1, 366 * 24 * 3600),
      glob: words(1024, 1),
      beyond: flag,
      why,
      answer: words(MAX_WORDS, 1),
    },
    { required: ['decision', 'digest'] },
  ),
} as const;

type BudgetChange = {
  run: Omit<RunRequestBody, 'inputs'> & { inputs?: DataObject };
  resume: ResumeRequestBody;
  fork: ForkRequestBody;
  inject: Omit<InjectRequestBody, 'role'> & Partial<Pick<InjectRequestBody, 'role'>>;
  signal: Pick<SignalRequestBody, 'reason'>;
  interrupt: SignalRequestBody;
  compact: { focus?: string };
  endorse: { hash: string };
  decision: DecisionRequest;
};

const present = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));

/** Drops empty fields and renames `duration_seconds` to `duration`. */
function renamed(body: JsonObject): JsonObject {
  const request = present(body);
  if (!isObject(request.limits)) return request;
  const { duration_seconds: seconds, ...others } = present(request.limits);
  const time = seconds === undefined ? {} : { duration: seconds };
  return { ...request, limits: { ...others, ...time } };
}

/** Parses a body of this kind. An error names its field. */
export async function readWish<Kind extends keyof typeof RULES>(
  context: Context<ApiEnv>,
  kind: Kind,
): Promise<Outcome<BudgetChange[Kind]>> {
  const body = await readBody(context);
  if (!body.ok) return body;
  const rule: Rule<unknown> = RULES[kind];
  const problems = problemsIn(body.output, '', rule).slice(0, 20);
  const [first] = problems;
  // The check above makes this cast safe.
  if (!first) return ok(renamed(body.output) as unknown as BudgetChange[Kind]);
  const fieldOf = (path: readonly (string | number)[]): string => path.join('.').slice(0, MAX_NAME);
  return fail('invalid_input', first.message.slice(0, 500), {
    field: fieldOf(first.path),
    problems: problems.map(({ path, message }) => ({
      field: fieldOf(path),
      message: message.slice(0, 500),
    })),
  });
}

/** Reads the parameters of the address. Fails with `invalid_input` for a repeated or unsupported one. */
export function readQuery<const Name extends string>(
  context: Context<ApiEnv>,
  names: readonly Name[],
): Outcome<{ [name in Name]?: string }> {
  const params: { [name in Name]?: string } = {};
  for (const [key, values] of Object.entries(context.req.queries())) {
    const parameter = names.find((one) => one === key);
    const [value = ''] = values;
    if (parameter === undefined) {
      const hint = didYouMean(key, names) ?? `supported: ${names.join(', ')}`;
      return fail('invalid_input', `parameter \`${key.slice(0, 50)}\` is not supported; ${hint}`);
    }
    if (values.length > 1 || value.length > MAX_WHY) {
      return fail('invalid_input', `parameter \`${parameter}\` is repeated or too long`);
    }
    if (value !== '') params[parameter] = value;
  }
  return ok(params);
}

/** Reads a whole number within bounds. Undefined without a text. */
export function readCount(
  text: string | undefined,
  about: { readonly name: string; readonly min?: number; readonly max: number },
): Outcome<number | undefined> {
  if (text === undefined) return ok(undefined);
  const { name: which, min = 0, max } = about;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max
    ? ok(value)
    : fail('invalid_input', `\`${which}\` must be a whole number from ${min} to ${max}`);
}

/** Returns the thread that the address names, and its store. Fails with `not_found`, also if it was pruned. */
export async function findRow(
  parts: Pick<WebParts, 'store'>,
  context: Context<ApiEnv>,
): Promise<Outcome<{ store: Store; row: ThreadRow }>> {
  const id = parseThreadId(context.req.param('id') ?? '');
  if (!id.ok) return id;
  const store = await parts.store();
  if (!store.ok) return store;
  const row = await store.output.thread(id.output);
  if (row.ok) return ok({ store: store.output, row: row.output });
  if (row.error.code !== 'not_found') return row;
  // The account of a thread remains after the thread was pruned.
  const account = await store.output.budgets([id.output]);
  if (!account.ok) return row;
  const message = `thread \`${id.output}\` was pruned; its journal was deleted, and its cost still counts`;
  return fail('not_found', message, { thread: id.output, pruned: true });
}
