// Writes the question of an approval request as one sentence: the effect and its target.
import { type Json, type JsonObject, masked, onOneLine, plainText } from '../../base/index.ts';
import { operationName, type Question, type WritePreview } from '../../flow/index.ts';

const MAX_WORDS = 120;

/** Returns a value on one line, without control characters and known secrets. */
function word(value: Json | undefined): string {
  const text = onOneLine(masked(plainText(value ?? '')));
  return text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS - 1)}…` : text;
}

const lines = (count: number): string => `${count} ${count === 1 ? 'line' : 'lines'}`;

/** Returns `12 lines added, 3 removed`, or the number of lines before and after. */
function sizeOf({ change, from, to, added, removed }: WritePreview): string {
  if (change === 'create' && to !== undefined) return ` (${lines(to)})`;
  if (added !== undefined && removed !== undefined) {
    if (added + removed === 0) return ' (no line changes)';
    const removal = removed === 0 ? '' : `${added === 0 ? lines(removed) : removed} removed`;
    return ` (${[added === 0 ? '' : `${lines(added)} added`, removal].filter(Boolean).join(', ')})`;
  }
  return from === undefined || to === undefined ? '' : ` (${lines(from)} to ${lines(to)})`;
}

const CHANGES: Readonly<Record<WritePreview['change'], string>> = {
  create: 'Create',
  overwrite: 'Overwrite',
  edit: 'Edit',
  add: 'Add to',
};

function hostOf(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  return url?.host ? url.host : value;
}

type Steering = Readonly<Partial<Record<'path' | 'destination' | 'command', string>>>;

/** Returns the first argument of each role that is not empty. Content does not count. */
function steering({ arguments: inputs }: Question, values: JsonObject): Steering {
  const byRole: { -readonly [role in keyof Steering]: string } = {};
  for (const { name, role } of inputs) {
    if (role === undefined || role === 'content' || word(values[name]) === '') continue;
    byRole[role] ??= word(values[name]);
  }
  return byRole;
}

const quoted = (text: string): string => `\`${text.replaceAll('`', '´')}\``;

function toolSentence(question: Question, values: JsonObject): string {
  const { op } = question;
  const { path, destination, command } = steering(question, values);
  const host = destination ?? (word(op.metadata?.host) || undefined);
  const method =
    word(values.method).toUpperCase() ||
    (/(?:^|\/)(get|post)$/i.exec(op.name)?.[1] ?? '').toUpperCase();
  if (command !== undefined && op.subtype === 'subprocess')
    return `Run ${quoted(command)} in a shell`;
  if (op.subtype?.startsWith('http') && host !== undefined) {
    const request = method === '' ? 'a request' : `an HTTP ${method}`;
    const by = op.name.startsWith('http/') ? '' : ` with ${op.name}`;
    return `Send ${request} to ${hostOf(host)}${by}`;
  }
  const target = command === undefined ? (path ?? (host && hostOf(host))) : quoted(command);
  return target === undefined ? `Call ${op.name}` : `Call ${op.name} on ${target}`;
}

/** Sentences for statements of scripts and other operations. `undefined`: the name of the operation is used. */
const STATEMENTS: Readonly<Record<string, (target: string) => string | undefined>> = {
  output: (target) => target && `Write ${target}`,
  append: (target) => target && `Add to ${target}`,
  cmd: (target) => target && `Run ${quoted(target)}`,
  show: () => 'Print it',
  model: () => 'Ask the model',
  llm: () => 'Ask the model',
};

function actOf(
  question: Question,
  values: JsonObject,
  { file, root }: { readonly file?: WritePreview | undefined; readonly root?: string },
): string {
  const { op } = question;
  if (file) return `${CHANGES[file.change]} ${word(file.path)}${sizeOf(file)}`;
  if (op.type === 'tool') return toolSentence(question, values);
  const statement = Object.hasOwn(STATEMENTS, op.type) ? STATEMENTS[op.type] : undefined;
  const place = op.target ?? steering(question, values).command ?? '';
  const isInside = root !== undefined && place.startsWith(`${root}/`);
  const target = word(isInside ? place.slice(root.length + 1) : place);
  const name = word(operationName(op));
  const isNamed = target === '' || name.includes(target);
  return statement?.(target) || `Do ${name}${isNamed ? '' : ` on ${target}`}`;
}

export function sentenceOf(
  question: Question,
  values: JsonObject,
  about: Parameters<typeof actOf>[2],
): string {
  const act = actOf(question, values, about);
  if (question.phase === 'before') return `${act}?`;
  return `Use the result of this: ${act.charAt(0).toLowerCase()}${act.slice(1)}?`;
}
