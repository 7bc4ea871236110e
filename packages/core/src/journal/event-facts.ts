// Questions about events that the event table answers.
import { type Json, masked } from '../base/index.ts';
import type { NewEvent } from '../store/index.ts';
import type { EventEntry, EventFlags, TurnRole } from './event-entry.ts';
import type { EventText } from './event-text.ts';
import { type DataOf, EVENTS, type EventType } from './events.ts';
import type { SlimParts } from './slim-fields.ts';

/** The same table, for code that does not know the type of its event. */
const TABLE: { readonly [type in EventType]: EventEntry<DataOf<type>> } = EVENTS;
interface EventOf<Type extends EventType> {
  readonly type: Type;
  readonly data: DataOf<Type>;
}
const entryOf = <Type extends EventType>(event: EventOf<Type>): EventEntry<DataOf<Type>> =>
  TABLE[event.type];

const isEventType = (type: string): type is EventType => Object.hasOwn(EVENTS, type);

/** The field of an event that fails its check. The reader and the writer of journals use the same check. */
export function oddField(type: string, data: Json | undefined): string | undefined {
  const problem = isEventType(type) ? TABLE[type].shape(data) : 'type';
  return problem === '' ? 'data' : problem;
}

/** Text of an event for people, with masked secrets; `undefined`: the event adds nothing. */
export function eventLine<Type extends EventType>(event: EventOf<Type>): EventText | undefined {
  const told = entryOf(event).text(event.data);
  return told && { ...told, text: masked(told.text) };
}

/** Fields of an event for lists and for the page. */
export const slimParts = <Type extends EventType>(event: EventOf<Type>): SlimParts =>
  entryOf(event).slim(event.data);

/** Content of an event that a detail view shows; `undefined`: the event has only names and numbers. */
export const eventContent = <Type extends EventType>(event: EventOf<Type>): Json | undefined =>
  entryOf(event).content?.(event.data);

const FLAGS: Readonly<Record<EventType, EventFlags>> = EVENTS;
/** Flags of a stored event. A type that is not in the table has none. */
const flagsOf = (type: string): EventFlags => (isEventType(type) ? FLAGS[type] : {});

export const isExternal = (type: string): boolean => flagsOf(type).origin === 'external';
export function isBookkeeping({ type, data }: Pick<NewEvent, 'type' | 'data'>): boolean {
  const { origin } = flagsOf(type);
  return (typeof origin === 'function' ? origin(data) : origin) === 'bookkeeping';
}
export const volatileFields = (type: EventType): readonly string[] => flagsOf(type).volatile ?? [];
export const survivesRewind = (type: EventType): boolean => flagsOf(type).survivesRewind === true;
export const isProgress = (type: string): boolean => flagsOf(type).isProgress === true;
export const turnRole = (type: string): TurnRole | undefined => flagsOf(type).turn;
/** True for an event that ends the text of the reply which is being streamed. */
export const endsReplyText = (type: string): boolean =>
  type === 'thread_end' || ['begins', 'replies', 'ends'].includes(turnRole(type) ?? '');
export const isFrame = (type: string): boolean => flagsOf(type).isFrame === true;
export const hasRow = (type: string): boolean => flagsOf(type).hasRow === true;
export const isDetail = (type: string): boolean => flagsOf(type).isDetail === true;
export const acknowledges = (type: string): boolean => flagsOf(type).acknowledges === true;
