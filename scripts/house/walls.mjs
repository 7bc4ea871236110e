// Reads a checkout as text and counts what the packages look like: `node scripts/house/walls.mjs [CHECKOUT]`.
// It needs no dependency. `--list FIGURE` prints the places
// behind a figure, `--json` prints data, `--run` starts `km` once to count the modules that it loads, and
// `--test-log FILE` reads the time of a test run. `npm run house` compares the figures with the ratchet.
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix, resolve as resolvePath } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs, stripVTControlCharacters } from 'node:util';

const packageOf = (path) => path.split('/')[1];

const STATEMENT =
  /^[ \t]*(import|export)\b([^;'"`]*?)\bfrom\s*['"]([^'"]+)['"]|^[ \t]*import\s*['"]([^'"]+)['"]/gm;
const DYNAMIC =
  /(?:(?:const|let)\s*(\{[^}]*\})\s*=\s*await\s+)?(?:\(\s*await\s+)?\bimport\(\s*['"]([^'"]+)['"]\s*\)(?:\s*\)\s*\.\s*(\w+)|\.(?!then\b)(\w+))?(?:\s*\.then\(\(?\s*(\{[^}]*\}))?/g;
const DECLARED =
  /^export (?:declare )?(?:(?:(?:async )?function\*?|(?:abstract )?class|const|let|enum|interface|type) +(\w+)|(?:const|let) +\{([^}]*)\})/gm;
const ALL = [{ local: '', name: '*' }];

function namesIn(clause) {
  const inner = /\{([\s\S]*)\}/.exec(clause)?.[1];
  if (inner === undefined) return [{ local: /(\w+)\s*$/.exec(clause)?.[1] ?? '', name: '*' }];
  return inner
    .replace(/\/\/.*|\/\*[\s\S]*?\*\//g, '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map((entry) => {
      const [name, local = name] = entry.replace(/^type\s+/, '').split(/\s+as\s+|\s*:\s*/);
      return { local, name, isType: /^type\s/.test(entry) };
    });
}

/** Returns what a file imports and exports, with the specifiers as they are written. */
function readModule(path, text) {
  const imports = [];
  const exports = [];
  const lineAt = (index) => text.slice(0, index).split('\n').length;
  for (const match of text.matchAll(STATEMENT)) {
    const [, keyword, clause = '', from, bare] = match;
    const specifier = from ?? bare;
    const line = lineAt(match.index + match[0].search(/\S/));
    const names = bare === undefined ? namesIn(clause) : ALL;
    const isType = /^\s*type\b/.test(clause) || names.every((entry) => entry.isType === true);
    const isPassed = keyword === 'export' && names[0]?.name !== '*';
    imports.push({
      specifier,
      line,
      isType,
      names: isPassed ? [] : names,
      passes: isPassed ? names : [],
    });
    if (isPassed)
      for (const { local, name } of names)
        exports.push({ name: local, line, specifier, inner: name });
  }
  for (const match of text.matchAll(DYNAMIC)) {
    const [, bound, specifier, member, type, taken] = match;
    const one = member ?? type;
    const names = one ? [{ local: '', name: one }] : bound || taken ? namesIn(bound ?? taken) : ALL;
    imports.push({
      specifier,
      line: lineAt(match.index),
      isType: type !== undefined,
      names,
      passes: [],
    });
  }
  for (const match of text.matchAll(DECLARED)) {
    const line = lineAt(match.index);
    const names =
      match[1] === undefined ? namesIn(`{${match[2]}}`).map(({ local }) => local) : [match[1]];
    for (const name of names) exports.push({ name, line });
  }
  for (const match of text.matchAll(/^export (?:type )?(\{[^}]*\});/gm)) {
    for (const { local, name } of namesIn(match[1])) {
      const from = imports.find(({ names }) => names.some((entry) => entry.local === name));
      const inner = from?.names.find((entry) => entry.local === name)?.name;
      exports.push({
        name: local,
        line: lineAt(match.index),
        ...(from && { specifier: from.specifier, inner }),
      });
    }
  }
  return { path, package: packageOf(path), text, imports, exports };
}

const lineCount = (text) => text.split('\n').length - 1;

/** Reads every source file of a checkout, tests excluded, with its imports resolved to paths. */
export function readSources(root) {
  const list = (folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((path) => posix.join(folder, path.replaceAll('\\', '/')))
      .filter(
        (path) => !/\/(?:node_modules|dist)\//.test(path) && statSync(join(root, path)).isFile(),
      );
  const paths = list('packages').filter((path) => /^packages\/[^/]+\/(?:src|sql)\//.test(path));
  const texts = paths
    .filter((path) => /\.(?:tsx?|css|sql)$/.test(path) && !/\.test\.tsx?$/.test(path))
    .sort()
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
  const isCode = ({ path }) => /\.tsx?$/.test(path) && !path.endsWith('.d.ts');
  const files = texts.filter(isCode).map(({ path, text }) => readModule(path, text));
  const doors = new Map();
  for (const { path } of files) {
    const [, name, folder = ''] =
      /^packages\/([^/]+)\/src\/(?:([^/]+)\/)?(?:index|extension)\.tsx?$/.exec(path) ?? [];
    const last = path.endsWith('/extension.ts') ? '/extension' : '';
    if (name) doors.set(posix.join('@kernmantle', name, folder, last), path);
  }
  for (const { path, imports, exports } of files) {
    for (const entry of [...imports, ...exports]) {
      if (entry.specifier === undefined) continue;
      entry.target = entry.specifier.startsWith('.')
        ? posix.join(posix.dirname(path), entry.specifier)
        : doors.get(entry.specifier);
    }
  }
  const byPath = new Map(files.map((file) => [file.path, file]));
  const lines = texts.map(({ path, text }) => ({
    package: packageOf(path),
    text: path,
    count: lineCount(text),
  }));
  const packages = [...new Set(lines.map((row) => row.package))].sort((a, b) => (a < b ? -1 : 1));
  const isWhole = (name) =>
    existsSync(join(root, 'packages', name, 'README.md')) &&
    (existsSync(join(root, 'packages', name, 'tests')) ||
      list(`packages/${name}/src`).some((path) => /\.test\.tsx?$/.test(path)));
  const whole = packages.filter(isWhole);
  return { root, files, byPath, lines, packages, whole };
}

/** The file that declares what `path` exports as `name`, and every file on the way there. */
export function wayToDeclaration(byPath, path, name) {
  const way = [{ path, name }];
  for (;;) {
    const at = way.at(-1);
    const entry = byPath.get(at.path)?.exports.find((one) => one.name === at.name);
    if (entry?.target === undefined || way.length > 10) return way;
    way.push({ path: entry.target, name: entry.inner });
  }
}

const OUTER = ['script', 'mcp', 'fleet', 'web', 'kernmantle', 'evals'];

/** Imports between packages, by the file that defines the name. */
function graphFigures({ files, byPath }) {
  const edges = new Map();
  const namesOfCore = new Map();
  const importers = new Map();
  const privatePaths = [];
  for (const { path, package: own, imports, text } of files) {
    const isPrivate = (specifier) =>
      /^(?:@[\w.-]+\/)?(?!\.|node:)[\w.-]+\/(?:lib|dist|src|build)\//.test(specifier);
    const written = [...text.matchAll(/\(\s*['"]([^'"\n]+\.js)['"]/g)].map(
      ([, specifier]) => specifier,
    );
    const loaded = new Set([...imports.map(({ specifier }) => specifier), ...written]);
    for (const specifier of loaded) {
      if (isPrivate(specifier)) privatePaths.push({ package: own, text: `${path}: ${specifier}` });
    }
    for (const { target, names } of imports) {
      if (target === undefined) continue;
      for (const { name } of names) {
        const from =
          name === '*' ? { path: target, name } : wayToDeclaration(byPath, target, name).at(-1);
        importers.set(from.path, (importers.get(from.path) ?? new Set()).add(path));
        const other = packageOf(from.path);
        if (own === other) continue;
        const key = `${own} -> ${other}`;
        edges.set(key, (edges.get(key) ?? new Set()).add(`${path} -> ${from.path}`));
        if (other !== 'core' || name === '*') continue;
        const known = `${from.path}#${from.name}`;
        namesOfCore.set(known, (namesOfCore.get(known) ?? new Set()).add(own));
      }
    }
  }
  const against = (isAgainst) =>
    [...edges].flatMap(([key, set]) => {
      const [from, to] = key.split(' -> ');
      return isAgainst(from, to) ? [...set].map((text) => ({ package: from, text })) : [];
    });
  const isAlone = ({ path }) => {
    const [first, ...rest] = importers.get(path) ?? [];
    return first && rest.length === 0 && posix.dirname(first) === posix.dirname(path);
  };
  return {
    edges,
    figures: [
      {
        id: '2',
        name: 'imports core -> outer',
        target: '0',
        places: against((from, to) => from === 'core' && OUTER.includes(to)),
      },
      {
        id: '2b',
        name: 'imports sideways',
        target: '0',
        places: against(
          (from, to) =>
            !['kernmantle', 'core'].includes(from) &&
            to !== 'core' &&
            `${from} ${to}` !== 'web script',
        ),
      },
      {
        id: '4',
        name: 'names of core used by others',
        target: '<= 350 after step 7',
        places: [...namesOfCore].map(([text, users]) => ({ packages: [...users], text })),
      },
      {
        id: '10b',
        name: 'files with one importer, in their folder',
        isPrinted: true,
        places: files
          .filter((file) => !file.path.endsWith('index.ts') && isAlone(file))
          .map((file) => ({ package: file.package, text: file.path })),
      },
      { id: '16', name: 'private paths', target: '0', places: privatePaths },
    ],
  };
}

/** Runs of comment lines: the first line, the texts, and whether it is a doc comment or at the margin. */
export function commentsOf({ path, package: own, text }) {
  const found = [];
  const rows = text.split('\n');
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at];
    const [line, isTop] = [at + 1, row.startsWith('/')];
    if (/^\s*\/\//.test(row)) {
      const lines = [];
      for (; /^\s*\/\//.test(rows[at] ?? ''); at++) lines.push(rows[at].replace(/^\s*\/\/\s?/, ''));
      at -= 1;
      found.push({ path, package: own, line, lines, isDoc: false, isTop });
    } else if (/^\s*\/\*/.test(row)) {
      const raw = [row];
      while (!raw.at(-1).includes('*/') && at + 1 < rows.length) raw.push(rows[++at]);
      const lines = raw
        .map((one) => one.replace(/^\s*\/\*+\s?|\s*\*+\/.*$|^\s*\*\s?/g, '').trim())
        .filter((one) => one !== '');
      found.push({ path, package: own, line, lines, isDoc: /^\s*\/\*\*/.test(row), isTop });
    }
  }
  return found;
}

const HEADLESS = /^(?:What|Of|As|Who|It|Its|Those|Where|Whoever)\b/;

function commentFigures({ files, byPath }) {
  const comments = files.flatMap(commentsOf);
  const place = ({ path, package: own, line, lines }) => ({
    package: own,
    text: `${path}:${line} ${lines[0] ?? ''}`,
  });
  const isBlank = (row = '') => row.trim() === '';
  // A comment of two or more lines at the margin, between blank lines, below the imports.
  const isSecond = ({ path, line, lines, isDoc, isTop }) => {
    if (isDoc || !isTop || line <= 2) return false;
    const rows = byPath.get(path).text.split('\n');
    return isBlank(rows[line - 2]) && isBlank(rows[line - 1 + lines.length]);
  };
  const seconds = Map.groupBy(comments.filter(isSecond), ({ path }) => path);
  return [
    {
      id: '11',
      name: 'second headers',
      target: '<= 10',
      places: [...seconds.values()].map(([first]) => place(first)),
    },
    {
      id: '12',
      name: 'comment lines with "whoever"',
      target: '<= 20',
      places: comments.flatMap((comment) =>
        comment.lines.flatMap((words, at) =>
          /\bwhoever\b/i.test(words)
            ? [place({ ...comment, line: comment.line + at, lines: [words] })]
            : [],
        ),
      ),
    },
    {
      id: '12a',
      name: 'comments without a subject',
      target: '<= 300',
      places: comments.filter(({ lines }) => HEADLESS.test(lines[0] ?? '')).map(place),
    },
    {
      id: '12b',
      name: 'doc comments of five words or fewer',
      target: '<= 200',
      places: comments
        .filter(
          ({ isDoc, lines }) => isDoc && lines.join(' ').split(/\s+/).filter(Boolean).length <= 5,
        )
        .map(place),
    },
  ];
}

const TYPES = [/^(?:export )?(?:declare )?(?:interface|type|class|enum) (\w+)/gm];
const FUNCTIONS = [
  /^(?:export )?(?:async )?function\*? (\w+)/gm,
  /^(?:export )?const (\w+)(?:: [^=\n]+)? =\s*\n?\s*(?:async )?(?:<[^>]*>\s*)?(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\w+)(?::[^=]+?)?\s*=>/gm,
];

/** Names that at least `least` files declare at their top level. */
function sharedNames(files, patterns, least) {
  const found = new Map();
  for (const { path, package: own, text } of files) {
    for (const [, name] of patterns.flatMap((pattern) => [...text.matchAll(pattern)])) {
      found.set(name, (found.get(name) ?? new Map()).set(path, own));
    }
  }
  return [...found]
    .filter(([, paths]) => paths.size >= least)
    .sort(([, a], [, b]) => b.size - a.size)
    .map(([name, paths]) => ({
      packages: [...new Set(paths.values())],
      text: `${name} ${paths.size}`,
    }));
}

function nameFigures({ files }) {
  const byName = Map.groupBy(files, ({ path }) => posix.basename(path).replace(/\.tsx?$/, ''));
  const twice = [...byName].filter(([name, same]) => name !== 'index' && same.length > 1);
  return [
    {
      id: '8',
      name: 'type names in three or more files',
      target: '<= 15',
      places: sharedNames(files, TYPES, 3),
    },
    {
      id: '9',
      name: 'function names in five or more files',
      target: '<= 45 after step 6',
      places: sharedNames(files, FUNCTIONS, 5),
    },
    {
      id: '9b',
      name: 'file names that occur twice',
      isPrinted: true,
      places: twice.map(([name, same]) => ({
        packages: [...new Set(same.map((file) => file.package))],
        text: `${name} ${same.length}`,
      })),
    },
  ];
}

/** One place per file in which `count` finds something. */
const perFile = (files, count) =>
  files.flatMap((file) => {
    const found = count(file);
    return found > 0 ? [{ package: file.package, text: file.path, count: found }] : [];
  });

/** Event types that a file names; words that are ordinary names too count only as literals. */
function eventFiles(files) {
  const isTable = ({ path }) => /(?:thread\/journal-event|journal\/events?)\.ts$/.test(path);
  const table = files.find(isTable);
  const body = /(?:^const DATA = \{|^export const EVENTS\b[^{]*\{)([\s\S]*?)^\}/m.exec(
    table?.text,
  )?.[1];
  const patterns = [...(body ?? '').matchAll(/^ {2}(\w+)[:,]/gm)].map(([, type]) =>
    type.includes('_')
      ? new RegExp(`['"\`]${type}['"\`]|\\b${type}\\s*[:(]`)
      : new RegExp(`(?:type|case|kind)[^\\n]{0,30}['"]${type}['"]|^ {2}['"]${type}['"],`, 'm'),
  );
  return files.flatMap((file) => {
    const count = file === table ? 0 : patterns.filter((pattern) => pattern.test(file.text)).length;
    return count >= 5 ? [{ package: file.package, text: `${file.path} ${count}` }] : [];
  });
}

const PROSE =
  /\/[^/\n]*[a-z]{4,}[^/\n]*\/[a-z]*\.(?:test|exec)\((?=[^)]*(?:message|reason|told|words|plainText)\b)|(?:message|reason|hint)\??\.(?:startsWith|includes|match|endsWith)\(['"`/]|message\.replace\(\/\^?[a-z ]{5,}/;
const PROSE_TABLE = /\[\s*\/[^/\n]*[a-z]{4,}[^/\n]*\/[a-z]*,\s*'[^']+'\s*\]/g;
/** Files that match the text of a library or of a command line, not a message of ours. */
const MATCHES_OTHERS =
  /file-tools\/pattern\.ts|http\/fault\.ts|tool\/tool-signature\.ts|run\/command-words\.ts/;

/** Places where the program seems to parse the text of its own messages. */
function proseIn({ path, package: own, text }) {
  const rows = MATCHES_OTHERS.test(path) ? [] : text.split('\n');
  const parsed = rows.flatMap((row, at) =>
    PROSE.test(row) && !/^\s*(?:\/\/|\*)/.test(row)
      ? [`${path}:${at + 1} ${row.trim().slice(0, 110)}`]
      : [],
  );
  const tables = /message|reason/.test(text)
    ? [...text.matchAll(PROSE_TABLE)].map(([row]) => `${path}: ${row.slice(0, 90)}`)
    : [];
  return [...parsed, ...tables].map((place) => ({ package: own, text: place }));
}

const matches = (text, pattern) => [...text.matchAll(pattern)];
const CURSOR_LOOP =
  /(?:for|while|do)\b[\s\S]{0,600}\.query\([\s\S]{0,600}next_cursor|for \([^)]*cursor/;

function textFigures({ files }) {
  return [
    { id: '5', name: 'event files', target: '<= 15, writers included', places: eventFiles(files) },
    { id: '6', name: 'prose that is parsed', target: '0', places: files.flatMap(proseIn) },
    {
      id: '7',
      name: 'lines of PL/pgSQL in strings',
      target: '0',
      places: perFile(files, ({ text }) =>
        /language\s+plpgsql/i.test(text)
          ? matches(text, /`[^`]*(?:plpgsql|\$\$)[^`]*`/gi).reduce(
              (sum, [sql]) => sum + lineCount(sql) + 1,
              0,
            )
          : 0,
      ),
    },
    {
      id: '10',
      name: 'parameters of type Thread',
      target: '<= 120',
      places: perFile(
        files,
        ({ text }) => matches(text, /(?:\w+|\}): Thread(?=\s*[,)]|\s*\n)/g).length,
      ),
    },
    {
      id: '15',
      name: 'cursor loops',
      target: '1',
      places: perFile(files, ({ text }) =>
        /\.query\(/.test(text) && /next_cursor/.test(text) && CURSOR_LOOP.test(text) ? 1 : 0,
      ),
    },
  ];
}

const COUNT_MODULES = `import { registerHooks } from 'node:module';
let count = 0;
registerHooks({ load(url, context, next) {
  if (url.startsWith('file:') && !url.includes('/node_modules/')) count += 1;
  return next(url, context);
} });
process.on('exit', () => process.stderr.write('\\nMODULES ' + count + '\\n'));`;

/** Starts `km exec` from the sources in a new project, and counts the modules of ours that it loads. */
export function modulesLoaded(root) {
  const folder = mkdtempSync(join(tmpdir(), 'walls-'));
  try {
    mkdirSync(join(folder, 'project', '.ai'), { recursive: true });
    writeFileSync(join(folder, 'project', 'a.md'), 'hello');
    writeFileSync(join(folder, 'count.mjs'), COUNT_MODULES);
    const km = resolvePath(root, 'bin', 'km.js');
    const words = ['exec', 'tool', 'fs/read_file', 'path=a.md'];
    const command = [
      process.execPath,
      '--no-warnings',
      '--import',
      join(folder, 'count.mjs'),
      km,
      ...words,
    ];
    const script = `${command.map((word) => `'${word}'`).join(' ')} 2>&1 >/dev/null`;
    const output = execFileSync('/bin/sh', ['-c', script], {
      cwd: join(folder, 'project'),
      encoding: 'utf8',
      env: {
        ...process.env,
        HOME: folder,
        KERNMANTLE_HOME: join(folder, 'home'),
        KERNMANTLE_SRC: '1',
      },
    });
    const count = Number(/MODULES (\d+)/.exec(output)?.[1]);
    return {
      id: '14',
      name: 'modules loaded by km exec',
      target: '120 with the start times of the release',
      places: [{ package: 'kernmantle', text: 'km exec tool fs/read_file', count }],
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function testTime(file) {
  const log = stripVTControlCharacters(readFileSync(file, 'utf8'));
  const wall = Number(/Duration\s+([\d.]+)s/.exec(log)?.[1] ?? 0);
  const cpu = matches(log, /^(?:user|sys)\s+(\d+)m([\d.]+)s/gm);
  const seconds = cpu.reduce(
    (sum, [, minutes, rest]) => sum + Number(minutes) * 60 + Number(rest),
    0,
  );
  return `npm test: ${(wall / 60).toFixed(1)} min wall, ${(seconds / 60).toFixed(1)} min CPU (13, target <= 10 min wall)`;
}

const countOf = ({ count = 1 }) => count;
/** The figure in the whole checkout. */
export const total = ({ places }) => places.reduce((sum, place) => sum + countOf(place), 0);
/** The figure of one package. A name that several packages use counts in each of them. */
export const inPackage = ({ places }, name) =>
  total({ places: places.filter((place) => (place.packages ?? [place.package]).includes(name)) });

/** Counts everything that the text of a checkout shows. */
export function measure(sources) {
  const { edges, figures } = graphFigures(sources);
  const all = [
    {
      id: '1',
      name: 'packages with a README and tests',
      target: '7',
      isPrinted: true,
      places: sources.whole.map((name) => ({ package: name, text: name })),
    },
    { id: '3', name: 'lines', target: 'ratchet', places: sources.lines },
    ...figures,
    ...commentFigures(sources),
    ...nameFigures(sources),
    ...textFigures(sources),
  ];
  const order = ({ id }) => Number.parseInt(id, 10) * 100 + id.charCodeAt(id.length - 1);
  return { edges, figures: all.sort((a, b) => order(a) - order(b)) };
}

function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'boolean' },
      run: { type: 'boolean' },
      list: { type: 'string' },
      'test-log': { type: 'string' },
    },
  });
  const [root = '.'] = positionals;
  const sources = readSources(root);
  const { edges, figures: measured } = measure(sources);
  const figures = values.run ? [...measured, modulesLoaded(root)] : measured;
  const listed = figures.find(({ id, name }) => values.list === id || values.list === name);
  if (values.list !== undefined) {
    const names = figures.map(({ name }) => name).join(', ');
    const rows = listed?.places.map(({ text, count }) => (count ? `${count} ${text}` : text));
    console.log((rows ?? [`figure \`${values.list}\` not found; use one of: ${names}`]).join('\n'));
  } else if (values.json) {
    console.log(
      JSON.stringify(Object.fromEntries(figures.map((figure) => [figure.id, total(figure)]))),
    );
  } else {
    for (const figure of figures) {
      const by = sources.packages.map((name) => `${name} ${inPackage(figure, name)}`).join(', ');
      const target = figure.target ? `   [target ${figure.target}]` : '';
      console.log(`${figure.id.padStart(3)}  ${figure.name}: ${total(figure)} (${by})${target}`);
    }
    if (values['test-log']) console.log(testTime(values['test-log']));
    console.log('\npackage graph, by the file that defines each name');
    for (const [edge, set] of [...edges].sort(([a], [b]) => (a < b ? -1 : 1)))
      console.log(`     ${edge.padEnd(24)} ${set.size}`);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main();
