// Defines the shape of the config of `http_client` and of a WebSocket sink. A placeholder may become any value.
import {
  anything,
  fillable,
  fillableText,
  isObject,
  type Json,
  listOf,
  mapping,
  numberBetween,
  oneOf,
  type Rule,
  record,
  tableOf,
  text,
  wholeBetween,
  wrongType,
} from '../../base/index.ts';
import { HTTP_METHODS } from '../../trust/index.ts';

export const METHODS: readonly string[] = HTTP_METHODS;
export const MAX_DESTINATIONS = 16;

const words = fillableText(text);
const count = (min: number) => fillable(wholeBetween(min, Number.MAX_SAFE_INTEGER));

const method: Rule<string> = (value, place) =>
  typeof value === 'string' && METHODS.includes(value.toUpperCase())
    ? value
    : wrongType(place, `one of ${METHODS.join(', ')}`, value);

/** A value that fits on one line: anything but an object or a list. */
const scalar: Rule<Json> = (value, place) =>
  value !== null && typeof value === 'object' ? wrongType(place, 'text', value) : value;
const scalars: Rule<Json> = (value, place) => {
  if (!Array.isArray(value)) return scalar(value, place);
  for (const [index, each] of value.entries()) scalar(each, place.child(index));
  return value;
};

const urlOf = (schemes: readonly string[]): Rule<string> =>
  fillableText((value, place) => {
    const url = typeof value === 'string' ? URL.parse(value) : null;
    if (typeof value === 'string' && url && schemes.includes(url.protocol)) return value;
    return wrongType(place, `a URL with ${schemes.join(' or ')}`, value);
  });

const AUTHS = {
  bearer: record({ type: anything, token: fillableText(scalar) }, { required: ['token'] }),
  api_key: record(
    { type: anything, key: fillableText(scalar), header: words, query: words },
    { required: ['key'] },
  ),
  basic: record({ type: anything, username: words, user: words, password: fillableText(scalar) }),
  none: record({ type: anything }),
};

const authType = oneOf(['bearer', 'api_key', 'basic', 'none']);
const auth: Rule<unknown> = (value, place) => {
  if (!isObject(value)) return wrongType(place, 'a mapping', value);
  const type = authType(value.type ?? null, place.child('type'));
  return type && AUTHS[type](value, place);
};

const seconds = fillable(
  numberBetween(Number.MIN_VALUE, Number.MAX_VALUE, 'a number of seconds above 0'),
);

/** The sinks check their own destinations. */
const stream = record(
  {
    transport: fillableText(oneOf(['sse', 'websocket'])),
    destinations: fillable(listOf(mapping, MAX_DESTINATIONS)),
    max_event: count(1),
  },
  {
    moved: {
      buffer_events: 'write `- type: return` under `destinations`',
      max_buffer_size: 'write `max_size` beside `type: return` under `destinations`',
    },
  },
);

const FIELDS = {
  method: fillableText(method),
  url: urlOf(['http:', 'https:', 'ws:', 'wss:']),
  query: fillable(tableOf(fillableText(scalars))),
  headers: fillable(tableOf(fillableText(scalar))),
  auth: fillable(auth),
  body: anything,
  body_type: fillableText(oneOf(['json', 'text', 'form'])),
  mode: fillableText(oneOf(['sync', 'stream'])),
  stream: fillable(stream),
  timeouts: fillable(
    record({ connect: seconds, first_byte: seconds, idle: seconds, total: seconds }),
  ),
  max_bytes: count(1),
  max_redirects: count(0),
};

export const httpConfig: Rule<unknown> = record(FIELDS, { required: ['url'] });

/** Fields of a destination, besides its type. */
export const WEBSOCKET_SINK = {
  url: urlOf(['ws:', 'wss:']),
  headers: FIELDS.headers,
  auth: FIELDS.auth,
  format: fillableText(oneOf(['raw', 'jsonl'])),
  reconnect_attempts: count(0),
  backoff_ms: count(0),
  buffer_max_size: count(0),
  buffer_on_disconnect: anything,
};
