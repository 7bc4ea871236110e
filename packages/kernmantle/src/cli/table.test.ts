import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { createParser } from './table.ts';
import { createOutput } from './terminal/output.ts';

const leaves = ({ commands }: Command): Command[] =>
  commands.flatMap((command) => (command.commands.length > 0 ? leaves(command) : [command]));

const output = createOutput(process.stdout, process.stderr, () => {});

test('every command that people read about has code, and words about all it takes', () => {
  for (const command of leaves(createParser(output))) {
    const { options, registeredArguments } = command;
    // Every command that runs something can answer in JSON.
    expect([command.name(), options.map(({ long }) => long)]).toEqual([
      command.name(),
      expect.arrayContaining(['--json']),
    ]);
    const words = [command, ...options, ...registeredArguments].map((one) =>
      typeof one.description === 'function' ? one.description() : one.description,
    );
    expect(words.every((text) => text.trim() !== '')).toBe(true);
  }
});

test('no line of a help text is wider than 80', () => {
  const groups = (command: Command): Command[] => [command, ...command.commands.flatMap(groups)];
  for (const command of groups(createParser(output))) {
    const wide = command
      .helpInformation()
      .split('\n')
      .filter((line) => line.length > 80 && !line.startsWith('Usage:'));
    expect([command.name(), wide]).toEqual([command.name(), []]);
  }
});
