// Entry of the command line. It loads the requested command and turns its result into an exit code.
// Large modules are imported only after the command is chosen.
import { EXIT } from '@kernmantle/core/base';
import { CommanderError } from 'commander';
import { createParser } from './table.ts';
import { createOutput, type Output } from './terminal/output.ts';

/** Prints a usage error for programs that asked for JSON. */
function printUsageFault(message: string, code: string, output: Output): void {
  const reason = code === 'commander.help' ? 'a command is missing' : message;
  const [what = '', suggestion = ''] = reason.replace(/^error: /, '').split('\n');
  const hint = suggestion.replace(/^\((.*)\)$/, '$1');
  const detail = { message: what, ...(hint && { hint }) };
  output.out(`${JSON.stringify({ ok: false, error: { code: 'usage', detail } })}\n`);
}

/** Returns a function that removes addresses from a text, which can contain a password. */
function createRedaction(argv: readonly string[]): (text: string) => string {
  const addresses = argv.filter((word) => /:\/\/.*@/s.test(word));
  return (text) => addresses.reduce((rest, word) => rest.replaceAll(word, () => '…'), text);
}

/** Explains script options that are reserved but not implemented. */
const explainReserved = (text: string): string =>
  text.replace(
    /unknown option '(--(?:resume|fresh))\b[^']*'/,
    (_, option: string) =>
      `\`${option}\` is not part of this version; every run of a script starts at its beginning`,
  );

/** Accepts `km version` and `km -v` like other programs. */
const normalizeArgs = ([first = '', ...rest]: readonly string[]): string[] => [
  first === 'version' || first === '-v' ? '--version' : first,
  ...rest,
];

/**
 * Runs one command line. It sets the exit code instead of exiting, so that all output is written.
 */
export async function main(argv: readonly string[]): Promise<void> {
  const redact = createRedaction(argv);
  const output = createOutput(process.stdout, process.stderr, () => {
    process.once('exit', (code) => {
      if (code === EXIT.done) process.exitCode = EXIT.failed;
    });
  });
  const isForMachines = argv.includes('--json');
  const parser = createParser(
    output,
    isForMachines ? () => {} : (text) => output.err(explainReserved(redact(text))),
  );
  try {
    if (argv.length === 0) {
      parser.outputHelp();
      process.exitCode = EXIT.usage;
    } else await parser.parseAsync(normalizeArgs(argv), { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      const what = redact((error instanceof Error ? error.stack : undefined) ?? String(error));
      output.err(`internal error: ${what}\n`);
      output.err('please report this error and the command that you used\n');
      process.exitCode = EXIT.failed;
    } else if (error.exitCode === 0) process.exitCode = EXIT.done;
    else {
      process.exitCode = EXIT.usage;
      if (isForMachines)
        printUsageFault(explainReserved(redact(error.message)), error.code, output);
    }
  }
}
