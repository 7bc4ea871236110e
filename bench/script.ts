// Measures scripts as a person runs them: CPU of whole processes of the command line. The cost of a construct is that
// of a script with it minus that of a trivial script. The reference is a bare JavaScript program for the same work
// minus an empty one.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildPackage } from '@kernmantle/test-support/built-package';
import { measureProcess } from './process-cpu.ts';
import type { BenchRow } from './row.ts';

const ROUNDS = 5;

interface Case {
  readonly name: string;
  readonly script: string;
  /** The same work as a bare JavaScript program. */
  readonly bare: string;
  readonly target: string;
  readonly limitMs: number;
}

const items = (count: number): string =>
  `exe @xs() = js { return Array.from({ length: ${count} }, (_, i) => i) }\n`;

const assignments = (count: number): string =>
  `var @word = "x"\n${Array.from({ length: count }, (_, i) => `var @v${i} = "value @word number ${i}"`).join('\n')}\n`;

const bareAssignments = (count: number): string =>
  `const word = "x";\n${Array.from({ length: count }, (_, i) => `const v${i} = \`value \${word} number ${i}\`;`).join('\n')}\n`;

const CASES: readonly Case[] = [
  {
    name: '1,000 assignments with interpolation',
    script: assignments(1000),
    bare: bareAssignments(1000),
    target: 'under 20 ms over a trivial script',
    limitMs: 20,
  },
  {
    name: '1,000 items of a loop',
    script: `${items(1000)}var @r = for @x in @xs() => @x + 1\n`,
    bare: 'const r = Array.from({ length: 1000 }, (_, i) => i).map((x) => x + 1);',
    target: 'under 20 ms over a trivial script',
    limitMs: 20,
  },
  {
    name: '200 pipelines of 3 js stages',
    script: `${items(200)}exe @a(x) = js { return x + 1 }
exe @b(x) = js { return x * 2 }
exe @c(x) = js { return "v" + x }
var @r = for @x in @xs() => @x | @a | @b | @c
`,
    bare: 'const r = Array.from({ length: 200 }, (_, i) => "v" + (i + 1) * 2);',
    target: 'under 60 ms over a trivial script',
    limitMs: 60,
  },
  {
    name: '200 guarded calls',
    script: `${items(200)}guard @g before secret = when [
  @mx.op.type == "show" => deny "no"
  * => allow
]
var secret @s = "k"
exe @f(a, b) = \`@a @b\`
var @r = for @x in @xs() => @f(@x, @s)
`,
    bare: 'const f = (a, b) => a + " " + b; const r = Array.from({ length: 200 }, (_, i) => f(i, "k"));',
    target: 'under 10 ms over a trivial script with a js block',
    limitMs: 10,
  },
];

const best = (measure: () => number): number => {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) least = Math.min(least, measure());
  return least;
};

export function bench(): Promise<BenchRow[]> {
  return Promise.resolve(measure());
}

function measure(): BenchRow[] {
  const dir = mkdtempSync(join(tmpdir(), 'km-bench-script-'));
  const built = buildPackage();
  const launcher = join(built.dir, 'bin/km.js');
  const write = (name: string, text: string): string => {
    const file = join(dir, name);
    writeFileSync(file, text);
    return file;
  };
  const env: Record<string, string> = { KERNMANTLE_SRC: '', KERNMANTLE_HOME: join(dir, 'home') };
  const script = (text: string) => {
    const file = write('x.mld', text);
    return best(() => measureProcess([launcher, 'script', file], env).cpuMillis);
  };
  const bare = (text: string) => {
    const file = write('x.mjs', text);
    return best(() => measureProcess([file], env).cpuMillis);
  };
  try {
    const empty = bare('');
    const trivial = script('show "hi"\n');
    const withJs = script(`${items(1)}var @r = @xs()\n`);
    const file = write('t.mld', 'show "hi"\n');
    const peakMegabytes = best(() => measureProcess([launcher, 'script', file], env).peakMegabytes);
    const rows: BenchRow[] = [
      row('a trivial script', trivial, empty, 'ms CPU', 'under 150 ms', trivial < 150),
      row('memory of a trivial script', peakMegabytes, 0, 'MB', 'under 60 MB', peakMegabytes < 60),
    ];
    for (const one of CASES) {
      const ours = script(one.script) - (one.script.startsWith('exe @xs') ? withJs : trivial);
      const base = Math.max(0.1, bare(one.bare) - empty);
      rows.push(row(one.name, ours, base, 'ms CPU', one.target, ours < one.limitMs));
    }
    return [...rows, growth(script, trivial)];
  } finally {
    built.remove();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Compares the cost per statement of a script with that of a script of ten times the statements. */
function growth(script: (text: string) => number, trivial: number): BenchRow {
  const [small, large] = [10_000, 100_000].map(
    (count) => (script(assignments(count)) - trivial) / count,
  ) as [number, number];
  return row(
    'CPU per statement, 100,000 against 10,000',
    large * 1000,
    small * 1000,
    'µs',
    'at most 1.5x',
    large <= small * 1.5,
  );
}

const row = (
  name: string,
  ours: number,
  base: number,
  unit: string,
  target: string,
  ok: boolean,
): BenchRow => ({
  name,
  ours,
  base,
  ratio: base > 0 ? ours / base : 0,
  unit,
  target,
  ok,
});
