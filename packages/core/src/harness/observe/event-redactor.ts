// Hides secrets in the events of a provider, even a secret that several pieces of a text contain in parts.
import {
  isObject,
  type Json,
  type JsonObject,
  parseJson,
  type RedactionStream,
  type Redactor,
} from '../../base/index.ts';

/** Fields whose text arrives in pieces over several events, in all protocols. */
const PIECES: ReadonlySet<string> = new Set(
  'text thinking partial_json content reasoning_content arguments refusal delta'.split(' '),
);

/** Creates a redactor for events. A text that grows over several events is redacted as one text. */
export function createEventRedactor(redactor: Redactor) {
  const growing = new Map<string, RedactionStream>();
  function piece(place: string, text: string): string {
    const stream = growing.get(place) ?? redactor.stream();
    growing.set(place, stream);
    return stream.push(text);
  }
  function walk(value: Json, place: string): Json {
    if (Array.isArray(value)) return value.map((item, at) => walk(item, `${place}/${at}`));
    if (!isObject(value)) return value;
    const { index = value.output_index } = value;
    const here = typeof index === 'number' ? `${place}#${index}` : place;
    const redacted: JsonObject = {};
    for (const [key, child] of Object.entries(value)) {
      redacted[key] =
        typeof child === 'string' && PIECES.has(key)
          ? piece(`${here}/${key}`, child)
          : walk(child, `${here}/${key}`);
    }
    return redacted;
  }
  return {
    data(text: string): Json {
      const parsed = parseJson(text, 50);
      return parsed.ok ? redactor.json(walk(parsed.output, '')) : redactor.text(text);
    },
    /** Returns the withheld ends of texts, by the path of their field. */
    rest(): JsonObject {
      const rests = [...growing].map(([place, stream]) => [place, stream.end()] as const);
      return Object.fromEntries(rests.filter(([, text]) => text !== ''));
    },
  };
}
