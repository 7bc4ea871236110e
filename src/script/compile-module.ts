// `import` and `export`. What is imported keeps its labels; functions keep their scope.
import { basename, extname } from 'node:path';
import { type MaybePromise, makeValue, type Operation, type Value } from '../flow/index.ts';
import { absent, isAbsent } from './absent.ts';
import type { ExportStatement, ImportStatement } from './ast.ts';
import { entriesOf } from './elements.ts';
import type { Compiler, Env, Eval, Exports } from './env.ts';
import { raise } from './fault.ts';
import { namespaceOf } from './modules.ts';
import { operate } from './operate.ts';
import { resolvePath } from './paths.ts';
import { placeOf, shownPlace } from './places.ts';
import { applyPolicy } from './script-policy.ts';
import { templatesIn } from './template-folder.ts';
import { textOf } from './text-of.ts';
import { andThen as then } from './wait.ts';

export function compileModuleStatement(c: Compiler, node: ImportStatement | ExportStatement): Eval {
  return node.kind === 'import' ? compileImport(c, node) : compileExport(c, node);
}

/** May come first: what is exported is judged when the file has come to its end. */
function compileExport(c: Compiler, node: ExportStatement): Eval {
  return () => {
    if (node.names) {
      c.unit.exports.names ??= new Map();
      for (const name of node.names) c.unit.exports.names.set(name, shownPlace(c.unit, node.at));
    }
    return absent();
  };
}

export function judgeExports(env: Env): MaybePromise<unknown> {
  const { exports, scope } = env.unit;
  const inputs = [...(exports.names?.keys() ?? [])].flatMap((name) => {
    const value = scope.own(name)?.value;
    return value ? [{ name, value }] : [];
  });
  if (inputs.length === 0) return undefined;
  const op = { type: 'export', name: '', opLabels: [], retryOwner: false };
  return operate({ ...env, frame: env.run.ground }, op, inputs, () => absent());
}

const operationOf = (c: Compiler, node: ImportStatement, name: string): Operation => ({
  type: 'import',
  name,
  target: name,
  opLabels: [],
  retryOwner: false,
  location: placeOf(c.unit, node.at),
});

function compileImport(c: Compiler, node: ImportStatement): Eval {
  const { source } = node;
  const skip = node.options?.entries.get('skipDirs');
  const skipped = skip && c.expression(skip, 'value');
  if (node.mode === 'module' && source.kind === 'path') {
    return () =>
      raise('invalid_input', '`import module` needs a registry reference, not a path', {
        hint: 'leave `module` out',
      });
  }
  if (source.kind !== 'path') {
    return (env) =>
      bindFrom(
        c,
        node,
        env,
        exportsOf(source.kind === 'input' ? env.run.input : env.run.payload, `@${source.kind}`),
        true,
      );
  }
  const path = c.text(source.path.parts);
  return (env) =>
    then(path(env), (value) =>
      then(skipped?.(env), (folders) => {
        const place = resolvePath(env, textOf(value));
        let found: Exports | undefined;
        const done = operate(
          env,
          operationOf(c, node, place),
          [{ name: 'source', value }],
          (_values, inner) =>
            then(load(c, node, place, folders, inner), (exports) => {
              found = exports;
              return makeValue(null);
            }),
        );
        return then(done, () => bindFrom(c, node, env, found as Exports, false));
      }),
    );
}

function load(
  c: Compiler,
  node: ImportStatement,
  place: string,
  folders: Value | undefined,
  env: Env,
): MaybePromise<Exports> {
  if (node.form.kind === 'templates') return templatesIn(c, place, node.form.parameters, env);
  const skipDirs = folders && Array.isArray(folders.data) ? folders.data.map(String) : undefined;
  return env.run.import(place, skipDirs, env);
}

/** The members of data as exports. */
function exportsOf(value: Value, path: string): Exports {
  return {
    names: new Map(entriesOf(value)),
    frontMatter: makeValue(null),
    path,
    whole: isAbsent(value) ? undefined : value,
  };
}

function bindFrom(
  c: Compiler,
  node: ImportStatement,
  env: Env,
  exports: Exports,
  isLoose: boolean,
): Value {
  const { form } = node;
  const place = shownPlace(c.unit, node.at);
  const bind = (name: string, value: Value) =>
    env.unit.scope.define(name, 'import', value, `${place} (from ${exports.path})`);
  switch (form.kind) {
    case 'names':
      for (const { name, alias } of form.names) {
        // Guards are active already; their names stand for no value.
        if (exports.guards?.has(name) && !exports.names.has(name)) continue;
        bind(alias, memberOf(exports, name, isLoose));
      }
      break;
    case 'namespace':
      bind(form.alias ?? namespaceName(exports.path), namespaceOf(exports));
      break;
    case 'templates':
      bind(form.alias, namespaceOf(exports));
      break;
    case 'policy':
      bindPolicy(env, exports, form.alias, bind);
      break;
  }
  return absent();
}

function memberOf(exports: Exports, name: string, isLoose: boolean): Value {
  const found = exports.names.get(name);
  if (found) return found;
  if (isLoose) return makeValue(null);
  const names = [...exports.names.keys()];
  return raise('not_found', `\`${exports.path}\` exports no \`${name}\``, {
    name,
    exports: names,
    hint: names.length > 0 ? `it exports ${names.join(', ')}` : 'it exports nothing',
  });
}

const namespaceName = (path: string): string =>
  basename(path, extname(path)).replace(/[^\w]/g, '_');

function bindPolicy(
  env: Env,
  exports: Exports,
  alias: string,
  bind: (name: string, value: Value) => void,
): void {
  const policy = exports.names.get('policy') ?? exports.names.get('config');
  if (policy) applyPolicy(env.run, policy);
  bind(alias, policy ?? namespaceOf(exports));
}
