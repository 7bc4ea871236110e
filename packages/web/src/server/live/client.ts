// A client of the hub: its topics, its position, and the frames that it missed while it was full.
// INVARIANT: a reset always reports a loss before anything newer of that topic.
import type { StreamFrame, Topic } from '../../model/api.ts';
import type { Listener } from '../context.ts';
import { writePosition } from './positions.ts';

export const threadTopic = (thread: string): Topic => `thread:${thread}`;

/** Returns the thread of a topic. Undefined for `threads`, `approvals` and `fleet`. */
export const topicThread = (topic: Topic): string | undefined =>
  topic.startsWith('thread:') ? topic.slice('thread:'.length) : undefined;

const NOTHING: StreamFrame = { kind: 'batch' };

export type HubClient = ReturnType<typeof createClient>;

export function createClient(
  listener: Pick<Listener, 'topics' | 'send' | 'isSocket'>,
  mark: string,
) {
  const topics = new Set<Topic>(listener.topics);
  /** Per thread, the last event that was sent or that a reset covers. */
  const cursors = new Map<string, number>();
  /** Topics with lost frames, and the last event before the loss. */
  const missed = new Map<Topic, number | undefined>();
  let number: number | undefined;
  let isFull = false;
  let isOver = false;

  const position = (): string => writePosition(mark, number, cursors);

  /** Sends a piece of a reply. It is dropped if the client is full. */
  function text(frame: StreamFrame): void {
    if (!isFull && !isOver) listener.send(frame);
  }

  function miss(topic: Topic, after?: number): void {
    if (!missed.has(topic)) missed.set(topic, after);
  }

  /** Replaces missed frames by one reset per topic. */
  function sendResets(): void {
    for (const [topic, after] of missed) {
      if (!topics.has(topic)) {
        missed.delete(topic);
        continue;
      }
      const frame: StreamFrame = {
        kind: 'reset',
        topic,
        ...(after === undefined ? {} : { after }),
      };
      if (!listener.send(frame)) {
        isFull = true;
        return;
      }
      missed.delete(topic);
    }
  }

  return {
    isSocket: listener.isSocket === true,
    topics,
    cursors,
    isOver: () => isOver,
    isFull: () => isFull,
    text,
    /** Sends rows and approvals. After this frame the client has all changes up to `upTo`. */
    batch(frame: StreamFrame, about: readonly Topic[], upTo?: number): void {
      if (isOver) return;
      if (upTo !== undefined) number = upTo;
      if (!isFull && listener.send(frame, position())) return;
      isFull = true;
      for (const topic of about) miss(topic);
    },
    /** Sends events of a thread up to `seq`. */
    events(frame: StreamFrame, thread: string, seq: number): void {
      if (isOver) return;
      const before = cursors.get(thread);
      cursors.set(thread, seq);
      if (!isFull && listener.send(frame, position())) return;
      isFull = true;
      miss(threadTopic(thread), before);
    },
    /** Reports a gap between the last sent event and the next one. */
    reset(topic: Topic, after?: number): void {
      if (isOver) return;
      miss(topic, after);
      if (!isFull) sendResets();
    },
    /** Sends the position, so that the client can return to it. `upTo`: rows and approvals. */
    greet(upTo: number | undefined): void {
      number = upTo;
      if (!isOver && !isFull) listener.send(NOTHING, position());
    },
    ready(): void {
      if (!isFull || isOver) return;
      isFull = false;
      sendResets();
    },
    end(): void {
      isOver = true;
      missed.clear();
      cursors.clear();
    },
  };
}
