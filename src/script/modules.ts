// Loading modules: each file once per run, its definitions run, its effects do not.
import { basename, extname, join } from 'node:path';
import { type MaybePromise, makeContainer, makeValue, type Value } from '../flow/index.ts';
import { contentOf } from './compile-file.ts';
import { entriesOf } from './elements.ts';
import type { Env, Exports, ImportPort, Unit } from './env.ts';
import { raise } from './fault.ts';
import { unwrap } from './operate.ts';
import { withOrigin } from './value-kinds.ts';
import { mapInTurn, andThen as then } from './wait.ts';

/** Runs a file as a module and gives what it left behind. */
export type RunModule = (
  text: string,
  path: string,
  env: Env,
) => MaybePromise<{ unit: Unit; returned: Value | undefined }>;

export function createImports(runModule: RunModule): ImportPort {
  const loaded = new Map<string, Exports>();
  const loading: string[] = [];

  const file = (path: string, env: Env): MaybePromise<Exports> => {
    const known = loaded.get(path);
    if (known) return known;
    if (loading.includes(path)) {
      const circle = [...loading.slice(loading.indexOf(path)), path].map((one) => basename(one));
      return raise('invalid_input', `the imports go in a circle: ${circle.join(' -> ')}`, {
        files: circle,
      });
    }
    return then(env.run.world.readFile(path, env.frame), (outcome) => {
      const content = unwrap(outcome);
      if (/\.jsonl?$/.test(path))
        return keep(path, dataExports(contentOf(content, env.run.world.root), path));
      loading.push(path);
      return then(runModule(content.text, path, env), ({ unit, returned }) => {
        loading.splice(loading.indexOf(path), 1);
        return keep(path, exportsOfUnit(unit, returned));
      });
    });
  };

  const keep = (path: string, exports: Exports): Exports => {
    loaded.set(path, exports);
    return exports;
  };

  return (written, skipDirs, env) =>
    then(locate(written, env), ({ path, isFolder }) =>
      isFolder ? folderExports(path, skipDirs, env, file) : file(path, env),
    );
}

/** The file as written, with an extension added, or a folder. */
function locate(written: string, env: Env): MaybePromise<{ path: string; isFolder: boolean }> {
  const { world } = env.run;
  if (extname(written) !== '') return { path: written, isFolder: false };
  return then(world.list(written, env.frame), (outcome) => {
    if (outcome.ok) return { path: written, isFolder: true };
    return then(world.exists(`${written}.mld`), (isThere) => ({
      path: isThere ? `${written}.mld` : written,
      isFolder: false,
    }));
  });
}

const dataExports = (value: Value, path: string): Exports => ({
  names: new Map(entriesOf(value)),
  frontMatter: makeValue(null),
  path,
  whole: value,
});

/** `export { … }` limits what can be had; names it lists must be there. */
function exportsOfUnit(unit: Unit, returned: Value | undefined): Exports {
  const { scope, exports, frontMatter, name } = unit;
  const wanted = exports.names
    ? [...exports.names]
    : scope.names().map((one) => [one, ''] as const);
  const names = new Map<string, Value>();
  for (const [one, place] of wanted) {
    const cell = scope.own(one);
    if (!cell && unit.guards.has(one)) continue;
    if (!cell)
      return raise('not_found', `\`${name}\` exports \`${one}\`, which it does not define`, {
        name: one,
        place,
      });
    if (exports.names || cell.kind !== 'import') names.set(one, cell.value);
  }
  if (returned) names.set('default', returned);
  return { names, frontMatter, path: name, guards: unit.guards };
}

const SKIPPED = /^[._]/;

/** One member per subfolder with an `index.mld`. */
function folderExports(
  folder: string,
  skipDirs: readonly string[] | undefined,
  env: Env,
  load: (path: string, env: Env) => MaybePromise<Exports>,
): MaybePromise<Exports> {
  const { world } = env.run;
  return then(world.list(folder, env.frame), (outcome) => {
    const folders = unwrap(outcome).filter(
      ({ name, isFolder }) =>
        isFolder &&
        !(skipDirs ? skipDirs.some((skip) => name.startsWith(skip)) : SKIPPED.test(name)),
    );
    const found = mapInTurn(folders, ({ name }): MaybePromise<[string, Value] | undefined> => {
      const index = join(folder, name, 'index.mld');
      return then(world.exists(index), (isThere) =>
        isThere
          ? then(load(index, env), (exports) => [
              name.replace(/^\./, '_').replaceAll('-', '_'),
              namespaceOf(exports),
            ])
          : undefined,
      );
    });
    return then(found, (list) => {
      const names = new Map(list.filter((entry) => entry !== undefined));
      if (names.size === 0)
        return raise('not_found', `no folder in \`${folder}\` has an \`index.mld\``);
      return { names, frontMatter: makeValue(null), path: folder };
    });
  });
}

/** Its members; a name it does not have is an error where it is read. */
export const namespaceOf = ({ whole, names, path, frontMatter }: Exports): Value =>
  whole ?? withOrigin(makeContainer(names), { namespace: path, fm: frontMatter.data });
