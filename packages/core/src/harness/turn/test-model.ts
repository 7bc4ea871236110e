// Tests what a model can do, with at most four requests. The worst case of each request must fit into the amount of
// the caller before it is sent, as in a thread.
import {
  type Clock,
  type Failure,
  fail,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import { EMPTY } from '../../flow/index.ts';
import {
  costOf,
  estimateTokens,
  formatMoney,
  type ModelReply,
  type Price,
  type ToolDefinition,
  worstCost,
} from '../../llm/index.ts';
import { limitEvent, limitFault } from '../limits/limit.ts';
import { Conversation } from '../thread/conversation.ts';
import type { ModelLine } from '../thread/ports.ts';

interface ModelCheck {
  readonly name: 'text' | 'tool_call' | 'parallel_calls' | 'structured_output';
  readonly message: string;
  readonly tools: readonly ToolDefinition[];
  holds(reply: ModelReply): boolean;
}

export interface CheckResult {
  readonly name: ModelCheck['name'];
  readonly passed: boolean;
  /** Reason why the request failed, or the form of a wrong answer. */
  readonly problem?: string;
  readonly first_byte_ms?: number;
  readonly total_ms: number;
  /** Counts that the provider reported. Absent: they are estimates. */
  readonly usage?: JsonObject;
}

export interface ModelTest {
  readonly model: string;
  readonly checks: readonly CheckResult[];
  /** True if a reply has sealed thoughts, which the next request must repeat. */
  readonly seal: boolean;
  readonly spend: string;
}

const MAX_ANSWER = 256;

const tool = (name: string, description: string, fields: JsonObject): ToolDefinition => ({
  name,
  description,
  input_schema: { type: 'object', properties: fields, required: Object.keys(fields) },
});
const NUMBER = { type: 'number' };
const ADD = tool('add', 'Adds two numbers', { a: NUMBER, b: NUMBER });
const WEATHER = tool('weather', 'Returns the weather of a town', { town: { type: 'string' } });

const joinedText = ({ content }: ModelReply): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');
const givenIn = ({ content }: ModelReply, name: string): JsonObject[] =>
  content.flatMap((block) =>
    block.type === 'tool_call' && block.name === name ? [block.arguments] : [],
  );

const CHECKS: readonly ModelCheck[] = [
  {
    name: 'text',
    message: 'Reply with the word ready and nothing else.',
    tools: [],
    holds: (reply) => /ready/i.test(joinedText(reply)),
  },
  {
    name: 'tool_call',
    message: 'Call the function add with a = 2 and b = 3.',
    tools: [ADD],
    holds: (reply) => givenIn(reply, 'add').some(({ a, b }) => a === 2 && b === 3),
  },
  {
    name: 'parallel_calls',
    message: 'In one reply, call the function weather for the town Oslo and for the town Rome.',
    tools: [WEATHER],
    holds: (reply) => new Set(givenIn(reply, 'weather').map(({ town }) => town)).size === 2,
  },
  {
    name: 'structured_output',
    message: 'Reply with this JSON object and nothing else: {"town": "Oslo", "degrees": 3}',
    tools: [],
    holds(reply) {
      const parsed = parseJson(/\{[^]*\}/.exec(joinedText(reply))?.[0] ?? '');
      return parsed.ok && isObject(parsed.output) && parsed.output.degrees === 3;
    },
  },
];

interface TestPorts {
  readonly model: string;
  readonly line: ModelLine;
  readonly price: Price;
  readonly clock: Clock;
  /** Nano-units that all requests together may cost. */
  readonly spend: bigint;
  onCheck(result: CheckResult): void;
}

interface CheckedReply {
  readonly result: CheckResult;
  readonly cost: bigint;
  readonly reply?: ModelReply;
  readonly failure?: Failure;
}

/** Sends the request of a check. A request without an answer costs its worst case. */
async function askOnce(
  { line, price, clock }: TestPorts,
  { name, message, tools, holds }: ModelCheck,
  { requestBytes, worst }: { requestBytes: number; worst: bigint },
  signal: AbortSignal,
): Promise<CheckedReply> {
  const conversation = new Conversation();
  conversation.user(message, EMPTY);
  const started = clock.monotonic();
  let firstByte: number | undefined;
  const since = (at: number): number => Math.round(at - started);
  const timer = {
    write() {
      firstByte ??= clock.monotonic();
    },
    end: () => undefined,
  };
  const answer = await line.ask(
    {
      system: '',
      messages: conversation.messages(),
      tools,
      maxTokens: MAX_ANSWER,
      written: conversation.written,
      reading: { requestBytes },
      raw: [timer],
    },
    signal,
  );
  const times = {
    ...(firstByte !== undefined && { first_byte_ms: since(firstByte) }),
    total_ms: since(clock.monotonic()),
  };
  if (!answer.ok) {
    const { message: problem } = answer.error.detail;
    return { result: { name, passed: false, problem, ...times }, cost: worst, failure: answer };
  }
  const { usage, content, stop } = answer.output;
  const passed = holds(answer.output);
  const kinds = content.map(({ type }) => type).join(', ') || 'nothing';
  const problem = `the reply has ${kinds} and ended with \`${stop}\``;
  const counts = usage.estimated ? {} : { usage: { ...usage } };
  const result = { name, passed, ...(!passed && { problem }), ...times, ...counts };
  return { result, cost: costOf(usage, price), reply: answer.output };
}

const isSealed = ({ content }: ModelReply): boolean =>
  content.some((block) => 'seal' in block || 'signature' in block || 'redacted' in block);

/** Runs the checks in order. Fails if the first request fails, or if a request does not fit into the amount. */
export async function testModel(
  ports: TestPorts,
  signal: AbortSignal,
): Promise<Outcome<ModelTest>> {
  const checks: CheckResult[] = [];
  let [spent, seal] = [0n, false];
  for (const check of CHECKS) {
    const requestBytes = JSON.stringify([check.message, check.tools]).length;
    const worst = worstCost(estimateTokens(requestBytes), MAX_ANSWER, ports.price);
    if (spent + worst > ports.spend) {
      const event = limitEvent('spend', spent, ports.spend, { needed: worst });
      return limitFault(event, spent + worst, { checks: checks.map((one) => ({ ...one })) });
    }
    const { result, cost, reply, failure } = await askOnce(
      ports,
      check,
      { requestBytes, worst },
      signal,
    );
    spent += cost;
    if (signal.aborted) return fail('cancelled', 'the test was cancelled');
    if (failure && checks.length === 0) return failure;
    if (reply && isSealed(reply)) seal = true;
    checks.push(result);
    ports.onCheck(result);
  }
  return ok({ model: ports.model, checks, seal, spend: formatMoney(spent) });
}
