// Measures a warm search over ten thousand items as a caller uses it, with the check for changed files.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fail, systemClock } from '@kernmantle/core/base';
import { createLibrary, type Library } from '@kernmantle/core/items';
import { type BenchRow, race } from './row.ts';

const ITEMS = 10_000;
const LIMIT_MS = 20;
const WORDS = (
  'deploy staging release build image resize upload download parse render report invoice customer ' +
  'database query migrate backup restore cluster node python review approve budget limit token ' +
  'stream socket file folder search index label policy guard hook thread model prompt answer'
).split(' ');

/** Returns the same texts in every run, so that the figure is stable. */
function createWords(): (count: number) => string {
  let seed = 1;
  const next = () => (seed = (seed * 48_271) % 2_147_483_647);
  return (count) =>
    Array.from({ length: count }, () => {
      const word = WORDS[next() % WORDS.length] as string;
      return next() % 3 === 0 ? `${word}${next() % 500}` : word;
    }).join(' ');
}

const KINDS = [
  {
    folder: 'tools',
    extension: 'yaml',
    text: (name: string, words: (count: number) => string) =>
      `tool_id: ${name}\nversion: "1.0.0"\ndescription: ${words(8)}\ncategory: ${words(1)}\n` +
      `executor_id: http_client\nconfig:\n  url: https://example.com/${name}\n` +
      `parameters:\n  - name: path\n    type: string\n    description: ${words(12)}\n`,
  },
  {
    folder: 'knowledge',
    extension: 'md',
    text: (_: string, words: (count: number) => string) =>
      `---\ntitle: ${words(4)}\ncategory: ${words(1)}\ntags: [a, b]\n---\n# ${words(4)}\n\n${words(120)}\n`,
  },
  {
    folder: 'directives',
    extension: 'md',
    text: (name: string, words: (count: number) => string) =>
      `# ${words(3)}\n\n\`\`\`xml\n<directive name="${name}" version="1.0.0">\n  <metadata>\n` +
      `    <description>${words(8)}</description>\n    <category>${words(1)}</category>\n` +
      `  </metadata>\n  <process>\n    <step name="one">${words(40)}</step>\n  </process>\n</directive>\n\`\`\`\n`,
  },
] as const;

function generate(root: string): void {
  const words = createWords();
  for (let number = 0; number < ITEMS; number++) {
    const kind = KINDS[number % KINDS.length] as (typeof KINDS)[number];
    const folder = join(root, '.ai', kind.folder, `area_${number % 97}`);
    if (number < 97 * KINDS.length) mkdirSync(folder, { recursive: true });
    const name = `${WORDS[number % WORDS.length]}_${number}`;
    writeFileSync(join(folder, `${name}.${kind.extension}`), kind.text(name, words));
  }
}

const open = (root: string): Library =>
  createLibrary({
    roots: [{ source: 'project', dir: join(root, '.ai') }],
    projectRoot: root,
    primitives: () => ['http_client'],
    trustStore: { judge: () => fail('not_found', 'no keys here') },
    clock: systemClock,
  });

const QUERIES = [
  'deploy staging',
  'resize image upload',
  'report',
  'deploy_46',
  'guard hook thread',
];

export async function bench(): Promise<BenchRow[]> {
  const root = mkdtempSync(join(tmpdir(), 'km-bench-items-'));
  generate(root);
  const library = open(root);
  try {
    await library.refresh();
    const texts = library.all().map(({ body }) => body.toLowerCase());
    const best = await race({
      ours: async () => {
        for (const text of QUERIES) {
          await library.refresh();
          library.search({ text });
        }
      },
      // The minimum work of any search without an index: read every text once.
      scan: () => {
        for (const query of QUERIES) texts.filter((text) => text.includes(query)).slice(0, 10);
      },
    });
    const [ours, base] = [best.ours ?? 0, best.scan ?? 0].map((us) => us / 1000 / QUERIES.length);
    const row = { ours: ours as number, base: base as number };
    return [
      {
        name: `warm search over ${ITEMS} items`,
        ...row,
        ratio: row.ours / row.base,
        unit: 'ms',
        target: `under ${LIMIT_MS} ms`,
        ok: row.ours < LIMIT_MS,
      },
    ];
  } finally {
    library.close();
    rmSync(root, { recursive: true, force: true });
  }
}
