// Copies a registry between files and servers. The source does not change. INVARIANT: a leased thread is never
// copied. The target always shows the complete copy or no part of it. Every epoch is raised, so an earlier owner
// can never write to the copy. A repeated copy continues a stopped one and does not send an unchanged tree again.
import { type Clock, fail, type Outcome, ok, systemRandom } from '@kernmantle/core/base';
import type { Answer } from '@kernmantle/core/store';
import { readPlace, shownPlace } from '../postgres/address.ts';
import {
  COPIED_TABLES,
  type CopiedRow,
  type CopiedTable,
  type CopySource,
  type CopyTarget,
  type CopyTree,
  columnsOf,
  type RowCounts,
} from './rows.ts';

/** A file by its path, or a server by its address, which can contain a password. */
export type CopyPlace = { file: string } | { address: string };

export interface CopyOptions {
  from: CopyPlace;
  to: CopyPlace;
  clock: Clock;
  /** Key of the user. Both registries must have it, because sealed values are copied unchanged. */
  identity?: Uint8Array;
  /** Project whose trees are copied from a server with several projects. Absent: all projects. */
  project?: string;
  /** Returns the target name of a project, and the items for its open threads that have none. */
  rename(project: string): Outcome<{ project: string; items?: string }>;
  /** Reports the number of copied trees and of all trees. */
  progress?(done: number, all: number): void;
  signal?: AbortSignal;
}

interface CopyReport {
  rows: RowCounts;
  trees: number;
  /** Number of trees that an earlier try had already sent. */
  kept: number;
}

const at = (name: string): number => columnsOf('threads').indexOf(name);
const [PROJECT, ITEMS, EPOCH, ENDED] = [at('project'), at('items'), at('epoch'), at('ended')];

type ProjectNames = ReadonlyMap<string, { project: string; items?: string }>;

function moved(row: CopiedRow, names: ProjectNames): CopiedRow {
  const name = names.get(String(row[PROJECT]));
  const copy = [...row];
  copy[PROJECT] = name?.project ?? '';
  copy[EPOCH] = Number(row[EPOCH]) + 1;
  if (row[ITEMS] === null && row[ENDED] === null) copy[ITEMS] = name?.items ?? null;
  return copy;
}

/**
 * Returns the row under the new name of its project. Rows of the scope `user` belong to no project. Signatures contain
 * the id of the project, so a schedule holds under the other name, too.
 */
function renamed(table: 'memories' | 'schedules', row: CopiedRow, names: ProjectNames): CopiedRow {
  const at = columnsOf(table).indexOf('project');
  return row.with(at, names.get(String(row[at]))?.project ?? '');
}

async function* rowsOf(
  source: CopySource,
  tree: string,
  names: ProjectNames,
): AsyncIterable<readonly [CopiedTable, CopiedRow[]]> {
  for (const table of COPIED_TABLES) {
    for await (const page of source.rows(table, tree)) {
      const isOwned = table === 'memories' || table === 'schedules';
      const move = (row: CopiedRow): CopiedRow =>
        table === 'threads' ? moved(row, names) : isOwned ? renamed(table, row, names) : row;
      yield [table, table === 'threads' || isOwned ? page.map(move) : page];
    }
  }
}

function refuseLeased(leased: readonly string[]): Outcome<null> {
  if (leased.length === 0) return ok(null);
  const named = leased.slice(0, 5).map((id) => `\`${id}\``);
  const more = leased.length > named.length ? ` and ${leased.length - named.length} more` : '';
  const message = `these threads are leased: ${named.join(', ')}${more}; wait for their end, or pause them first`;
  return fail('lease_held', message, { threads: leased.slice(0, 100) });
}

async function namesOf(source: CopySource, rename: CopyOptions['rename']): Answer<ProjectNames> {
  const names = new Map<string, { project: string; items?: string }>();
  for (const project of await source.projects()) {
    const name = rename(project);
    if (!name.ok) return name;
    names.set(project, name.output);
  }
  return ok(names);
}

/** Adds the project names to the mark, so that a tree with another name is sent again. */
const markOf = ({ tree, mark }: CopyTree, names: ProjectNames): CopyTree => ({
  tree,
  mark: `${mark} ${JSON.stringify([...names])}`,
});

async function copyTrees(
  source: CopySource,
  target: CopyTarget,
  { rename, progress, signal }: CopyOptions,
): Answer<CopyReport> {
  const free = refuseLeased(await source.held());
  if (!free.ok) return free;
  const names = await namesOf(source, rename);
  if (!names.ok) return names;
  const trees = (await source.trees()).map((tree) => markOf(tree, names.output));
  const staged = await target.staged();
  const present = new Set(trees.map(({ tree }) => tree));
  for (const tree of staged.keys()) if (!present.has(tree)) await target.drop(tree);
  let fileCount = 0;
  for (const [index, tree] of trees.entries()) {
    if (signal?.aborted) {
      return fail('cancelled', 'the copy was cancelled; repeat the command to continue');
    }
    if (staged.get(tree.tree) === tree.mark) fileCount += 1;
    else await target.stage(tree, rowsOf(source, tree.tree, names.output));
    progress?.(index + 1, trees.length);
  }
  const rows = await source.counts();
  const result = await target.finish(rows);
  return result.ok ? ok({ rows, trees: trees.length - 1, kept: fileCount }) : result;
}

const PATIENCE_MS = 10_000;

async function openSides(options: CopyOptions): Answer<[CopySource, CopyTarget]> {
  const { from, to, clock, identity, project } = options;
  const ours = { clock, random: systemRandom, ...(identity && { identity }) };
  const file = (path: string) => ({
    ...ours,
    file: path,
    durability: 'flush' as const,
    patienceMs: PATIENCE_MS,
  });
  const server = (address: string) => {
    const place = readPlace(address);
    return place.ok ? ok({ ...ours, place: place.output, shown: shownPlace(address) }) : place;
  };
  const files = await import('./file.ts');
  const servers = 'file' in from && 'file' in to ? undefined : await import('./server.ts');
  const openSource = async (): Answer<CopySource> => {
    if ('file' in from) return await files.openFileSource(file(from.file));
    const place = server(from.address);
    if (!place.ok || !servers) return place.ok ? fail('internal_error', 'no servers') : place;
    return await servers.openServerSource(place.output, project);
  };
  const openTarget = async (): Answer<CopyTarget> => {
    if ('file' in to) return await files.openFileTarget(file(to.file));
    const place = server(to.address);
    if (!place.ok || !servers) return place.ok ? fail('internal_error', 'no servers') : place;
    return await servers.openServerTarget(place.output);
  };
  const source = await openSource();
  if (!source.ok) return source;
  const target = await openTarget();
  if (target.ok) return ok([source.output, target.output]);
  await source.output.close();
  return target;
}

export async function copyRegistry(options: CopyOptions): Answer<CopyReport> {
  const sides = await openSides(options);
  if (!sides.ok) return sides;
  const [source, target] = sides.output;
  try {
    return await copyTrees(source, target, options);
  } catch (error) {
    // Every exception of SQLite has an `errcode`.
    const isOfFile = error instanceof Error && 'errcode' in error;
    const isSource = 'file' in options.from === isOfFile;
    return (isSource ? source : target).fault(error);
  } finally {
    await source.close();
    await target.close();
  }
}
