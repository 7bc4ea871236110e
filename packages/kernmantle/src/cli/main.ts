// The command line: loads the one command that was asked for, turns what it answers into an exit
// code. Nothing heavy is imported before a command is known.
import { EXIT } from '@kernmantle/core/base';
import { CommanderError } from 'commander';
import { createParser } from './table.ts';
import { createOutput, type Output } from './terminal/output.ts';

/** What is wrong with the words themselves, for programs that asked for JSON. */
function refuseInJson(message: string, code: string, output: Output): void {
  const said = code === 'commander.help' ? 'a command is missing' : message;
  const [what = '', suggestion = ''] = said.replace(/^error: /, '').split('\n');
  const hint = suggestion.replace(/^\((.*)\)$/, '$1');
  const detail = { message: what, ...(hint && { hint }) };
  output.out(`${JSON.stringify({ ok: false, error: { code: 'usage', detail } })}\n`);
}

/** A word that holds an address, which may hold a password, is never said back. */
function createUnsaid(argv: readonly string[]): (text: string) => string {
  const addresses = argv.filter((word) => /:\/\/.*@/s.test(word));
  return (text) => addresses.reduce((left, word) => left.replaceAll(word, () => '…'), text);
}

/** Options of scripts that have their rules and are not made yet. */
const asLater = (text: string): string =>
  text.replace(
    /unknown option '(--(?:resume|fresh))\b[^']*'/,
    (_, option: string) =>
      `\`${option}\` is not part of this version: every run of a script begins at the beginning`,
  );

/** `km version` and `km -v`, as other programs have it. */
const asMeant = ([first = '', ...rest]: readonly string[]): string[] => [
  first === 'version' || first === '-v' ? '--version' : first,
  ...rest,
];

/** Runs one command line; sets the exit code instead of leaving, so that output is flushed. */
export async function main(argv: readonly string[]): Promise<void> {
  const unsaid = createUnsaid(argv);
  const output = createOutput(process.stdout, process.stderr, () => {
    process.once('exit', (code) => {
      if (code === EXIT.done) process.exitCode = EXIT.failed;
    });
  });
  const isForMachines = argv.includes('--json');
  const parser = createParser(
    output,
    isForMachines ? () => {} : (text) => output.err(asLater(unsaid(text))),
  );
  try {
    if (argv.length === 0) {
      parser.outputHelp();
      process.exitCode = EXIT.usage;
    } else await parser.parseAsync(asMeant(argv), { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      const what = unsaid((error instanceof Error ? error.stack : undefined) ?? String(error));
      output.err(`error: this should not have happened: ${what}\n`);
      output.err('please report it with what you did\n');
      process.exitCode = EXIT.failed;
    } else if (error.exitCode === 0) process.exitCode = EXIT.done;
    else {
      process.exitCode = EXIT.usage;
      if (isForMachines) refuseInJson(asLater(unsaid(error.message)), error.code, output);
    }
  }
}
