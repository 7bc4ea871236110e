// Implements `km models`: lists and tests models, and adds those of a server to the user's files.
import { compact, type Outcome, ok, plainText } from '@kernmantle/core/base';
import { noted, personAuditRow, type Runtime } from '@kernmantle/core/runtime';
import { asText, type CommandCall, type Ending } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { interruptible, type Terminal, visible } from '../terminal/terminal.ts';
import { changedLines, readTarget, showChange, writeTarget } from './mcp/install.ts';

type Models = Awaited<ReturnType<Runtime['models']>>;
type Output<T> = T extends { ok: true; output: infer O } ? O : never;
type Added = Output<Awaited<ReturnType<Models['add']>>>;
type Tested = Output<Awaited<ReturnType<Models['test']>>>;
type ModelCheck = Tested['checks'][number];

interface WrittenFile {
  readonly file: string;
  readonly backup?: string;
  readonly diff: readonly string[];
}

/** Computes every change before the first file is written, so that a broken file changes nothing. */
function writeFiles(
  runtime: Runtime,
  call: CommandCall,
  { files, provider }: Added,
): Outcome<WrittenFile[]> {
  const changes: { place: string; text: string; after: string }[] = [];
  for (const { file, edit } of files) {
    const read = readTarget({ file, within: runtime.home });
    if (!read.ok) return read;
    const after = edit(read.output.text);
    if (!after.ok) return after;
    changes.push({ ...read.output, after: after.output });
  }
  const written: WrittenFile[] = [];
  for (const { place, text, after } of changes) {
    if (after === text) continue;
    const diff = changedLines(text, after);
    if (!call.terminal.json) showChange(call.terminal, place, diff);
    const row = personAuditRow(commandActor(call), 'models:add', place, provider);
    const done = noted(runtime, row, writeTarget(place, text, after));
    if (!done.ok) return done;
    written.push({ file: place, ...done.output, diff });
  }
  return ok(written);
}

const CHECK_NAMES: Readonly<Record<ModelCheck['name'], string>> = {
  text: 'text',
  tool_call: 'tool call',
  parallel_calls: 'two parallel calls',
  structured_output: 'structured output',
};

function showCheck({ note, paint }: Terminal, check: ModelCheck): void {
  const { name, passed, problem = '', first_byte_ms: first, total_ms: total, usage } = check;
  const times = `${first === undefined ? '' : `first byte ${first} ms, `}${total} ms`;
  const counts = usage
    ? `usage ${Object.entries(usage)
        .filter(([field]) => /^(input|output|cache)/.test(field))
        .map(([field, count]) => `${field} ${plainText(count)}`)
        .join(', ')}`
    : 'no usage reported';
  const state = passed ? paint('green', 'passed') : paint('red', 'failed');
  note(`${state} ${CHECK_NAMES[name].padEnd(18)} ${times}; ${counts}`);
  if (problem !== '') note(`       ${visible(problem)}`);
}

const runTest = (
  models: Models,
  choice: string,
  { options, terminal }: CommandCall,
): ReturnType<Models['test']> =>
  interruptible(async (signal) => {
    const onCheck = (check: ModelCheck): void => {
      if (!terminal.json) showCheck(terminal, check);
    };
    return await models.test(
      choice,
      { ...compact({ spend: asText(options.spend) }), onCheck },
      signal,
    );
  });

/** Returns 1 if a capability is missing. */
const exitCode = ({ checks }: Tested): number => (checks.every(({ passed }) => passed) ? 0 : 1);

function showTest(terminal: Terminal, { model, seal, spend, checks }: Tested): void {
  const passed = checks.filter((check) => check.passed).length;
  const thoughts = seal ? 'sealed thoughts' : 'no sealed thoughts';
  terminal.out(
    `${visible(model)}: ${passed} of ${checks.length} passed, ${thoughts}, spent ${spend}`,
  );
}

export const testOne = inProject(async (runtime, call): Promise<Ending> => {
  const tested = await runTest(await runtime.models(), asText(call.args[0]) ?? '', call);
  const code = call.terminal.finish(tested, (output) => showTest(call.terminal, output));
  return tested.ok ? exitCode(tested.output) : code;
});

export const addFromServer = inProject(async (runtime, call): Promise<Ending> => {
  const { args, options, terminal } = call;
  const models = await runtime.models();
  const texts = ['name', 'model', 'key', 'price'].map((name) => [name, asText(options[name])]);
  const request = { url: asText(args[0]) ?? '', ...compact<object>(Object.fromEntries(texts)) };
  const added = await interruptible((signal) =>
    models.add(request, (text) => terminal.note(visible(text)), signal),
  );
  if (!added.ok) return added;
  const { provider, models: rows, warnings } = added.output;
  const written = writeFiles(runtime, call, added.output);
  if (!written.ok) return written;
  for (const text of warnings) terminal.note(terminal.paint('yellow', `warning: ${visible(text)}`));
  await runtime.library.refresh();
  const [first] = rows;
  const tested =
    options.test === false || !first ? undefined : await runTest(models, first.id, call);
  const result = ok({
    provider,
    models: rows,
    warnings,
    files: written.output,
    ...(tested?.ok && { test: tested.output }),
  });
  if (tested?.ok === false) return tested;
  terminal.finish(result, () => {
    for (const { id, window } of rows)
      terminal.out(`${visible(id)} ${terminal.paint('dim', `${provider}, window ${window}`)}`);
    if (tested) showTest(terminal, tested.output);
  });
  return tested ? exitCode(tested.output) : 0;
});

export const installPackage = inProject(async (runtime, call): Promise<Ending> => {
  const { args, terminal } = call;
  const spec = asText(args[0]) ?? '';
  const models = await runtime.models();
  terminal.note(`installing ${visible(spec)} without its install scripts`);
  const row = personAuditRow(commandActor(call), 'models:install', spec);
  const done = await interruptible((signal) => models.install(spec, signal));
  return terminal.finish(noted(runtime, row, done), ({ folder, tree, package: name }) => {
    terminal.out(`${visible(name)} is in ${visible(folder)} (sha256 ${tree.slice(0, 16)}…)`);
    terminal.note(
      'the package runs in the process of km with your rights; `hosts` binds it only if it uses the `fetch` that it gets',
    );
  });
});

type Row = Awaited<ReturnType<Models['list']>>[number];

function rowText({ paint }: Terminal, row: Row): string {
  const { model, provider, protocol, key, key_set, price, input, output, free, age_days } = row;
  const access = key === undefined ? 'no key' : key_set ? key : `${key} is not set`;
  const money = free ? 'free' : price === undefined ? 'no price' : `${input}/${output}`;
  const age = age_days === undefined ? '' : `, ${age_days} days old`;
  const facts = [
    `${provider} (${protocol || 'unknown'})`,
    access,
    `${money}${price === undefined ? '' : ` by ${price}${age}`}`,
    ...(row.window === undefined ? [] : [`window ${row.window}`]),
    row.level,
    ...(row.package === undefined ? [] : [row.package]),
    ...(row.problem === undefined ? [] : [row.problem]),
  ];
  return `${visible(model)} ${paint('dim', visible(facts.join('; ')))}`;
}

export const listModels = inProject(async (runtime, { terminal }) =>
  terminal.finish(ok(await (await runtime.models()).list()), (rows) => {
    for (const row of rows) terminal.out(rowText(terminal, row));
  }),
);
