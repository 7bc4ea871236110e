// Slim events, for lists that hold thousands: names, codes, numbers, previews and the text of `threads show`.
import {
  decode,
  eventLine,
  preview,
  type Recorded,
  type SlimParts,
  shortName,
  slimParts,
  unreadableLine,
} from '@kernmantle/core/journal';
import type { StoredEvent } from '@kernmantle/core/store';
import type { SlimEvent } from '../model/api.ts';

/** Leaves out absent and empty fields. */
function present(place: SlimEvent, parts: SlimParts): SlimEvent {
  const made: Record<string, unknown> = { ...place };
  for (const [field, value] of Object.entries(parts)) {
    if (value !== undefined && value !== '') made[field] = value;
  }
  return made as unknown as SlimEvent;
}

const placeOf = ({ seq, ts, turn, type }: StoredEvent | Recorded): SlimEvent => ({
  seq,
  ts,
  turn,
  type: shortName(type),
});

/** Never fails: an event that cannot be decoded is marked as unreadable. */
export function slimEvent(stored: StoredEvent): SlimEvent {
  const read = decode(stored);
  if (!read.ok) {
    const { tone, text } = unreadableLine(read);
    return { ...placeOf(stored), text: preview(text), tone, unreadable: true };
  }
  const event = read.output;
  const line = eventLine(event);
  const place = placeOf(event);
  return present(
    line ? { ...place, text: preview(line.text), tone: line.tone } : place,
    slimParts(event),
  );
}
