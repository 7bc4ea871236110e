// One run of a thread as a program sees it: events as they come, and in the end a result. Whoever looks
// slowly, or not at all, holds up nothing: what waits is bounded, and what was left out is said.
import { fail, messageOf, type Outcome, ok } from '@kernmantle/core/base';
import type { Live, ThreadResult } from '@kernmantle/core/harness';
import type { Noted } from '@kernmantle/core/journal';

/** What a thread used, with everything below it. */
export type ThreadCost = {
  turns: number;
  tokens: number;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  tool_calls: number;
  /** Calls of the thread itself that failed; absent: none. Denied ones are no part of it. */
  failed_calls?: number;
  spawns: number;
  /** All input of the last request, cached included. */
  context_tokens: number;
  duration_seconds: number;
  /** Money, exact, as a decimal text. */
  spend: string;
  /** Was any of it not reported by the provider? */
  estimated: boolean;
  hooks: {
    turns: number;
    tool_calls: number;
    tokens: number;
    duration_seconds: number;
    spend: string;
  };
};

/** How a run ended, or where it stands. */
export interface RunResult extends Omit<ThreadResult, 'cost'> {
  cost: ThreadCost;
}

/**
 * What happens in a thread and those below it. `text` comes as it is written, `cost` after each answer
 * of a model (of this run so far); everything else is an event of the journal as it is recorded.
 */
export type ThreadEvent = { readonly thread: string; readonly turn: number } & (
  | Noted
  | { readonly type: 'text'; readonly data: { readonly text: string } }
  | {
      readonly type: 'cost';
      readonly data: { readonly turns: number; readonly tokens: number; readonly spend: string };
    }
  | { readonly type: 'missed'; readonly data: { readonly count: number } }
);

export interface ThreadRun extends AsyncIterable<ThreadEvent> {
  /** As soon as there is a thread; the refusal when there is none. */
  readonly id: Promise<Outcome<string>>;
  readonly result: Promise<Outcome<RunResult>>;
}

/** So many events wait for whoever looks; then the oldest are left out. */
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
        // Pieces that wait are one piece.
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
    /** Who leaves the loop hears no more; the thread goes on. */
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

/** Money that was spent, told after each answer. */
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

/** `known`: the thread that goes on; a new one when absent. */
export function createThreadRun(
  run: (live: Live) => Promise<Outcome<ThreadResult>>,
  known?: string,
): ThreadRun {
  const queue = createQueue();
  const begun = Promise.withResolvers<Outcome<string>>();
  const turns = new Map<string, number>();
  if (known !== undefined) begun.resolve(ok(known));
  async function follow(): Promise<Outcome<RunResult>> {
    try {
      const bill = await createBill();
      const done = await run({
        onText: (thread, text) =>
          queue.push({ thread, turn: turns.get(thread) ?? 0, type: 'text', data: { text } }),
        onEvent(thread, event) {
          begun.resolve(ok(thread));
          const { turn } = event;
          turns.set(thread, turn);
          queue.push({ ...event, thread });
          const cost = bill(event);
          if (cost) queue.push({ thread, turn, type: 'cost', data: cost });
        },
      });
      return done as Outcome<RunResult>;
    } catch (error) {
      return fail('internal_error', messageOf(error));
    }
  }
  const result = follow();
  void result.then((done) => {
    begun.resolve(done.ok ? ok(done.output.thread_id) : done);
    queue.end();
  });
  return { id: begun.promise, result, [Symbol.asyncIterator]: () => queue.events() };
}
