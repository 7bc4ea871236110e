import { readFileSync } from 'node:fs';
import {
  compact,
  EXIT,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
  plainText,
  readRegularFile,
  setOwn,
} from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import { type Runtime, signFiles } from '@kernmantle/core/runtime';
import { asList, asText, type CommandRun } from '../command.ts';
import { commandActor, withRuntime } from '../project.ts';
import { confirm, interruptible, type Terminal, visible } from '../terminal/terminal.ts';

/** Returns true if the item declares this parameter as text. */
type IsText = (name: string) => boolean;

/** Parses `name=value` pairs, or one JSON object. Values are JSON unless declared as text. */
export function parseParameters(words: readonly string[], isText?: IsText): Outcome<JsonObject> {
  const parameters: JsonObject = {};
  for (const word of words) {
    const whole = word.startsWith('{') ? parseJson(word) : undefined;
    if (whole?.ok && isObject(whole.output)) {
      for (const [name, value] of Object.entries(whole.output)) setOwn(parameters, name, value);
      continue;
    }
    if (whole?.ok === false && whole.error.detail.not_finite === true) return whole;
    const at = word.indexOf('=');
    if (at < 1) return fail('usage', `\`${word}\` must be name=value or a JSON object`);
    const [name, text] = [word.slice(0, at), word.slice(at + 1)];
    const value = parseJson(text);
    // A number that is too large is accepted only as text.
    const isTooLarge = !value.ok && value.error.detail.not_finite === true;
    if (isTooLarge && isText && !isText(name)) {
      return fail('invalid_input', `\`${name}\` is a number that is too large`);
    }
    const isRead = value.ok && (typeof value.output === 'string' || !isText?.(name));
    setOwn(parameters, name, isRead ? value.output : text);
  }
  return ok(parameters);
}

/** Returns a test for parameters whose input stays text, so that `1`, `true` or `{}` is not parsed. */
export function textsOf(library: Library, kind: string, id: string, input: JsonObject): IsText {
  const declared = new Map<string, string | undefined>();
  if (kind === 'directive') {
    const match = library.find(kind, id);
    const item = match.ok && match.output.kind === kind ? match.output : undefined;
    for (const { name, type } of item?.directive?.inputs ?? []) declared.set(name, type);
  } else if (kind === 'tool') {
    const chain = library.chain(id);
    const links = chain.ok ? chain.output.links.flatMap(({ tool }) => tool ?? []) : [];
    // The nearest link of the chain decides, and a selected action decides before it.
    for (const { parameters, actions } of links.toReversed()) {
      const action = actions.find(({ name }) => name === input.action);
      for (const { name, type } of [...parameters, ...(action?.parameters ?? [])]) {
        declared.set(name, type);
      }
    }
  }
  return (name) => declared.get(name) === 'string';
}

const MAX_INPUT = 64 * 1024 * 1024;

export function readInput(file: string): Outcome<string> {
  if (file !== '-') {
    const read = readRegularFile(file, { max: MAX_INPUT, followsLinks: true });
    if ('bytes' in read) return ok(read.bytes.toString('utf8'));
    const hint = read.problem.code === 'not_a_file' ? '; use `-` to read from a pipe' : '';
    return fail('not_found', `\`${file}\` cannot be read: ${read.problem.message}${hint}`);
  }
  try {
    return ok(readFileSync(0, 'utf8'));
  } catch (error) {
    return fail('not_found', `\`-\` cannot be read: ${messageOf(error)}`);
  }
}

/** The output of a tool for people: text unchanged, everything else as indented JSON. */
function showOutput(output: Json): string {
  for (const field of ['content', 'text', 'stdout', 'result']) {
    const text = getOwn(output, field);
    if (typeof text === 'string') return visible(text.trimEnd());
  }
  return visible(JSON.stringify(output, null, 2));
}

/** Tells the user where quarantined files of the process are. */
function reportQuarantine(output: Json, terminal: Terminal): void {
  const moved = getOwn(output, 'set_aside');
  if (!Array.isArray(moved) || moved.length === 0) return;
  const places = moved.map((path) => `\`${plainText(path)}\``).join(', ');
  const folder = plainText(getOwn(output, 'set_aside_in'));
  terminal.note(visible(`quarantined: ${places}; the files are in \`${folder}\``));
}

/** Offers to sign an unsigned item after a refusal. The person sees the file first. */
async function signsNow(result: Outcome<Json>, runtime: Runtime, terminal: Terminal) {
  const id = result.ok ? undefined : result.error.detail.unsigned;
  const match = typeof id === 'string' ? runtime.library.find('tool', id) : undefined;
  if (!match?.ok || !terminal.isInteractive) return false;
  const { file } = match.output;
  terminal.note(`tool \`${match.output.id}\` is not signed: ${visible(file)}`);
  if (!(await confirm(terminal, 'sign it with your key and continue?'))) return false;
  const signed = signFiles(runtime, [file], commandActor({ terminal }));
  if (!signed.ok) terminal.note(visible(signed.error.detail.message));
  return signed.ok;
}

export const run: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const parameters = parseParameters(asList(args[2]));
  if (!parameters.ok) return parameters;
  const file = asText(options.content);
  const content = file === undefined ? ok(undefined) : readInput(file);
  if (!content.ok) return content;
  const [kind, id] = [asText(args[0]) ?? '', asText(args[1]) ?? ''];
  return await withRuntime(call, async (runtime) => {
    const isText = textsOf(runtime.library, kind, id, parameters.output);
    const typed = parseParameters(asList(args[2]), isText);
    if (!typed.ok) {
      terminal.finish(typed, () => {});
      return EXIT.usage;
    }
    const request = compact<JsonObject>({
      item_type: kind,
      item_id: id,
      parameters: typed.output,
      action: asText(options.action),
      content: content.output,
      dry_run: options.dryRun === true ? true : undefined,
    });
    const surface = asText(options.as) ?? 'cli';
    const done = await interruptible(async (signal) => {
      const person = terminal.isInteractive
        ? (await import('../threads/ask-person.ts')).personAt(terminal, signal)
        : undefined;
      const name = commandActor(call).who;
      const options = { surface, name, signal, ...(person && { person }) };
      const execute = () => runtime.call('execute', request, options);
      const first = await execute();
      return (await signsNow(first, runtime, terminal)) ? await execute() : first;
    });
    const code = terminal.finish(done, (output) => {
      terminal.out(showOutput(output));
      const stderr = getOwn(output, 'stderr');
      if (typeof stderr === 'string' && stderr !== '') terminal.note(visible(stderr.trimEnd()));
      reportQuarantine(output, terminal);
    });
    if (!done.ok && !terminal.json) reportQuarantine(done.error.detail, terminal);
    // Invalid parameters are a usage error, because the user typed them.
    return !done.ok && done.error.code === 'invalid_input' ? EXIT.usage : code;
  });
};
