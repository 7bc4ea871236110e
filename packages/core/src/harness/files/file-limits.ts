// Decides whether bytes are a file that a model can get. The limits are data: `files` of `limits.yaml`, with other
// values for single providers.
import { hash } from 'node:crypto';
import {
  type Failure,
  fail,
  fileType,
  type Json,
  type Outcome,
  objectAt,
  ok,
} from '../../base/index.ts';
import type { FileBlock, FileKind, ResolvedModel } from '../../llm/index.ts';
import type { PreparePorts } from '../thread/thread.ts';

const MIB = 1024 * 1024;

/** Limits of single files and of one request. The bundle's `limits.yaml` has the same values, with their sources. */
const LIMITS = {
  image_bytes: 3.75 * MIB,
  /** Longest side of an image. */
  image_pixels: 8000,
  pdf_bytes: 16 * MIB,
  pdf_pages: 100,
  request_files: 20,
  request_bytes: 18 * MIB,
};
export type FileLimits = Readonly<typeof LIMITS>;

export function fileLimits(
  { library }: Pick<PreparePorts, 'library'>,
  { provider, limited_as: real = provider }: Pick<ResolvedModel, 'provider' | 'limited_as'>,
): FileLimits {
  const all = objectAt(library.config('limits').value, 'files');
  const merged = { ...all, ...objectAt(objectAt(all, 'providers'), real) };
  const limits = { ...LIMITS };
  for (const name of Object.keys(LIMITS) as (keyof FileLimits)[]) {
    const value = merged[name];
    if (typeof value === 'number') limits[name] = value;
  }
  return limits;
}

const KINDS: ReadonlyMap<string, FileKind> = new Map([
  ...['png', 'jpeg', 'gif', 'webp'].map((type) => [`image/${type}`, 'image'] as const),
  ['application/pdf', 'pdf'],
]);
export const kindOf = (mime: string): FileKind | undefined => KINDS.get(mime);

/** True if the model declares this kind of file in `models.yaml`. */
export function accepts(
  { input = [] }: Pick<ResolvedModel, 'input'>,
  { mime }: FileBlock,
): boolean {
  const kind = kindOf(mime);
  return kind !== undefined && input.includes(kind);
}

export const unsupported = (message: string, detail: Record<string, Json>): Failure =>
  fail('unsupported_input', message, detail);

/**
 * Returns the block of a file. Fails with `unsupported_input` and the type in `found` if the bytes are no whole image
 * and no readable PDF. Fails with `invalid_input` if the file exceeds a limit.
 */
export function readFileBlock(
  name: string,
  data: Uint8Array,
  limits: FileLimits,
): Outcome<FileBlock> {
  const { mime, problem, ...facts } = fileType(data);
  const kind = kindOf(mime);
  if (!kind || problem) {
    const found = problem ? `${problem} ${mime}` : mime;
    const message = `\`${name}\` is ${found}; attach PNG, JPEG, GIF, WebP, PDF or UTF-8 text`;
    return unsupported(message, { attachment: name, found });
  }
  const { width = 0, height = 0, pages = 0 } = facts;
  const sizes = [
    [data.length, kind === 'image' ? limits.image_bytes : limits.pdf_bytes, 'bytes'],
    [Math.max(width, height), limits.image_pixels, 'pixels on its longest side'],
    [pages, limits.pdf_pages, 'pages'],
  ] as const;
  for (const [size, max, unit] of sizes) {
    if (size <= max) continue;
    const message = `\`${name}\` has ${size} ${unit}; the maximum is ${max}`;
    return fail('invalid_input', message, { attachment: name, size, max });
  }
  const sha256 = hash('sha256', data);
  return ok({ type: 'file', sha256, mime, bytes: data.length, name, ...facts });
}
