// Reduces the declarations to those that a program can reach from `index.d.ts` and `testing.d.ts`. With the others, a program would have
// to install the types of libraries that it does not use. The script works on the output of `tsc`, in which every
// statement begins at the start of a line. Run `node scripts/declarations.js [dist/types]` after the build of `tsc`.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = resolve(process.argv[2] ?? fileURLToPath(new URL('../dist/types', import.meta.url)));

const START =
  /^(?=(?:\/\*\*(?:[^*]|\*(?!\/))*\*\/\s*)?(?:import|export|declare|interface|type|abstract|class|const|function|enum) )/m;
const NAMED =
  /^(?:export )?(?:declare )?(?:abstract )?(?:interface|type|class|const|let|function|enum) ([\w$]+)/;
const LIST = /^(import|export)( type)? \{([^}]*)\} from ['"]([^'"]+)['"]/;
const WHOLE = /^import (type )?(\* as )?([\w$]+) from ['"]([^'"]+)['"]/;
const IDENTIFIER = /[A-Za-z_$][\w$]*/g;
const INLINE = /import\(["']([.@][^"']+)["']\)\.([\w$]+)/g;
const OWN = /(?<=['"])@kernmantle\/([^/'"]+)(?:\/([^'"]+))?(?=['"])/g;

/** Returns the file of an import by its path or package name. Undefined for other packages. */
function sourceOf(file, from) {
  if (from.startsWith('.')) return join(dirname(file), from.replace(/\.ts$/, '.d.ts'));
  const [own, name, folder = ''] = from.startsWith('@kernmantle/') ? from.split('/') : [];
  return own && join(dist, name, 'src', folder, 'index.d.ts');
}
/** Replaces the names of our packages by paths, because published files cannot import these packages. */
const withPaths = (file, text) =>
  text.replace(OWN, (name) =>
    relative(dirname(file), sourceOf(file, name))
      .replace(/^(?!\.)/, './')
      .replace(/\.d\.ts$/, '.ts'),
  );

const partsOf = (list) =>
  list
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map((text) => {
      const isType = text.startsWith('type ');
      const [name, as = name] = text.replace(/^type /, '').split(' as ');
      return { text, name, as, isType };
    });

/** Returns the statements of a file. A comment belongs to the statement after it. */
function readFile(file) {
  const statements = [];
  let comment = '';
  for (const text of readFileSync(file, 'utf8').split(START)) {
    const end = text.startsWith('/**') ? text.indexOf('*/') + 2 : 0;
    const rest = text.slice(end).trimStart();
    if (rest === '') {
      comment += text;
      continue;
    }
    statements.push({ text: comment + text, code: rest });
    comment = '';
  }
  const locals = new Map();
  const exported = new Map();
  for (const statement of statements) {
    const [, kind, isType, list, from] = LIST.exec(statement.code) ?? [];
    if (kind !== undefined) {
      const source = sourceOf(file, from);
      for (const part of partsOf(list)) {
        const known = {
          statement,
          part: part.text,
          source,
          name: part.name,
          isType: isType !== undefined,
        };
        (kind === 'import' ? locals : exported).set(part.as, known);
      }
      continue;
    }
    const whole = WHOLE.exec(statement.code);
    const name = whole?.[3] ?? NAMED.exec(statement.code)?.[1];
    if (name === undefined) continue;
    const all = locals.get(name)?.statements ?? [];
    locals.set(name, { statements: [...all, statement] });
  }
  return { statements, locals, exported, kept: new Set(), parts: new Map() };
}

const files = new Map();
const open = (file) => {
  if (!files.has(file)) files.set(file, readFile(file));
  return files.get(file);
};

/** `isLocal`: the name is the local name in the file, otherwise its exported name. */
const queue = [];
function want(file, name, isLocal) {
  const known = open(file);
  const found = (isLocal ? undefined : known.exported.get(name)) ?? known.locals.get(name);
  if (!found) return;
  if (found.statements) {
    for (const statement of found.statements) {
      if (known.kept.has(statement)) continue;
      known.kept.add(statement);
      queue.push([file, statement]);
    }
    return;
  }
  const parts = known.parts.get(found.statement) ?? new Set();
  known.parts.set(found.statement, parts);
  if (parts.has(found.part)) return;
  parts.add(found.part);
  if (found.source !== undefined) want(found.source, found.name, false);
}

for (const door of ['index.d.ts', 'testing.d.ts']) {
  const file = join(dist, 'kernmantle', 'src', door);
  const { exported, locals } = open(file);
  for (const name of exported.keys()) want(file, name, false);
  for (const [name, { statements }] of locals) {
    const isExported = (statements?.[0]?.code ?? '').startsWith('export ');
    if (isExported && !exported.has(name)) want(file, name, true);
  }
}
for (let next = queue.pop(); next; next = queue.pop()) {
  const [file, { code }] = next;
  for (const [name] of code.matchAll(IDENTIFIER)) want(file, name, true);
  for (const [, from, name] of code.matchAll(INLINE)) {
    const source = sourceOf(file, from);
    if (source) want(source, name, false);
  }
}

let count = 0;
for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.d.ts')) continue;
  const file = join(dist, name);
  const known = files.get(file);
  const lines = (known?.statements ?? []).flatMap((statement) => {
    if (known.kept.has(statement)) return [statement.text];
    const parts = known.parts.get(statement);
    if (!parts) return [];
    return [statement.code.replace(/\{[^}]*\}/, `{ ${[...parts].join(', ')} }`)];
  });
  if (lines.length === 0) {
    rmSync(file);
    continue;
  }
  count += 1;
  writeFileSync(file, withPaths(file, `${lines.join('').trimEnd()}\nexport {};\n`));
}
process.stdout.write(`${count} files of declarations\n`);
