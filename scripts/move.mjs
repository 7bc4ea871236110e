// Moves `src/` and `tests/` into `packages/` and rewrites every import. It runs once: `node scripts/move.mjs`.
// A name is imported from the file that defines it inside a package, and from a door elsewhere. Doors are written
// anew from what other packages and folders of core use.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { join, posix, resolve } from 'node:path';

const root = resolve(process.argv[2] ?? '.');
const ts = createRequire(join(root, 'package.json'))('typescript5');

/** Folders and beginnings of paths. The longest match counts. */
const RULES = {
  'src/base/': 'packages/core/src/base/',
  'src/expr/': 'packages/core/src/expr/',
  'src/trust/': 'packages/core/src/trust/',
  'src/flow/': 'packages/core/src/flow/',
  'src/items/': 'packages/core/src/items/',
  'src/kernel/': 'packages/core/src/kernel/',
  'src/llm/': 'packages/core/src/llm/',
  'src/store/': 'packages/core/src/store/',
  'src/harness/': 'packages/core/src/harness/',
  'src/harness/script/': 'packages/core/src/harness/script-thread/',
  'src/runtime/': 'packages/core/src/runtime/',
  'src/runtime/reports/': 'packages/core/src/reports/',
  'src/script/': 'packages/script/src/',
  'src/cli/lsp/': 'packages/script/src/lsp/',
  'src/mcp/': 'packages/mcp/src/',
  'src/fleet/': 'packages/fleet/src/worker/',
  'src/store/postgres/': 'packages/fleet/src/postgres/',
  'src/store/copy/': 'packages/fleet/src/copy/',
  'src/web/': 'packages/web/src/',
  'src/cli/': 'packages/kernmantle/src/cli/',
  'src/cli/attacks/': 'packages/evals/src/',
  'tests/bundle/': 'packages/core/tests/bundle/',
  'tests/cases/': 'packages/core/tests/cases/',
  'tests/cases/scripts/': 'packages/script/tests/cases/',
  'tests/cli/': 'packages/kernmantle/tests/cli/',
  'tests/cli/evaluate': 'packages/evals/tests/evaluate',
  'tests/conformance/': 'packages/mcp/tests/conformance/',
  'tests/crash/': 'packages/core/tests/crash/',
  'tests/docs/': 'packages/kernmantle/tests/docs/',
  'tests/fleet/': 'packages/fleet/tests/',
  'tests/kernel/': 'packages/core/tests/kernel/',
  'tests/mcp/': 'packages/mcp/tests/',
  'tests/package/': 'packages/kernmantle/tests/package/',
  'tests/script/': 'packages/script/tests/',
  'tests/security/': 'packages/core/tests/security/',
  'tests/store/': 'packages/core/tests/store/',
  'tests/store/postgres': 'packages/fleet/tests/store/postgres',
  'tests/threads/': 'packages/core/tests/threads/',
  'tests/web/': 'packages/web/tests/',
};
/** Files with a new name or another folder. `X.test.ts` goes with `X.ts`. */
const FILES = JSON.parse(readFileSync(new URL('./move.json', import.meta.url), 'utf8'));

const listFiles = (folder) =>
  existsSync(join(root, folder))
    ? readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .map((path) => posix.join(folder, path))
        .filter((path) => !path.includes('node_modules/') && statSync(join(root, path)).isFile())
    : [];
const all = ['src', 'tests', 'bench', 'scripts']
  .flatMap(listFiles)
  .filter((path) => !path.startsWith('scripts/move.'));
const others = ['vitest.config.ts'];
const isCode = (path) => /\.tsx?$/.test(path) && !path.endsWith('.d.ts');

function newPathOf(path) {
  if (FILES[path]) return FILES[path];
  const subject = path.replace(/\.test\.(tsx?)$/, '.$1');
  if (subject !== path && FILES[subject]) return FILES[subject].replace(/\.(tsx?)$/, '.test.$1');
  const start = Object.keys(RULES)
    .filter((one) => path.startsWith(one))
    .sort((a, b) => b.length - a.length)[0];
  return start ? RULES[start] + path.slice(start.length) : path;
}
const to = new Map([...all, ...others].map((path) => [path, newPathOf(path)]));
const folders = new Map();
for (const path of all) {
  for (let folder = posix.dirname(path); folder !== '.'; folder = posix.dirname(folder))
    folders.set(folder, undefined);
}
/** A folder moves as a whole when a rule names it or one above it. */
const newFolderOf = (folder) => newPathOf(`${folder}/`).replace(/\/$/, '');
const taken = new Map();
for (const [path, target] of to) {
  if (taken.has(target))
    throw new Error(`two files go to ${target}: ${taken.get(target)}, ${path}`);
  taken.set(target, path);
}

const packageOf = (target) => (target.startsWith('packages/') ? target.split('/')[1] : undefined);
const isTest = (target) =>
  /\.test\.tsx?$/.test(target) ||
  !/^packages\/[^/]+\/src\//.test(target) ||
  /(?:^|[/-])fixtures?\.ts$/.test(target);
/** A package, or a folder of core: what has a door of its own. */
function unitOf(target) {
  const [, name, , folder] = target.split('/');
  return name === 'core' ? `core/${folder}` : name;
}
const doorOf = (unit) =>
  unit.startsWith('core/')
    ? `packages/core/src/${unit.slice(5)}/index.ts`
    : `packages/${unit}/src/index.ts`;
const LIBRARY = 'packages/kernmantle/src/index.ts';
const isDoor = (target) => !isTest(target) && target === doorOf(unitOf(target));

// ---- what each file exports ------------------------------------------------------------------------
const parsed = new Map();
const textOf = (path) => readFileSync(join(root, path), 'utf8');
for (const path of to.keys())
  if (isCode(path))
    parsed.set(
      path,
      ts.createSourceFile(
        path,
        textOf(path),
        ts.ScriptTarget.Latest,
        true,
        path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS,
      ),
    );
const targetOf = (path, specifier) => {
  if (!specifier.startsWith('.')) return undefined;
  const target = posix.join(posix.dirname(path), specifier);
  return to.has(target) ? target : undefined;
};
/** path -> name -> { from, name } for what is handed on, { isType } for what is defined. */
const exported = new Map();
for (const [path, file] of parsed) {
  const own = new Map();
  const imported = new Map();
  exported.set(path, own);
  for (const statement of file.statements) {
    if (
      ts.isImportDeclaration(statement) &&
      statement.importClause?.namedBindings &&
      ts.isNamedImports(statement.importClause.namedBindings)
    )
      for (const one of statement.importClause.namedBindings.elements)
        imported.set(one.name.text, {
          specifier: statement.moduleSpecifier.text,
          name: (one.propertyName ?? one.name).text,
        });
    if (
      ts.isExportDeclaration(statement) &&
      statement.exportClause &&
      ts.isNamedExports(statement.exportClause)
    ) {
      for (const one of statement.exportClause.elements) {
        const name = (one.propertyName ?? one.name).text;
        const passed = statement.moduleSpecifier
          ? { specifier: statement.moduleSpecifier.text, name }
          : imported.get(name);
        const target = passed && targetOf(path, passed.specifier);
        own.set(
          one.name.text,
          target
            ? { from: target, name: passed.name }
            : { isType: statement.isTypeOnly || one.isTypeOnly },
        );
      }
    }
    if (
      ts.isExportDeclaration(statement) &&
      statement.exportClause &&
      ts.isNamespaceExport(statement.exportClause)
    )
      own.set(statement.exportClause.name.text, {
        namespace: targetOf(path, statement.moduleSpecifier.text),
      });
    if (!statement.modifiers?.some((one) => one.kind === ts.SyntaxKind.ExportKeyword)) continue;
    const isType = ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement);
    if (ts.isVariableStatement(statement))
      for (const one of statement.declarationList.declarations) {
        if (ts.isIdentifier(one.name)) own.set(one.name.text, { isType: false });
        else for (const part of one.name.elements) own.set(part.name.text, { isType: false });
      }
    else if (statement.name) own.set(statement.name.text, { isType });
  }
}
function origin(path, name) {
  const found = exported.get(path)?.get(name);
  if (!found) return { path, name, isMissing: true };
  return found.from
    ? origin(found.from, found.name)
    : { path, name, isType: found.isType ?? false };
}

// ---- what doors must export ------------------------------------------------------------------------
/** unit -> name -> { path, isType } */
const needs = new Map();
const problems = [];
function need(unit, { path, name, isType }) {
  if (!needs.has(unit)) needs.set(unit, new Map());
  const known = needs.get(unit).get(name);
  if (known && known.path !== path)
    problems.push(`door ${unit}: ${name} in ${known.path} and ${path}`);
  needs.get(unit).set(name, { path, isType });
}
/** A module that is taken as a whole keeps all names of its door. */
function needAll(target) {
  for (const name of exported.get(target)?.keys() ?? []) {
    const found = origin(target, name);
    if (unitOf(to.get(found.path)) === unitOf(to.get(target))) need(unitOf(to.get(target)), found);
  }
}
const relative = (from, target) => {
  const path = posix.relative(posix.dirname(from), target);
  return path.startsWith('.') ? path : `./${path}`;
};
const outside = (unit) => `@kernmantle/${unit}`;
const SUPPORT = /^tests\/support\/(.*)\.ts$/;

/** Where `path` imports `found` from. `given` is the file that its import names today. */
function specifierFor(path, given, found) {
  const [here, there] = [to.get(path), to.get(found.path)];
  const support = SUPPORT.exec(there);
  if (support && !here.startsWith('tests/support/'))
    return `@kernmantle/test-support/${support[1]}`;
  if (!packageOf(there)) return relative(here, there);
  const unit = unitOf(there);
  // The list of extensions loads no door of a package.
  if (/\/src\/extension\.ts$/.test(there) && packageOf(here) !== packageOf(there))
    return `@kernmantle/${packageOf(there)}/extension`;
  if (!isTest(here)) {
    if (unitOf(here) === unit)
      return relative(
        here,
        !isDoor(to.get(given)) && unitOf(to.get(given)) === unit ? to.get(given) : there,
      );
    if (isTest(there)) problems.push(`${path} imports ${found.path}, which is of tests`);
    need(unit, found);
    return packageOf(here) === packageOf(there) ? relative(here, doorOf(unit)) : outside(unit);
  }
  const isSame = packageOf(here) === packageOf(there);
  // Fixtures and supports of tests have no door. A name that only tests use has none either.
  if (isTest(there) || !/(?:^|\/)index\.ts$/.test(given)) return relative(here, there);
  if (there === LIBRARY || needs.get(unit)?.get(found.name)?.path === found.path)
    return isSame ? relative(here, doorOf(unit)) : outside(unit);
  return relative(here, there);
}

// ---- rewriting -------------------------------------------------------------------------------------
/** The names that a dynamic import takes, where its surroundings say so. */
function namesTaken(node) {
  const ofPattern = (pattern) =>
    pattern && ts.isObjectBindingPattern(pattern)
      ? pattern.elements.map((one) => (one.propertyName ?? one.name).getText())
      : undefined;
  let at = node.parent;
  if (
    ts.isPropertyAccessExpression(at) &&
    at.name.text === 'then' &&
    ts.isCallExpression(at.parent)
  ) {
    const [callback] = at.parent.arguments;
    const [parameter] = callback?.parameters ?? [];
    const pattern = ofPattern(parameter?.name);
    if (pattern) return pattern;
    if (!parameter) return undefined;
    const names = [];
    const visit = (one) => {
      if (
        ts.isPropertyAccessExpression(one) &&
        ts.isIdentifier(one.expression) &&
        one.expression.text === parameter.name.text
      )
        names.push(one.name.text);
      ts.forEachChild(one, visit);
    };
    visit(callback.body);
    return names.length > 0 ? names : undefined;
  }
  if (ts.isArrayLiteralExpression(at)) {
    const index = at.elements.indexOf(node);
    while (at && !ts.isVariableDeclaration(at)) at = at.parent;
    if (at && ts.isArrayBindingPattern(at.name)) return ofPattern(at.name.elements[index]?.name);
    return undefined;
  }
  if (!ts.isAwaitExpression(at)) return undefined;
  at = at.parent;
  if (ts.isVariableDeclaration(at)) {
    const pattern = ofPattern(at.name);
    if (pattern) return pattern;
  }
  if (ts.isParenthesizedExpression(at) && ts.isPropertyAccessExpression(at.parent))
    return [at.parent.name.text];
  return undefined;
}

function editsOf(path) {
  const file = parsed.get(path);
  const here = to.get(path);
  const edits = [];
  const replace = (node, text) => edits.push([node.getStart(file), node.end, text]);
  const quote = (text) => `'${text}'`;
  const statement = (node, clause, isExport) => {
    const target = targetOf(path, node.moduleSpecifier.text);
    if (!target) return;
    const word = isExport ? 'export' : 'import';
    const elements =
      clause && (ts.isNamedImports(clause) || ts.isNamedExports(clause))
        ? clause.elements
        : undefined;
    if (!elements) {
      const there = to.get(target);
      if (!isTest(here) && packageOf(there) && unitOf(here) !== unitOf(there))
        problems.push(`${path}: whole module ${target}`);
      const support = SUPPORT.exec(there);
      replace(
        node.moduleSpecifier,
        quote(
          support && !here.startsWith('tests/support/')
            ? `@kernmantle/test-support/${support[1]}`
            : relative(here, there),
        ),
      );
      return;
    }
    const isTypeOnly = isExport ? node.isTypeOnly : node.importClause.isTypeOnly;
    const groups = new Map();
    for (const one of elements) {
      const name = (one.propertyName ?? one.name).text;
      const found = origin(target, name);
      if (found.isMissing && parsed.has(target))
        problems.push(`${path}: ${name} is not exported by ${target}`);
      if (isExport && isDoor(here) && here !== LIBRARY) {
        // A door is made from what others use.
        continue;
      }
      const specifier = specifierFor(path, target, found);
      const isDirect = specifier === relative(here, to.get(target));
      const outer = isDirect ? name : found.name;
      const text = `${one.isTypeOnly ? 'type ' : ''}${outer}${outer === one.name.text ? '' : ` as ${one.name.text}`}`;
      groups.set(specifier, [...(groups.get(specifier) ?? []), text]);
    }
    const rows = [...groups].map(
      ([specifier, names]) =>
        `${word}${isTypeOnly ? ' type' : ''} { ${names.join(', ')} } from ${quote(specifier)};`,
    );
    replace(node, rows.join('\n'));
  };
  const visit = (node) => {
    if (ts.isImportDeclaration(node)) {
      if (node.importClause?.name && targetOf(path, node.moduleSpecifier.text))
        problems.push(`${path}: default import`);
      statement(node, node.importClause?.namedBindings, false);
      return;
    }
    if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      statement(node, node.exportClause, true);
      return;
    }
    const isCall =
      ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword;
    const literal = isCall
      ? node.arguments[0]
      : ts.isImportTypeNode(node)
        ? node.argument.literal
        : undefined;
    const target =
      literal && ts.isStringLiteral(literal) ? targetOf(path, literal.text) : undefined;
    if (target) {
      const names = isCall ? namesTaken(node) : [node.qualifier?.getText()].filter(Boolean);
      const whole = { path: target, name: '*' };
      const isSame = unitOf(to.get(target)) === unitOf(here) && packageOf(here);
      if (!names?.length && !isSame && !isTest(here)) needAll(target);
      const specifiers = names?.length
        ? new Set(names.map((name) => specifierFor(path, target, origin(target, name))))
        : new Set([
            isTest(here) || isSame
              ? SUPPORT.test(to.get(target))
                ? specifierFor(path, target, whole)
                : wholeFor(path, target)
              : wholeFor(path, target),
          ]);
      if (specifiers.size > 1)
        problems.push(
          `${path}: import('${literal.text}') takes names of ${[...specifiers].join(', ')}`,
        );
      replace(literal, quote([...specifiers][0]));
    }
    if (
      ts.isNewExpression(node) &&
      node.expression.getText() === 'URL' &&
      node.arguments?.[1]?.getText() === 'import.meta.url'
    )
      moveText(node.arguments[0]);
    if (
      ts.isCallExpression(node) &&
      /^(?:join|resolve)$/.test(node.expression.getText()) &&
      node.arguments[0]?.getText() === 'import.meta.dirname'
    ) {
      const rest = node.arguments.slice(1);
      if (rest.length > 0 && rest.every((one) => ts.isStringLiteral(one))) {
        const now = posix.join(posix.dirname(path), ...rest.map((one) => one.text));
        const next = posix.relative(posix.dirname(here), movedPath(now));
        if (next !== posix.join(...rest.map((one) => one.text)))
          edits.push([rest[0].getStart(file), rest.at(-1).end, quote(next)]);
      }
    }
    ts.forEachChild(node, visit);
  };
  const wholeFor = (from, target) => {
    const [mine, there] = [to.get(from), to.get(target)];
    if (isDoor(there) && packageOf(mine) !== packageOf(there)) return outside(unitOf(there));
    return relative(mine, there);
  };
  /** `'../../bin/km.js'` and the head of `../../${path}`. */
  const moveText = (node) => {
    const isHead = ts.isTemplateExpression(node);
    const text = isHead
      ? node.head.text
      : ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)
        ? node.text
        : undefined;
    if (text === undefined || /^[a-z]+:/.test(text)) return;
    const now = posix.join(posix.dirname(path), text);
    let next = posix.relative(posix.dirname(here), movedPath(now.replace(/\/$/, '')));
    if (text.endsWith('/')) next = next === '' ? './' : `${next}/`;
    if (text.startsWith('./') && !next.startsWith('.')) next = `./${next}`;
    if (next === '') next = '.';
    if (next === text) return;
    const start = node.getStart(file) + 1;
    edits.push([start, start + (isHead ? (node.head.rawText ?? text) : text).length, next]);
  };
  visit(file);
  return edits;
}
function movedPath(path) {
  if (to.has(path)) return to.get(path);
  if (folders.has(path)) return newFolderOf(path);
  return path;
}
const apply = (text, edits) =>
  edits
    .sort((a, b) => b[0] - a[0])
    .reduce((done, [start, end, next]) => done.slice(0, start) + next + done.slice(end), text);

// Sources first: they say what doors export. Tests follow.
const written = new Map();
const code = [...to.keys()].filter((path) => isCode(path));
for (const path of code.filter((one) => !isTest(to.get(one))))
  written.set(path, apply(textOf(path), editsOf(path)));
for (const path of code.filter((one) => isTest(to.get(one))))
  written.set(path, apply(textOf(path), editsOf(path)));

// ---- doors -----------------------------------------------------------------------------------------
const doorTexts = new Map();
for (const [unit, names] of needs) {
  const door = doorOf(unit);
  const old = taken.get(door);
  const byFile = new Map();
  for (const [name, { path, isType }] of names) {
    if (to.get(path) === door) continue;
    byFile.set(path, [...(byFile.get(path) ?? []), `${isType ? 'type ' : ''}${name}`]);
  }
  const rows = [...byFile]
    .sort(([a], [b]) => (to.get(a) < to.get(b) ? -1 : 1))
    .map(
      ([path, list]) =>
        `export { ${list.sort().join(', ')} } from '${relative(door, to.get(path))}';`,
    );
  const own = old
    ? written.get(old)
    : `// The door of \`${unit}\`: what other packages and folders use.\n`;
  doorTexts.set(door, `${own.trimEnd()}\n${rows.join('\n')}\n`);
  if (old) written.set(old, doorTexts.get(door));
}

// ---- prose that names files ------------------------------------------------------------------------
const prose = (text) =>
  text.replace(/(?<![\w/.-])(?:src|tests)\/[\w./-]*[\w/]/g, (path) => {
    const clean = path.replace(/\/$/, '');
    if (to.has(clean)) return to.get(clean);
    if (folders.has(clean) && newFolderOf(clean) !== clean)
      return newFolderOf(clean) + (path.endsWith('/') ? '/' : '');
    return path;
  });
const comments = (text) =>
  text.replace(/`(?:src|tests)\/[\w./-]+`/g, (path) => `\`${prose(path.slice(1, -1))}\``);

/** Paths from the root in configs, tests and scripts: a file, a folder or the beginning of a pattern. */
const quoted = (text) =>
  text.replace(/(?<=['"`])(?:src|tests)\/[^'"`\s]*/g, (path) => {
    if (path === 'src/index.ts') return path;
    if (to.has(path)) return to.get(path);
    const isRuled = Object.keys(RULES).some(
      (start) => path.startsWith(start) || `${path}/` === start,
    );
    if (!isRuled) return path;
    return `${path}/` in RULES ? RULES[`${path}/`].slice(0, -1) : newPathOf(path);
  });

if (process.argv.includes('--check')) {
  console.log([...new Set(problems)].sort().join('\n') || 'no problems');
  for (const [unit, names] of [...needs].sort()) console.log(`${unit}: ${names.size} names`);
  process.exit();
}
for (const [path, target] of to) {
  if (others.includes(path)) continue;
  const file = join(root, target);
  const text =
    written.get(path) ?? (/\.m?js$|durations\.json$/.test(path) ? textOf(path) : undefined);
  mkdirSync(posix.dirname(file), { recursive: true });
  if (target !== path) renameSync(join(root, path), file);
  if (text !== undefined) writeFileSync(file, comments(isTest(target) ? quoted(text) : text));
}
for (const path of others) writeFileSync(join(root, path), quoted(written.get(path)));
for (const [door, text] of doorTexts) writeFileSync(join(root, door), text);
for (const page of [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...listFiles('docs').filter((name) => name.endsWith('.md')),
])
  writeFileSync(join(root, page), prose(readFileSync(join(root, page), 'utf8')));
rmSync(join(root, 'src'), { recursive: true, force: true });
for (const folder of readdirSync(join(root, 'tests')))
  if (
    statSync(join(root, 'tests', folder)).isDirectory() &&
    listFiles(`tests/${folder}`).length === 0
  )
    rmSync(join(root, 'tests', folder), { recursive: true });
console.log([...new Set(problems)].sort().join('\n') || 'no problems');
for (const [unit, names] of [...needs].sort()) console.log(`${unit}: ${names.size} names`);
