// Functions that run in this process at the end of a bundle tool's chain (`executor_id: function`).
// Each does one thing, asks the verifier about the real place it touches, and says what it touched.
import { type Failure, fail, getOwn, type JsonObject, type Outcome } from '../base/index.ts';
import type { PrimitiveCall, PrimitiveResult } from './primitive.ts';

export type BuiltinFunction = (call: PrimitiveCall) => Promise<Outcome<PrimitiveResult>>;

/** Parameters were checked against the tool's schema; these only give them their types back. */
export function textOf(parameters: JsonObject, name: string, fallback = ''): string {
  const value = getOwn(parameters, name);
  return typeof value === 'string' ? value : fallback;
}

export const isSet = (parameters: JsonObject, name: string): boolean =>
  getOwn(parameters, name) === true;

/** A whole number, held between bounds that protect the process. */
export function countOf(
  parameters: JsonObject,
  name: string,
  { fallback, min = 0, max }: { fallback: number; min?: number; max: number },
): number {
  const value = getOwn(parameters, name);
  if (typeof value !== 'number' || !Number.isFinite(value)) return fallback;
  return Math.min(max, Math.max(min, Math.trunc(value)));
}

export const cancelled = (): Failure => fail('cancelled', 'the call was cancelled');

/** Where a result came from, in the words that labels and provenance use. */
export function fileMarks(paths: Iterable<string>): { labels: string[]; sources: string[] } {
  const labels = new Set(['src:file']);
  const sources = new Set<string>();
  for (const path of paths) {
    sources.add(`file:${path}`);
    const parts = path.split('/');
    for (let depth = 1; depth < parts.length; depth++) {
      labels.add(`dir:${parts.slice(0, depth).join('/')}`);
    }
  }
  return { labels: [...labels], sources: [...sources] };
}
