// Defines the shapes of the config of `function` and of a stream's destinations. Sinks are functions too.
import {
  anything,
  fillable,
  fillableText,
  isObject,
  oneOf,
  type Rule,
  record,
  text,
  wholeBetween,
  wrongType,
} from '../../base/index.ts';
import { WEBSOCKET_SINK } from '../http/config-shape.ts';

const count = fillable(wholeBetween(1, Number.MAX_SAFE_INTEGER));

const FILE_SINK = {
  path: fillableText(text),
  format: fillableText(oneOf(['jsonl', 'raw'])),
  flush_every: count,
};

const HEAD = { type: anything, function: anything };

/** Shapes by the name of the function. Fields of the destination override those of the tool. */
export const SINK_SHAPES: Readonly<Record<string, Rule<unknown>>> = {
  return: record({
    ...HEAD,
    max_size: count,
    max_bytes: count,
    format: fillableText(oneOf(['events', 'raw'])),
  }),
  file_sink: record({ ...HEAD, ...FILE_SINK }, { required: ['path'] }),
  null_sink: record(HEAD),
  websocket_sink: record({ ...HEAD, ...WEBSOCKET_SINK }, { required: ['url'] }),
};

const ALIASES: ReadonlyMap<string, string> = new Map([
  ['file', 'file_sink'],
  ['websocket', 'websocket_sink'],
  ['null', 'null_sink'],
]);

/** Returns the id of the sink tool for the type of a destination. */
export const sinkId = (type: string): string => ALIASES.get(type) ?? type;

/** A sink's tool has some of the fields. The destination adds the others. */
const PARTS: Readonly<Record<string, Rule<unknown>>> = {
  file_sink: record({ ...HEAD, ...FILE_SINK }),
  null_sink: record(HEAD),
  websocket_sink: record({ ...HEAD, ...WEBSOCKET_SINK }),
};

/** The code behind these functions is loaded by the first call. */
const FILE_FUNCTIONS = ['read_file', 'write_file', 'edit_file', 'list_dir', 'glob', 'grep'];
const named = record(
  { function: oneOf([...FILE_FUNCTIONS, ...Object.keys(PARTS)]) },
  { required: ['function'] },
);

export const functionConfig: Rule<unknown> = (value, place) => {
  if (!isObject(value)) return wrongType(place, 'a mapping', value);
  const { function: name } = value;
  const sink = typeof name === 'string' && Object.hasOwn(PARTS, name) ? PARTS[name] : undefined;
  return (sink ?? named)(value, place);
};
