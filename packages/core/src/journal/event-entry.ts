// Defines the parts of an entry of the event table.
import type { JsonObject } from '../base/index.ts';
import type { Check, Proven } from './check.ts';
import type { EventText } from './event-text.ts';

/**
 * Replay takes `external` events from the journal: other threads or people caused them. It skips `bookkeeping`
 * events, which repeat other events. It writes and compares all others.
 */
type EventOrigin = 'harness' | 'external' | 'bookkeeping';
/** The role of an event in a turn. `calls`: a tool call or its result. `fails`: a request failed. */
type TurnRole = 'begins' | 'replies' | 'calls' | 'ends' | 'fails';

export interface EventFlags<Field extends string = string> {
  /** Where the event comes from. It can depend on the stored data. Absent: `harness`. */
  readonly origin?: EventOrigin | ((data: JsonObject) => EventOrigin);
  /** Fields that replay does not compare: they are for people, or they depend on files and processes. */
  readonly volatile?: readonly Field[];
  /** The event stays in force after a rewind to a snapshot. */
  readonly survivesRewind?: true;
  /** The event proves that the thread made progress. Any other event proves only its start. */
  readonly isProgress?: true;
  readonly turn?: TurnRole;
  /** The event opens or ends the conversation. A live view shows it in its head or in its result. */
  readonly isFrame?: true;
  /** The model reads the content of the event, which has marks. */
  readonly isInput?: true;
  /** The conversation shows the event as a message. */
  readonly isMessage?: true;
  /** The timeline shows the event as a row of its own. */
  readonly hasRow?: true;
  /** The event changes the conversation: it adds a message, or the conversation begins again. */
  readonly changesConversation?: true;
  /** The event changes neither the rights of the thread nor the actions that it allows. */
  readonly isDetail?: true;
  /** `false`: the transcript does not have the event. */
  readonly transcript?: false;
  /** The event can be the answer to an action of a person. */
  readonly acknowledges?: true;
}

export interface EventEntry<Data> extends EventFlags<keyof Data & string> {
  /** Checks stored JSON. The type `Data` is derived from this check. */
  readonly shape: Check<Data>;
  /** Text and tone for people. Absent or `undefined`: the event adds nothing to the events before it. */
  readonly text?: (data: Data) => EventText | undefined;
}

/** Creates an entry. The type of its data is derived from the shape. */
export const entry = <Shape>(shape: Shape, rest: Omit<EventEntry<Proven<Shape>>, 'shape'>) => ({
  shape,
  ...rest,
});
