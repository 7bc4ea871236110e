// Compiles `import` and `export`, and loads modules. A file is loaded once per run; its definitions run,
// but not its effects. Imported values keep their labels, and functions keep their scope.
import { basename, extname, join } from 'node:path';
import {
  addMarks,
  type MaybePromise,
  makeContainer,
  makeValue,
  type Value,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { locationOf, locationText } from '../problem.ts';
import {
  type Compiler,
  type Environment,
  type Eval,
  type Exports,
  type ImportPort,
  resolvePath,
  type SourceUnit,
} from '../run/environment.ts';
import { operate, unwrap } from '../run/operate.ts';
import type { NodeOf, Parameter } from '../syntax/ast.ts';
import { derivedName } from '../syntax/outline.ts';
import { absent, entriesOf, isAbsent, makeFunction, makeNamespace } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import type { LoadedText } from '../world.ts';

import { contentOf } from './file.ts';
import { compileFunction } from './function.ts';
import { applyPolicy } from './policy.ts';
import { compileOption } from './with-options.ts';

const MAX_DEPTH = 10;

const NOWHERE = { at: 0, end: 0 };

function functionOf(
  c: Compiler,
  path: string,
  parameters: readonly Parameter[],
  env: Environment,
): Value {
  const written = { kind: 'template', style: 'bare', parts: [path], ...NOWHERE } as const;
  const body = { kind: 'template-file', path: written, ...NOWHERE } as const;
  const name = basename(path, extname(path));
  const head = { kind: 'exe', labels: [], name, parameters, options: undefined } as const;
  return makeFunction(compileFunction(c.forFunction(), { ...head, body, ...NOWHERE })(env));
}

async function membersOf(
  c: Compiler,
  folder: string,
  parameters: readonly Parameter[],
  env: Environment,
  depth: number,
): Promise<Map<string, Value>> {
  if (depth > MAX_DEPTH) return raise('quota_exceeded', `\`${folder}\` is nested too deeply`);
  const templates = new Map<string, Value>();
  const listed = unwrap(await env.run.world.list(folder, env.frame));
  for (const { name, isFolder } of listed.found) {
    if (name.startsWith('.')) continue;
    const path = join(folder, name);
    if (isFolder) {
      const members = await membersOf(c, path, parameters, env, depth + 1);
      if (members.size > 0) templates.set(name, makeContainer(members));
    } else if (/\.(?:att|mtt)$/.test(name))
      templates.set(basename(name, extname(name)), functionOf(c, path, parameters, env));
  }
  return templates;
}

/** The state of a file that ran as a module. */
interface ModuleRun {
  readonly unit: SourceUnit;
  readonly returned: Value | undefined;
}

type RunModule = (read: LoadedText, path: string, env: Environment) => MaybePromise<ModuleRun>;

export function createImports(runModule: RunModule): ImportPort {
  const loaded = new Map<string, Exports>();
  const loading: string[] = [];

  const file = async (path: string, env: Environment): Promise<Exports> => {
    const cached = loaded.get(path);
    if (cached) return cached;
    if (loading.includes(path)) {
      const circle = [...loading.slice(loading.indexOf(path)), path].map((one) => basename(one));
      const message = `the imports form a cycle: ${circle.join(' -> ')}`;
      return raise('invalid_input', message, { files: circle });
    }
    const { world } = env.run;
    const content = unwrap(await world.readFile(path, env.frame));
    const isData = /\.jsonl?$/.test(path);
    loading.push(path);
    const result = isData ? undefined : await runModule(content, path, env);
    loading.splice(loading.indexOf(path), 1);
    const exports = result
      ? exportsOfUnit(result)
      : exportsOf(contentOf(content, world.root), path);
    loaded.set(path, exports);
    return exports;
  };

  /** Loads the file, the folder, or the file with the extension `.mld`. */
  return async (written, skipDirs, env) => {
    const { world } = env.run;
    if (extname(written) !== '') return await file(written, env);
    const listed = await world.list(written, env.frame);
    if (listed.ok) return await folderExports(written, skipDirs, env, file);
    const script = `${written}.mld`;
    return await file((await world.exists(script, env.frame)).found ? script : written, env);
  };
}

/** Returns the exports of a file. Fails with `not_found` if an exported name is not defined. */
function exportsOfUnit({ unit, returned }: ModuleRun): Exports {
  const { scope, exports, frontMatter, name } = unit;
  const exported = exports.names ?? scope.names().map((one) => [one, ''] as const);
  const names = new Map<string, Value>();
  for (const [one, place] of exported) {
    const cell = scope.own(one);
    if (!cell && unit.guards.has(one)) continue;
    if (!cell)
      return raise('not_found', `\`${name}\` exports \`${one}\`, which it does not define`, {
        name: one,
        place,
      });
    if (exports.names || cell.kind !== 'import') names.set(one, addMarks(cell.value, unit.marks));
  }
  if (returned) names.set('default', addMarks(returned, unit.marks));
  return { names, frontMatter, path: name, guards: unit.guards };
}

const SKIPPED = /^[._]/;

/** Returns one member for each subfolder with an `index.mld`. */
async function folderExports(
  folder: string,
  skipDirs: readonly string[] | undefined,
  env: Environment,
  load: (path: string, env: Environment) => Promise<Exports>,
): Promise<Exports> {
  const { world } = env.run;
  const isLeftOut = (name: string) =>
    skipDirs ? skipDirs.some((skip) => name.startsWith(skip)) : SKIPPED.test(name);
  const names = new Map<string, Value>();
  for (const { name, isFolder } of unwrap(await world.list(folder, env.frame)).found) {
    const index = join(folder, name, 'index.mld');
    if (!isFolder || isLeftOut(name) || !(await world.exists(index, env.frame)).found) continue;
    names.set(name.replace(/^\./, '_').replaceAll('-', '_'), namespaceOf(await load(index, env)));
  }
  if (names.size === 0)
    return raise('not_found', `no folder in \`${folder}\` has an \`index.mld\``);
  return { names, frontMatter: makeValue(null), path: folder };
}

/** Returns the exports as a namespace. Reading a name that it does not have is an error. */
const namespaceOf = ({ whole, names, path, frontMatter }: Exports): Value =>
  whole ?? makeNamespace(makeContainer(names), path, frontMatter);

/** Compiles an `export`. It may precede the definitions, because the exports are judged at the end of the file. */
export function compileExport(c: Compiler, node: NodeOf<'export'>): Eval {
  return () => {
    if (node.names) {
      c.unit.exports.names ??= new Map();
      for (const name of node.names) c.unit.exports.names.set(name, locationText(c.unit, node.at));
    }
    return absent();
  };
}

export async function judgeExports(env: Environment): Promise<void> {
  const { exports, scope } = env.unit;
  const inputs = [...(exports.names?.keys() ?? [])].flatMap((name) => {
    const value = scope.own(name)?.value;
    return value ? [{ name, value }] : [];
  });
  if (inputs.length === 0) return;
  const op = { type: 'export' as const, name: '', opLabels: [], retryOwner: false };
  await operate({ ...env, frame: env.run.ground }, op, inputs, () => absent());
}

export function compileImport(c: Compiler, node: NodeOf<'import'>): Eval {
  const { source } = node;
  const skipped = compileOption(c, node.options, 'skipDirs');
  if (node.mode === 'module' && source.kind === 'path') {
    const message = '`import module` needs a registry reference, not a path';
    return () => raise('invalid_input', message, { hint: 'leave out `module`' });
  }
  if (source.kind === 'connector') return compileTools(c, node, source.name);
  if (source.kind !== 'path') {
    return (env) => {
      const value = source.kind === 'input' ? env.run.input : env.run.payload;
      return bindFrom(c, node, env, exportsOf(value, `@${source.kind}`));
    };
  }
  const path = c.text(source.path.parts);
  return async (env) => {
    const value = await path(env);
    const folders = await skipped?.(env);
    refuseAddress(textOf(value), node.mode);
    const place = resolvePath(env, textOf(value));
    let exports: Exports | undefined;
    const location = locationOf(c.unit, node.at);
    const named = { name: place, target: place, opLabels: [], retryOwner: false };
    const op = { type: 'import' as const, ...named, location };
    await operate(env, op, [{ name: 'source', value }], async (_values, inner) => {
      exports = await load(c, node, place, folders, inner);
      return makeValue(null);
    });
    return exports ? bindFrom(c, node, env, exports) : absent();
  };
}

/** Compiles `import tools … from mcp "NAME"`. Few scripts use it, so its code is loaded when one does. */
function compileTools(c: Compiler, node: NodeOf<'import'>, written: NodeOf<'template'>): Eval {
  const name = c.text(written.parts);
  return async (env) => {
    const value = await name(env);
    const place = `mcp:${textOf(value).trim()}`;
    let exports: Exports | undefined;
    const named = { name: place, target: place, opLabels: [], retryOwner: false };
    const op = { type: 'import' as const, ...named, location: locationOf(c.unit, node.at) };
    await operate(env, op, [{ name: 'source', value }], async ([source], inner) => {
      const { toolExports } = await import('../run/connector-tools.ts');
      exports = await toolExports(source, inner);
      return makeValue(null);
    });
    return exports ? bindFrom(c, node, env, exports) : absent();
  };
}

function refuseAddress(written: string, mode: string | undefined): void {
  if (/^\s*[a-z][a-z0-9+.-]*:\/\//i.test(written))
    raise('invalid_input', `\`${written}\` is a URL and cannot be imported`, {
      hint: 'save the file in the project and import it from there',
    });
  if (mode?.startsWith('cached'))
    raise('invalid_input', '`import cached` needs a URL (`https://…`), not a path', {
      hint: `leave out \`${mode}\` to import a file`,
    });
}

async function load(
  c: Compiler,
  node: NodeOf<'import'>,
  place: string,
  folders: Value | undefined,
  env: Environment,
): Promise<Exports> {
  if (node.form.kind === 'templates') {
    const names = await membersOf(c, place, node.form.parameters, env, 0);
    if (names.size === 0)
      raise('not_found', `no templates (\`.att\`, \`.mtt\`) found in \`${place}\``);
    return { names, frontMatter: makeValue(null), path: place };
  }
  const skipDirs = folders && Array.isArray(folders.data) ? folders.data.map(String) : undefined;
  return await env.run.import(place, skipDirs, env);
}

function exportsOf(value: Value, path: string): Exports {
  const whole = isAbsent(value) ? undefined : value;
  return { names: new Map(entriesOf(value)), frontMatter: makeValue(null), path, whole };
}

function bindFrom(c: Compiler, node: NodeOf<'import'>, env: Environment, exports: Exports): Value {
  const { form, source } = node;
  const place = locationText(c.unit, node.at);
  const bind = (name: string, value: Value) =>
    env.unit.scope.define(name, 'import', value, `${place} (from ${exports.path})`);
  switch (form.kind) {
    case 'names':
      for (const { name, alias } of form.names) {
        // Guards are active already, and their names have no value.
        if (exports.guards?.has(name) && !exports.names.has(name)) continue;
        const isTested = source.kind === 'input' && c.unit.testsName(alias);
        bind(alias, memberOf(exports, name, source.kind === 'payload' || isTested));
      }
      break;
    case 'namespace':
    case 'templates':
      bind(form.alias ?? derivedName(exports.path), namespaceOf(exports));
      break;
    case 'policy': {
      const policy = exports.names.get('policy') ?? exports.names.get('config');
      if (policy) applyPolicy(env.run, policy);
      bind(form.alias, policy ?? namespaceOf(exports));
      break;
    }
  }
  return absent();
}

function memberOf(exports: Exports, name: string, isLoose: boolean): Value {
  const value = exports.names.get(name);
  if (value) return value;
  if (isLoose) return makeValue(null);
  const names = [...exports.names.keys()];
  if (exports.path === '@input')
    return raise('not_found', `\`@input\` has no \`${name}\``, {
      name,
      hint: `the input has ${names.length > 0 ? `the names ${names.join(', ')}` : 'no names'}; write \`@${name} ?? …\` if it may be missing`,
    });
  return raise('not_found', `\`${exports.path}\` does not export \`${name}\``, {
    name,
    exports: names,
    hint: names.length > 0 ? `it exports ${names.join(', ')}` : 'it exports nothing',
  });
}
