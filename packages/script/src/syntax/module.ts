// Parses `import` and `export` statements. It refuses sources that certainly cannot be imported.
import type { NodeOf } from './ast.ts';
import type { Reader } from './cursor.ts';
import { parseParameters, refuseFixed, takeName } from './define.ts';
import { parseBarePath } from './effect.ts';
import { parseFile } from './file.ts';
import { parseOptions } from './pipeline.ts';
import { isTextStart } from './text.ts';
import { parsePathText } from './value.ts';

const MODE = /(?:static|live|local|module|cached)(?:\([^()\n]*\))?[ \t]+(?=[{"'`<@./\w])/y;

type ImportForm = NodeOf<'import'>['form'];
type ImportSource = NodeOf<'import'>['source'];

export function parseImport(r: Reader, at: number): NodeOf<'import'> {
  const mode = r.match(MODE)?.trim();
  const { form, source } = parseForm(r);
  if (mode === 'module' && source.kind === 'path' && !isRegistry(r, source.path.at)) {
    r.fail('`import module` needs a registry reference, not a path', {
      at,
      hint: 'leave out `module` to import a file',
    });
  }
  if (mode?.startsWith('cached') && isNoAddress(source)) {
    r.fail('`import cached` needs a URL (`https://…`), not a path', {
      at,
      hint: `leave out \`${mode}\` to import a file: every run reads it again`,
    });
  }
  const options = parseOptions(r);
  return { kind: 'import', form, source, mode, options, at, end: r.pos };
}

const isRegistry = (r: Reader, at: number): boolean =>
  r.text[at] === '@' && !r.text.startsWith('@root', at) && !r.text.startsWith('@base', at);

const ADDRESS = /^\s*[a-z][a-z0-9+.-]*:\/\//i;

/** True if the source is certainly a path. A reference at the start is checked at run time. */
function isNoAddress(source: ImportSource): boolean {
  if (source.kind !== 'path') return true;
  const [first] = source.path.parts;
  if (typeof first === 'string') return !ADDRESS.test(first);
  return first?.kind !== 'insert' || /^(?:root|base)$/.test(first.value.name);
}

function parseForm(r: Reader): { form: ImportForm; source: ImportSource } {
  if (r.take('{')) return { form: parseNames(r), source: parseFrom(r) };
  if (r.take(/templates[ \t]+(?=from(?![\w-]))/y)) {
    const source = parseFrom(r);
    const alias = parseAlias(r) ?? r.fail('`import templates` needs `as @name(…)`');
    const parameters = r.peek() === '(' ? parseParameters(r) : [];
    return { form: { kind: 'templates', alias, parameters }, source };
  }
  if (r.take(/tools[ \t]*(?=\{|from(?![\w-]))/y)) return parseTools(r);
  if (r.take(/policy[ \t]+@/y)) {
    const alias = r.name('after `@`');
    return { form: { kind: 'policy', alias }, source: parseFrom(r) };
  }
  const source = parseSource(r);
  return { form: { kind: 'namespace', alias: parseAlias(r) }, source };
}

/** Parses `{ @a } from mcp "NAME"` or `from mcp "NAME" as @n`. */
function parseTools(r: Reader): { form: ImportForm; source: ImportSource } {
  const form = r.take('{') ? parseNames(r) : undefined;
  r.blanks();
  if (!r.takeWord('from')) r.fail(`expected \`from\`, found ${r.shown()}`);
  if (!r.takeWord('mcp')) {
    r.fail(`expected \`mcp\`, found ${r.shown()}`, {
      hint: 'tools come from a connector: `import tools { @name } from mcp "NAME"`',
    });
  }
  const source: ImportSource = { kind: 'connector', name: parsePathText(r, 'after `mcp`') };
  if (form) return { form, source };
  const alias = parseAlias(r) ?? r.fail('`import tools` needs names in braces, or `as @name`');
  return { form: { kind: 'namespace', alias }, source };
}

/** Parses `as @x`; absent if there is none. */
function parseAlias(r: Reader): string | undefined {
  return r.take(/[ \t]*as(?![\w-])[ \t]*/y) ? takeName(r, 'after `as`') : undefined;
}

/** Parses `{ @a, b as @c }` or `{ * as @lib }`. */
function parseNames(r: Reader): ImportForm {
  if (r.take(/\s*\*/y)) return parseEverything(r, r.pos - 1);
  const names = r.list('}', 'names', () => {
    const at = r.pos;
    const name = takeName(r, 'to import');
    r.space();
    const alias = parseAlias(r) ?? name;
    refuseFixed(r, alias, at);
    return { name, alias };
  });
  return { kind: 'names', names };
}

function parseEverything(r: Reader, at: number): ImportForm {
  const alias = parseAlias(r);
  r.match(/\s*/y);
  if (alias === undefined) {
    r.fail('`import { * }` is not allowed', {
      at,
      hint: 'list the names, or write `import "…" as @lib`',
    });
  }
  r.expect('}', 'after `* as`');
  return { kind: 'namespace', alias };
}

function parseFrom(r: Reader): ImportSource {
  r.blanks();
  if (!r.takeWord('from')) r.fail(`expected \`from\`, found ${r.shown()}`);
  return parseSource(r);
}

function parseSource(r: Reader): ImportSource {
  if (r.take(/["']?@payload(?![\w/.-])["']?/y)) return { kind: 'payload' };
  if (r.take(/["']?@(?:input|stdin)(?![\w/.-])["']?/y)) return { kind: 'input' };
  if (r.sees(/node[ \t]+@/y))
    r.fail('node modules cannot be imported', { hint: 'use `node { … }`' });
  if (r.peek() === '<') return { kind: 'path', path: parseFile(r, false).path };
  return { kind: 'path', path: (isTextStart(r) ? parsePathText : parseBarePath)(r, 'to import') };
}

export function parseExport(r: Reader, at: number): NodeOf<'export'> {
  r.expect('{', 'after `export`');
  const isAll = r.match(/\s*\*\s*\}/y) !== undefined;
  const names = isAll ? undefined : r.list('}', 'names', () => takeName(r, 'to export'));
  return { kind: 'export', names, at, end: r.pos };
}
