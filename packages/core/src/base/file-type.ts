// Recognises images and PDF files by their bytes, never by their names. Nothing is decoded or inflated: sizes are read
// from headers, and pages are counted only where the page tree is plain text.
import { isUtf8 } from 'node:buffer';

/** Type of a file by its bytes. `problem`: why the file cannot be used, although its type is known. */
interface FileType {
  /** `text/plain` for UTF-8 text without a better name, `application/octet-stream` for unknown bytes. */
  readonly mime: string;
  readonly width?: number;
  readonly height?: number;
  /** Number of pages of a PDF. Absent: it cannot be read without inflating anything. */
  readonly pages?: number;
  readonly problem?: 'truncated' | 'encrypted';
}

type Size = Pick<FileType, 'width' | 'height'>;

const PNG_END = Buffer.from('IEND');
const startsWith = (bytes: Buffer, text: string, at = 0): boolean =>
  bytes.subarray(at, at + text.length).equals(Buffer.from(text, 'latin1'));

/** Walks the chunks to the last one, so a file that was cut anywhere has no size. */
function pngSize(bytes: Buffer): Size | undefined {
  if (bytes.length < 33 || !startsWith(bytes, 'IHDR', 12)) return undefined;
  for (let at = 8; at + 12 <= bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    if (!bytes.subarray(at + 4, at + 8).equals(PNG_END)) continue;
    return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  }
  return undefined;
}

const isFrameMarker = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;

function jpegSize(bytes: Buffer): Size | undefined {
  let size: Size | undefined;
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff; ) {
    const marker = bytes[at + 1] ?? 0;
    // A marker can be preceded by any number of fill bytes.
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    if (isFrameMarker(marker)) {
      size = { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    }
    // The end marker follows the scan. Thumbnails with an end marker of their own precede it.
    if (marker === 0xda) return bytes.lastIndexOf(Buffer.of(0xff, 0xd9)) > at ? size : undefined;
    at += 2 + bytes.readUInt16BE(at + 2);
  }
  return undefined;
}

const gifSize = (bytes: Buffer): Size | undefined =>
  bytes.length > 13 && bytes.at(-1) === 0x3b
    ? { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }
    : undefined;

function webpSize(bytes: Buffer): Size | undefined {
  if (bytes.length < 30 || bytes.readUInt32LE(4) + 8 > bytes.length) return undefined;
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    case 'VP8L': {
      const bits = bytes.readUInt32LE(21);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 'VP8 ':
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
    default:
      return undefined;
  }
}

/** A node of the page tree is searched in this many bytes before and after its type. */
const MAX_NODE = 64 * 1024;

/** Returns the largest count of a node of the page tree, which is that of the root. */
function pdfPages(bytes: Buffer): number | undefined {
  let pages: number | undefined;
  for (let at = bytes.indexOf('/Pages'); at >= 0; at = bytes.indexOf('/Pages', at + 6)) {
    if (!/\/Type\s*$/.test(bytes.toString('latin1', Math.max(0, at - 16), at))) continue;
    const before = bytes.toString('latin1', Math.max(0, at - MAX_NODE), at);
    const after = bytes.toString('latin1', at, at + MAX_NODE);
    const node = before.slice(before.lastIndexOf(' obj') + 1) + after.split('endobj', 1)[0];
    for (const [, count] of node.matchAll(/\/Count\s+(\d{1,9})/g)) {
      pages = Math.max(pages ?? 0, Number(count));
    }
  }
  return pages;
}

function pdfType(bytes: Buffer): FileType {
  const mime = 'application/pdf';
  if (!bytes.subarray(-2048).includes('%%EOF')) return { mime, problem: 'truncated' };
  if (bytes.includes('/Encrypt')) return { mime, problem: 'encrypted' };
  const pages = pdfPages(bytes);
  return { mime, ...(pages !== undefined && { pages }) };
}

const IMAGES: readonly (readonly [string, string, (bytes: Buffer) => Size | undefined])[] = [
  ['\x89PNG\r\n\x1a\n', 'image/png', pngSize],
  ['\xff\xd8\xff', 'image/jpeg', jpegSize],
  ['GIF87a', 'image/gif', gifSize],
  ['GIF89a', 'image/gif', gifSize],
];
const ARCHIVES: readonly (readonly [string, string])[] = [
  ['PK\x03\x04', 'application/zip'],
  ['\x1f\x8b', 'application/gzip'],
];

/** Texts with a format of their own, by their beginning. */
function textType(bytes: Buffer): string {
  const start = bytes.toString('utf8', 0, 2048).trimStart().toLowerCase();
  if (/^(?:<\?xml[^>]*>\s*)?(?:<!--[\s\S]*?-->\s*)*(?:<!doctype svg[^>]*>\s*)?<svg\b/.test(start)) {
    return 'image/svg+xml';
  }
  return /^<(?:!doctype html|html|head|body)\b/.test(start) ? 'text/html' : 'text/plain';
}

/** Returns the type of a whole file. */
export function fileType(data: Uint8Array): FileType {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const image = IMAGES.find(([magic]) => startsWith(bytes, magic));
  const isWebp = startsWith(bytes, 'RIFF') && startsWith(bytes, 'WEBP', 8);
  if (image || isWebp) {
    const [, mime, sizeOf] = image ?? ['', 'image/webp', webpSize];
    const size = sizeOf(bytes);
    return size?.width && size.height ? { mime, ...size } : { mime, problem: 'truncated' };
  }
  if (startsWith(bytes, '%PDF-')) return pdfType(bytes);
  const archive = ARCHIVES.find(([magic]) => startsWith(bytes, magic));
  if (archive) return { mime: archive[1] };
  return {
    mime: isUtf8(bytes) && !bytes.includes(0) ? textType(bytes) : 'application/octet-stream',
  };
}
