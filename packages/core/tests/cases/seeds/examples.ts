// What the tests of the documents' examples share.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import type { Fixture } from '@kernmantle/test-support/project';

export interface Finding {
  line: number;
  column: number;
  code: string;
  severity: string;
  hint?: string;
}

export const example = (file: string): string =>
  readFileSync(join(import.meta.dirname, file), 'utf8');

/** The blocks of a page by the heading above them. */
export function blocksOf(file: string): Map<string, string> {
  const parts = example(file).matchAll(/^## (.+)\n\n```\w*\n([^]*?)^```$/gm);
  return new Map([...parts].map(([, heading = '', text = '']) => [heading, text]));
}

/** Everything that `km check` finds. */
export async function findingsIn({ root, env }: Fixture): Promise<Finding[]> {
  const { output } = await runCommand(['check', '--json'], root, env);
  return JSON.parse(output) as Finding[];
}

/** The findings that refuse a file. */
export const errorsIn = async (fixture: Fixture): Promise<Finding[]> =>
  (await findingsIn(fixture)).filter(({ severity }) => severity === 'error');
