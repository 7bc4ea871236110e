// The loop: turns until something ends it. It knows no limits, tokens, hooks or stores; "safe" and
// "plain" differ only in the functions that are passed in. What a port cannot do it says as an
// `Ending`, and that is the result.
import type { Json } from '../base/index.ts';
import type { Descriptor } from '../flow/index.ts';
import type { ModelReply, ToolCallBlock } from '../llm/index.ts';

export interface Ending {
  status:
    | 'completed'
    | 'failed'
    | 'limit'
    | 'denied'
    | 'aborted'
    | 'terminated'
    | 'killed'
    | 'paused'
    | 'waiting'
    | 'needs_input'
    | 'interrupted';
  reason: string;
  outputs?: Json;
  text?: string;
  /** What all this carries, when it is known better than from the conversation. */
  marks?: Descriptor;
  /** Code of the fault that caused the ending. */
  code?: string;
}

/** `again`: the model gave no reply, and the thread handles its signals before the next turn. */
export type Turn = { reply: ModelReply } | { ending: Ending } | { again: true };

export interface LoopPorts {
  /** Between steps: a person's or a parent's signals, the clock. */
  between(): Promise<Ending | undefined>;
  /** One model request with everything said so far; the reply is already recorded. */
  turn(): Promise<Turn>;
  /** Calls that were asked for and have no result yet, in order; also after a crash. */
  pending(): readonly ToolCallBlock[];
  /** Performs these, records their results. An ending stops the loop before the next call. */
  perform(calls: readonly ToolCallBlock[]): Promise<Ending | undefined>;
  /** A reply without calls: the run's end, or undefined when there is more to say to the model. */
  final(reply: ModelReply): Promise<Ending | undefined>;
}

export async function runLoop(ports: LoopPorts): Promise<Ending> {
  for (;;) {
    const stop = await ports.between();
    if (stop) return stop;
    const calls = ports.pending();
    if (calls.length > 0) {
      const ended = await ports.perform(calls);
      if (ended) return ended;
      continue;
    }
    const turn = await ports.turn();
    if ('ending' in turn) return turn.ending;
    if ('again' in turn || ports.pending().length > 0) continue;
    const ended = await ports.final(turn.reply);
    if (ended) return ended;
  }
}
