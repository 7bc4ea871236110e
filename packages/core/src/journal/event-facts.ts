// Answers questions about events with the event table.
import { type Json, masked } from '../base/index.ts';
import type { NewEvent } from '../store/index.ts';
import type { EventEntry, EventFlags } from './event-entry.ts';
import type { EventText } from './event-text.ts';
import { type DataOf, EVENTS, type EventType } from './events.ts';

/** The same table, for code in which the type of an event is a parameter. */
const TABLE: { readonly [type in EventType]: EventEntry<DataOf<type>> } = EVENTS;
interface EventOf<Type extends EventType> {
  readonly type: Type;
  readonly data: DataOf<Type>;
}
const entryOf = <Type extends EventType>(event: EventOf<Type>): EventEntry<DataOf<Type>> =>
  TABLE[event.type];

const isEventType = (type: string): type is EventType => Object.hasOwn(EVENTS, type);

/** Returns the field that fails its check. The reader and the writer of journals use this function. */
export function oddField(type: string, data: Json | undefined): string | undefined {
  const problem = isEventType(type) ? TABLE[type].shape(data) : 'type';
  return problem === '' ? 'data' : problem;
}

/** Returns the text of an event for people, with masked secrets. `undefined`: the event has no text. */
export function eventLine<Type extends EventType>(event: EventOf<Type>): EventText | undefined {
  const line = entryOf(event).text?.(event.data);
  return line && { ...line, text: masked(line.text) };
}

const FLAGS: Readonly<Record<EventType, EventFlags>> = EVENTS;
/** Returns the flags of a stored event. A type that is not in the table has no flags. */
export const eventFlags = (type: string): EventFlags => (isEventType(type) ? FLAGS[type] : {});

/** Returns true if events of this type are written to the transcript. */
export const isInTranscript = (type: string): boolean =>
  isEventType(type) && FLAGS[type].transcript !== false;

export function isBookkeeping({ type, data }: Pick<NewEvent, 'type' | 'data'>): boolean {
  const { origin } = eventFlags(type);
  return (typeof origin === 'function' ? origin(data) : origin) === 'bookkeeping';
}
