// Presents one run of a thread to a program: an iterator over its events, and a result at the end.
// A program that reads slowly, or not at all, never delays the thread: the queue is bounded, and a
// `missed` event counts the events that were dropped.
import { fail, messageOf, type Outcome, ok } from '@kernmantle/core/base';
import type { RunObserver, ThreadResult } from '@kernmantle/core/harness';
import type { Noted } from '@kernmantle/core/journal';

/** Cost of a thread, including all its descendants. */
export type ThreadCost = {
  turns: number;
  tokens: number;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  tool_calls: number;
  /** Calls of the thread itself that failed. Denied calls are not counted. Absent: none. */
  failed_calls?: number;
  spawns: number;
  /** Input tokens of the last request, cached tokens included. */
  context_tokens: number;
  duration_seconds: number;
  /** Exact amount of money, as a decimal text. */
  spend: string;
  /** True if the provider did not report a part of the cost. */
  estimated: boolean;
  hooks: {
    turns: number;
    tool_calls: number;
    tokens: number;
    duration_seconds: number;
    spend: string;
  };
};

/** Status and cost of a thread after a run. The thread has ended or is parked. */
export interface RunResult extends Omit<ThreadResult, 'cost'> {
  cost: ThreadCost;
}

/**
 * An event of a thread or its descendants. `text` arrives while the model writes. `reasoning` and `cost` follow
 * each reply of a model, and `cost` sums up this run so far. All other events are journal events, sent when
 * they are recorded.
 */
export type ThreadEvent = { readonly thread: string; readonly turn: number } & (
  | Noted
  | { readonly type: 'text' | 'reasoning'; readonly data: { readonly text: string } }
  | {
      readonly type: 'cost';
      readonly data: { readonly turns: number; readonly tokens: number; readonly spend: string };
    }
  | { readonly type: 'missed'; readonly data: { readonly count: number } }
);

export interface ThreadRun extends AsyncIterable<ThreadEvent> {
  /** Resolves as soon as the thread exists, or with the failure that prevented it. */
  readonly id: Promise<Outcome<string>>;
  readonly result: Promise<Outcome<RunResult>>;
}

/** Maximum number of undelivered events. After that the oldest ones are dropped. */
const MAX_WAITING = 1000;

function createQueue() {
  const waiting: ThreadEvent[] = [];
  const wakers: (() => void)[] = [];
  let [missed, isOver] = [0, false];
  const wake = (): void => {
    for (const one of wakers.splice(0)) one();
  };
  function next(): ThreadEvent | undefined {
    const first = waiting[0];
    if (missed > 0 && first) {
      const count = missed;
      missed = 0;
      return { thread: first.thread, turn: first.turn, type: 'missed', data: { count } };
    }
    return waiting.shift();
  }
  return {
    push(event: ThreadEvent): void {
      if (isOver) return;
      const last = waiting.at(-1);
      if (event.type === 'text' && last?.type === 'text' && last.thread === event.thread) {
        // Undelivered pieces of one text are joined.
        const text = last.data.text + event.data.text;
        waiting[waiting.length - 1] = { ...event, data: { text } };
        return;
      }
      if (waiting.length >= MAX_WAITING) {
        waiting.shift();
        missed += 1;
      }
      waiting.push(event);
      wake();
    },
    end(): void {
      isOver = true;
      wake();
    },
    /** Yields the events. If the program leaves its loop, all further events are dropped. */
    async *events(): AsyncGenerator<ThreadEvent> {
      try {
        for (;;) {
          const event = next();
          if (event) yield event;
          else if (isOver) return;
          else await new Promise<void>((resolve) => wakers.push(resolve));
        }
      } finally {
        isOver = true;
        waiting.length = 0;
      }
    },
  };
}

/** Returns a function that adds up the cost of each recorded reply and returns the sum. */
async function createBill() {
  const { formatMoney, parseMoney } = await import('@kernmantle/core/llm');
  let [turns, tokens, nano] = [0, 0, 0n];
  return (event: Noted) => {
    if (event.type !== 'assistant_message' || event.data.injected) return undefined;
    const spend = parseMoney(event.data.spend);
    turns += 1;
    tokens += event.data.usage.tokens;
    nano += spend.ok ? spend.output : 0n;
    return { turns, tokens, spend: formatMoney(nano) };
  };
}

/** Returns the readable reasoning of a reply. Empty for any other event. */
function reasoningIn({ type, data }: Noted): string {
  const blocks = type === 'assistant_message' ? data.content : [];
  return blocks.map((block) => (block.type === 'thinking' ? block.text : '')).join('');
}

/** Starts `run` at once. `resumed` is the id of the resumed thread; absent for a new one. */
export function createThreadRun(
  run: (live: RunObserver) => Promise<Outcome<ThreadResult>>,
  resumed?: string,
): ThreadRun {
  const queue = createQueue();
  const threadId = Promise.withResolvers<Outcome<string>>();
  const turns = new Map<string, number>();
  if (resumed !== undefined) threadId.resolve(ok(resumed));
  async function follow(): Promise<Outcome<RunResult>> {
    try {
      const bill = await createBill();
      const outcome = await run({
        onText: (thread, text) =>
          queue.push({ thread, turn: turns.get(thread) ?? 0, type: 'text', data: { text } }),
        onEvent(thread, event) {
          threadId.resolve(ok(thread));
          const { turn } = event;
          turns.set(thread, turn);
          queue.push({ ...event, thread });
          const data = { text: reasoningIn(event) };
          if (data.text !== '') queue.push({ thread, turn, type: 'reasoning', data });
          const cost = bill(event);
          if (cost) queue.push({ thread, turn, type: 'cost', data: cost });
        },
      });
      return outcome as Outcome<RunResult>;
    } catch (error) {
      return fail('internal_error', messageOf(error));
    }
  }
  const result = follow();
  void result.then((outcome) => {
    threadId.resolve(outcome.ok ? ok(outcome.output.thread_id) : outcome);
    queue.end();
  });
  return { id: threadId.promise, result, [Symbol.asyncIterator]: () => queue.events() };
}
