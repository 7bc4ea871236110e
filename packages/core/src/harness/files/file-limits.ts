// Decides whether bytes are a file that a model can get. The limits are data: `files` of `limits.yaml`, with other
// values for single providers.
import { hash } from 'node:crypto';
import {
  type Failure,
  fail,
  fileType,
  type Json,
  numberAt,
  type Outcome,
  objectAt,
  ok,
} from '../../base/index.ts';
import { type FileBlock, fileKind, type ResolvedModel } from '../../llm/index.ts';
import type { PreparePorts } from '../thread/thread.ts';

const MIB = 1024 * 1024;

/** Limits of single files and of one request. The bundle's `limits.yaml` has the same values, with their sources. */
const LIMITS = {
  image_bytes: 3.75 * MIB,
  /** Maximum length of the longest side of an image. */
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
  const limit = (name: keyof FileLimits): number => {
    const value = merged[name];
    return typeof value === 'number' ? value : LIMITS[name];
  };
  return {
    image_bytes: limit('image_bytes'),
    image_pixels: limit('image_pixels'),
    pdf_bytes: limit('pdf_bytes'),
    pdf_pages: limit('pdf_pages'),
    request_files: limit('request_files'),
    request_bytes: limit('request_bytes'),
  };
}

/** Largest result in characters. `max_result` of `limits.yaml` overrides it. */
const MAX_RESULT = 64_000;

/** Returns the largest number of characters of a result. A larger one becomes an artifact. */
export function largestResult({ library }: Pick<PreparePorts, 'library'>): number {
  const configured = numberAt(library.config('limits').value, 'max_result') ?? -1;
  return Math.max(configured >= 0 ? configured : MAX_RESULT, 1000);
}

/** True if the model declares this kind of file in `models.yaml`. */
export function accepts(
  { input = [] }: Pick<ResolvedModel, 'input'>,
  { mime }: FileBlock,
): boolean {
  const kind = fileKind(mime);
  return kind !== undefined && input.includes(kind);
}

/** Safe figures for a model whose row in `models.yaml` has none. */
const [IMAGE_TOKENS, PAGE_TOKENS, BYTES_PER_PAGE] = [5000, 3000, 20_000];

/** Estimates the tokens of a file in a request. */
export function fileTokens(
  { mime, bytes, pages = Math.ceil(bytes / BYTES_PER_PAGE) }: FileBlock,
  { image_tokens = IMAGE_TOKENS, pdf_page_tokens = PAGE_TOKENS }: ResolvedModel,
): number {
  return mime.startsWith('image/') ? image_tokens : pages * pdf_page_tokens;
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
  const kind = fileKind(mime);
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
