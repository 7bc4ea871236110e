// The built-in sink `return` collects events for the result of the call. Their number and size are bounded,
// and further events are counted.
import { ok } from '../../base/index.ts';
import {
  choiceField,
  countField,
  countingSink,
  type SinkFactory,
  type StreamEvent,
} from '../sink.ts';

const MAX_EVENTS = 10_000;
const MAX_CHARACTERS = 10 * 1024 * 1024;

export const createReturnSink: SinkFactory = (destination) => {
  const maxEvents = countField(destination, 'max_size', MAX_EVENTS);
  if (!maxEvents.ok) return maxEvents;
  const maxCharacters = countField(destination, 'max_bytes', MAX_CHARACTERS);
  if (!maxCharacters.ok) return maxCharacters;
  const format = choiceField(destination, 'format', ['events', 'raw']);
  if (!format.ok) return format;

  const events: (StreamEvent | string)[] = [];
  const isRaw = format.output === 'raw';
  let [characters, dropped] = [0, 0];
  return ok({
    type: 'return',
    write(batch) {
      for (const event of batch) {
        const size = event.data.length + (event.event?.length ?? 0) + (event.id?.length ?? 0);
        const isFull =
          events.length >= maxEvents.output || characters + size > maxCharacters.output;
        // After one dropped event the rest is dropped too, because a list with holes would look complete.
        if (dropped > 0 || isFull) dropped++;
        else {
          characters += size;
          events.push(isRaw ? event.data : event);
        }
      }
    },
    close: async () => ({ type: 'return', delivered: events.length, dropped, events }),
  });
};

/** Creates a sink for calls that need no events, and for measurements. */
export const createNullSink: SinkFactory = () => ok(countingSink('null_sink'));
