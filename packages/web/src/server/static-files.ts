// Files of the built page, read once into a table. A path that is not in the table is never served.
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import { PAGE_POLICY } from './headers.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json; charset=utf-8',
};

/** Paths of the router of the page. All get the same document. */
const DOCUMENTS =
  /^\/(?:$|(?:t|approvals|cost|fleet|items|memory|schedules|scripts|health|login)(?:\/|$))/;
/** Asset names that contain a hash of their content. */
const HASHED = /^\/assets\/.*-[\w-]{8}\.\w+$/;

interface StoredFile {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly packed: Uint8Array<ArrayBuffer> | undefined;
}

const readBytes = (file: string): Uint8Array<ArrayBuffer> => new Uint8Array(readFileSync(file));

function readFiles(folder: string): Map<string, StoredFile> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((at) => join(at.parentPath, at.name));
  const names = new Set(files);
  const stored = new Map<string, StoredFile>();
  for (const file of files) {
    const type = TYPES[extname(file)];
    const path = `/${relative(folder, file).split(sep).join('/')}`;
    if (type === undefined || path === '/manifest.json') continue;
    const packed = names.has(`${file}.gz`) ? readBytes(`${file}.gz`) : undefined;
    stored.set(path, { type, bytes: readBytes(file), packed });
  }
  return stored;
}

export interface StaticFiles {
  /** Returns undefined if the file does not exist. */
  answer(path: string, method: string, encodings: string): Response | undefined;
}

/** Reads the files of the page. Fails with `dependency_missing` if `folder` has no built page. */
export function openStaticFiles(folder: string): Outcome<StaticFiles> {
  let files: Map<string, StoredFile>;
  try {
    files = readFiles(folder);
  } catch {
    files = new Map();
  }
  const document = files.get('/index.html');
  if (!document) {
    const message = `the page is not built: \`${join(folder, 'index.html')}\` not found`;
    return fail('dependency_missing', message, { hint: 'run `node scripts/page.js`' });
  }
  return ok({
    answer(path, method, encodings) {
      const file = files.get(path) ?? (DOCUMENTS.test(path) ? document : undefined);
      if (!file) return undefined;
      const isPacked =
        file.packed !== undefined && /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(encodings);
      const bytes = isPacked ? (file.packed ?? file.bytes) : file.bytes;
      const headers: Record<string, string> = {
        'content-type': file.type,
        'content-length': String(bytes.length),
        'content-security-policy': PAGE_POLICY,
        'cache-control': HASHED.test(path) ? 'public, max-age=31536000, immutable' : 'no-cache',
        vary: 'accept-encoding',
        ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
      };
      return new Response(method === 'HEAD' ? null : bytes, { headers });
    },
  });
}
