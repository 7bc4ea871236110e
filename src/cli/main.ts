// The command line: loads the one command that was asked for, turns what it answers into an exit
// code. Nothing heavy is imported before a command is known.
import { CommanderError } from 'commander';
import { createParser } from './table.ts';
import { EXIT } from './terminal/exit-code.ts';

/** Runs one command line; sets the exit code instead of leaving, so that output is flushed. */
export async function main(argv: readonly string[]): Promise<void> {
  // A reader that went away (`km search x | head`) is no error.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0);
      throw error;
    });
  }
  const parser = createParser();
  try {
    if (argv.length === 0) {
      parser.outputHelp();
      process.exitCode = EXIT.usage;
    } else await parser.parseAsync([...argv], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      process.stderr.write(
        `error: this should not have happened: ${error instanceof Error ? error.stack : String(error)}\n` +
          'please report it with what you did\n',
      );
      process.exitCode = EXIT.failed;
    } else process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  }
}
