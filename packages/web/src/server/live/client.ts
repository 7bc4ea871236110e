// One client of the hub: what it listens to, how far it was told, and what it missed while it could take
// nothing. INVARIANT: whatever was left out is told by a reset before anything newer of that topic.
import type { StreamFrame, Topic } from '../../model/api.ts';
import type { Listener } from '../context.ts';
import { writePosition } from './positions.ts';

export const threadTopic = (thread: string): Topic => `thread:${thread}`;

/** The thread of a topic; undefined for the topics of all. */
export const topicThread = (topic: Topic): string | undefined =>
  topic.startsWith('thread:') ? topic.slice('thread:'.length) : undefined;

const NOTHING: StreamFrame = { kind: 'batch' };

export type HubClient = ReturnType<typeof createClient>;

export function createClient(
  listener: Pick<Listener, 'topics' | 'send' | 'isSocket'>,
  mark: string,
) {
  const topics = new Set<Topic>(listener.topics);
  /** By thread, the last event that it was told of or that a reset stands for. */
  const cursors = new Map<string, number>();
  /** Topics with lost frames, and the last event before the loss. */
  const missed = new Map<Topic, number | undefined>();
  let number: number | undefined;
  let isFull = false;
  let isOver = false;

  const position = (): string => writePosition(mark, number, cursors);

  /** Text goes out before other frames and can be dropped. */
  function text(frame: StreamFrame): void {
    if (!isFull && !isOver) listener.send(frame);
  }

  function miss(topic: Topic, after?: number): void {
    if (!missed.has(topic)) missed.set(topic, after);
  }

  /** A reset takes the place of what was missed, one for each topic. */
  function tellMissed(): void {
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
    /** Rows and approvals; `upTo`: with this frame it was told of all that changed until then. */
    batch(frame: StreamFrame, about: readonly Topic[], upTo?: number): void {
      if (isOver) return;
      if (upTo !== undefined) number = upTo;
      if (!isFull && listener.send(frame, position())) return;
      isFull = true;
      for (const topic of about) miss(topic);
    },
    /** Events of a thread up to `seq`. */
    events(frame: StreamFrame, thread: string, seq: number): void {
      if (isOver) return;
      const before = cursors.get(thread);
      cursors.set(thread, seq);
      if (!isFull && listener.send(frame, position())) return;
      isFull = true;
      miss(threadTopic(thread), before);
    },
    /** Something lies between what it was told and what comes now. */
    reset(topic: Topic, after?: number): void {
      if (isOver) return;
      miss(topic, after);
      if (!isFull) tellMissed();
    },
    /** Says where it is, so that it can come back to there. `upTo`: rows and approvals. */
    greet(upTo: number | undefined): void {
      number = upTo;
      if (!isOver && !isFull) listener.send(NOTHING, position());
    },
    ready(): void {
      if (!isFull || isOver) return;
      isFull = false;
      tellMissed();
    },
    end(): void {
      isOver = true;
      missed.clear();
      cursors.clear();
    },
  };
}
