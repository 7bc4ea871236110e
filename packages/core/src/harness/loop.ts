// Runs turns until an ending. The loop does not depend on limits, tokens, hooks or stores: the runners `safety` and
// `plain` differ only in the functions that are passed in. A port that cannot continue returns an `Ending`, which is
// the result.
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
  /** Marks of the outputs and the text. Absent: those of the conversation. */
  marks?: Descriptor;
  /** Code of the fault that caused the ending. */
  code?: string;
}

/** `again`: the model gave no reply, and the thread handles its signals before the next turn. */
export type Turn = { reply: ModelReply } | { ending: Ending } | { again: true };

export interface LoopPorts {
  /** Called between steps. Handles signals and the deadline. */
  between(): Promise<Ending | undefined>;
  /** Makes one model request with the whole conversation. Its reply is recorded when this returns. */
  turn(): Promise<Turn>;
  /** Returns the requested calls without a result, in order, also after a crash. */
  pending(): readonly ToolCallBlock[];
  /** Makes the calls and records their results. An ending stops the loop before the next call. */
  perform(calls: readonly ToolCallBlock[]): Promise<Ending | undefined>;
  /** Handles a reply without calls. Returns the ending, or `undefined` if the model must reply again. */
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
