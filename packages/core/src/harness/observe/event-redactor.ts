// Hides secrets in the events of a provider, also a secret that is spread over several pieces of a text.
import {
  isObject,
  type Json,
  type JsonObject,
  parseJson,
  type RedactionStream,
  type Redactor,
} from '../../base/index.ts';

/** Fields that come piece by piece, in both protocols. */
const PIECES: ReadonlySet<string> = new Set(
  'text thinking partial_json content reasoning_content arguments refusal'.split(' '),
);

/** Texts that grow over events are redacted as the one text that they are. */
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
    const { index } = value;
    const here = typeof index === 'number' ? `${place}#${index}` : place;
    const shown: JsonObject = {};
    for (const [key, child] of Object.entries(value)) {
      shown[key] =
        typeof child === 'string' && PIECES.has(key)
          ? piece(`${here}/${key}`, child)
          : walk(child, `${here}/${key}`);
    }
    return shown;
  }
  return {
    data(text: string): Json {
      const parsed = parseJson(text, 50);
      return parsed.ok ? redactor.json(walk(parsed.output, '')) : redactor.text(text);
    },
    /** What was held back to the end, by where it belongs. */
    rest(): JsonObject {
      const left = [...growing].map(([place, stream]) => [place, stream.end()] as const);
      return Object.fromEntries(left.filter(([, text]) => text !== ''));
    },
  };
}
