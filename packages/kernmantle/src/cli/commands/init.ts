// Implements `init`: writes a working project from the template in the bundle and signs it with the
// user's key. Existing files are not changed, and each new file appears complete or not at all. The
// id of the project is created once and never changes, because threads on a server belong to it.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { errnoOf, fail, messageOf, type Outcome, ok, systemRandom } from '@kernmantle/core/base';
import { giveProjectId } from '@kernmantle/core/items';
import { BUNDLE, signFiles } from '@kernmantle/core/runtime';
import { asText, type CommandRun } from '../command.ts';
import { commandActor, openRuntime } from '../project.ts';

const TEMPLATE = join(BUNDLE, 'init');
/** npm renames a packed `.gitignore`, so the template spells it without the dot. */
const targetOf = (file: string): string => file.replace(/(^|\/)gitignore$/, '$1.gitignore');

type WrittenFiles = Record<'written' | 'kept', string[]>;

/** Source file and target of each file of the template. */
function templateFiles(): [from: string, file: string][] {
  const entries = readdirSync(TEMPLATE, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((from) => [from, targetOf(from.slice(TEMPLATE.length + 1))]);
}

const ASSISTANT = '.ai/directives/assistant.md';

function writeFiles(
  dir: string,
  files: readonly (readonly [from: string, file: string])[],
  force: boolean,
): Outcome<WrittenFiles> {
  const [written, kept]: [string[], string[]] = [[], []];
  for (const [from, file] of files) {
    const to = join(dir, file);
    try {
      mkdirSync(dirname(to), { recursive: true });
      writeFileSync(to, readFileSync(from), { flag: force ? 'w' : 'wx' });
      written.push(file);
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST')
        return fail('config_invalid', `\`${to}\` cannot be written: ${messageOf(error)}`);
      kept.push(file);
    }
  }
  return ok({ written, kept });
}

const ID_FILE = '.ai/config/project.yaml';

/** Creates the id, and copies the template unless `--id` is set. */
function makeProject(
  dir: string,
  { id: onlyId, chat, force }: Readonly<Record<string, unknown>>,
): Outcome<WrittenFiles> {
  const assistant = [[join(BUNDLE, 'directives/core/assistant.md'), ASSISTANT]] as const;
  const wanted = onlyId === true ? [] : chat === true ? assistant : templateFiles();
  const files = writeFiles(dir, wanted, force === true);
  if (!files.ok) return files;
  const projectId = giveProjectId(join(dir, '.ai'), systemRandom);
  if (!projectId.ok) return projectId;
  const { written, kept } = files.output;
  const into: string[] = projectId.output.isNew ? written : kept;
  into.push(ID_FILE);
  return ok({ written: written.sort(), kept: kept.sort() });
}

export const run: CommandRun = async ({ args, options, terminal }) => {
  const dir = resolve(terminal.cwd, asText(args[0]) ?? '.');
  const copy = makeProject(dir, options);
  if (!copy.ok) return copy;
  const { cwd, env } = terminal;
  const runtime = await openRuntime({ project: dir, cwd, env, store: '' });
  if (!runtime.ok) return runtime;
  // A person edits the assistant first, and signs it then.
  const items = copy.output.written.filter(
    (name) => /\.(md|yaml)$/.test(name) && name !== ID_FILE && name !== ASSISTANT,
  );
  const signed = signFiles(
    runtime.output,
    items.map((name) => join(runtime.output.project, name)),
    commandActor({ terminal }),
  );
  await runtime.output.close();
  if (!signed.ok) return signed;
  const key = signed.output[0]?.statement.key ?? '';
  return terminal.finish(ok({ ...copy.output, signed: items, key }), ({ written, kept }) => {
    for (const file of written) terminal.out(`${terminal.paint('green', 'wrote')} ${file}`);
    for (const file of kept) terminal.out(`${terminal.paint('dim', 'kept ')} ${file}`);
    if (key !== '') terminal.note(`signed with your key ${key}`);
    terminal.note(
      options.id === true
        ? `keep ${ID_FILE} with the project, in version control`
        : options.chat === true
          ? `next: edit it, \`km sign ${ASSISTANT}\`, \`km chat assistant\``
          : 'next: `km check`, `km search word`, `km exec tool text/word_count text="one two"`',
    );
  });
};
