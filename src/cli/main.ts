// The command line: builds the parser from the table, loads the one command that was asked for,
// turns what it answers into an exit code. Nothing heavy is imported before a command is known.
import { Command, CommanderError } from 'commander';
import { type CommandSpec, optionsOf, version } from './command.ts';
import { COMMANDS } from './table.ts';
import { EXIT } from './terminal/exit-code.ts';

/** Adds a row of the table, and the rows below it, to the parser. */
function addCommand(parent: Command, spec: CommandSpec, done: (code: number) => void): void {
  const command = parent
    .command(spec.name)
    .description(spec.summary)
    .helpOption('-h, --help', 'show this');
  for (const [name, meaning] of spec.args ?? []) command.argument(name, meaning);
  for (const [flags, meaning] of optionsOf(spec)) command.option(flags, meaning);
  if (spec.examples) {
    command.addHelpText(
      'after',
      `\nExamples:\n${spec.examples.map((line) => `  ${line}`).join('\n')}`,
    );
  }
  for (const below of spec.commands ?? []) addCommand(command, below, done);
  const { load } = spec;
  if (!load) return;
  command.option('--json', 'answer in JSON');
  command.action(async (...given: unknown[]) => {
    // The parser appends the options and the command itself to the arguments.
    const args = given.slice(0, -2) as (string | string[] | undefined)[];
    const options = command.optsWithGlobals<Record<string, unknown>>();
    const { createTerminal } = await import('./terminal/terminal.ts');
    const terminal = createTerminal({
      stdout: process.stdout,
      stderr: process.stderr,
      env: process.env,
      cwd: process.cwd(),
      json: options.json === true,
    });
    const run = await load();
    const ended = await run({ args, options, terminal, commands: COMMANDS });
    done(typeof ended === 'number' ? ended : terminal.finish(ended, () => {}));
  });
}

function buildParser(done: (code: number) => void): Command {
  const program = new Command('km')
    .description('kernmantle: directives, tools and knowledge for agents, inside a safety harness')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this')
    .helpCommand('help [command]', 'show help for a command')
    .showHelpAfterError('(see `km --help`)')
    .showSuggestionAfterError()
    .exitOverride();
  for (const spec of COMMANDS) addCommand(program, spec, done);
  const override = (command: Command): void => {
    command.exitOverride();
    command.commands.forEach(override);
  };
  override(program);
  return program;
}

/** Runs one command line; sets the exit code instead of leaving, so that output is flushed. */
export async function main(argv: readonly string[]): Promise<void> {
  // A reader that went away (`km search x | head`) is no error.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0);
      throw error;
    });
  }
  let code: number = EXIT.done;
  const program = buildParser((result) => {
    code = result;
  });
  try {
    if (argv.length === 0) {
      program.outputHelp();
      code = EXIT.usage;
    } else await program.parseAsync([...argv], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      process.stderr.write(
        `error: this should not have happened: ${error instanceof Error ? error.stack : String(error)}\n` +
          'please report it with what you did\n',
      );
      code = EXIT.failed;
    } else code = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  }
  process.exitCode = code;
}
