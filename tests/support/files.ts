// Makes images and PDF files of any size for tests.
import { deflateSync } from 'node:zlib';

const chunk = (type: string, data: Uint8Array): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  // Nothing here checks the sum.
  return Buffer.concat([length, Buffer.from(type), data, Buffer.alloc(4)]);
};

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');

/** Returns a PNG with this size in its header, filled up to a number of bytes. `seed` makes other bytes. */
export function makePng(width: number, height: number, bytes = 0, seed = 0): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  const pixels = deflateSync(Buffer.from([seed & 255, (seed >> 8) & 255]));
  const bare = 8 + 25 + 12 + pixels.length + 12;
  const filler =
    bytes > bare + 12 ? [chunk('teXt', Buffer.alloc(bytes - bare - 12, 65 + seed))] : [];
  const parts = [chunk('IHDR', header), ...filler, chunk('IDAT', pixels)];
  return Buffer.concat([SIGNATURE, ...parts, chunk('IEND', Buffer.alloc(0))]);
}

export const makeJpeg = (width: number, height: number): Buffer => {
  const frame = Buffer.from([
    0xff,
    0xc0,
    0,
    11,
    8,
    height >> 8,
    height,
    width >> 8,
    width,
    1,
    0,
    0,
    0,
  ]);
  const scan = Buffer.from([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 1, 2, 3]);
  const thumbnail = Buffer.from([0xff, 0xe1, 0, 6, 0xff, 0xd8, 0xff, 0xd9]);
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    thumbnail,
    frame,
    scan,
    Buffer.from([0xff, 0xd9]),
  ]);
};

export function makeGif(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(20);
  bytes.write('GIF89a', 'latin1');
  bytes.writeUInt16LE(width, 6);
  bytes.writeUInt16LE(height, 8);
  bytes[19] = 0x3b;
  return bytes;
}

export function makeWebp(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(40);
  bytes.write('RIFF', 'latin1');
  bytes.writeUInt32LE(32, 4);
  bytes.write('WEBPVP8X', 8, 'latin1');
  bytes.writeUIntLE(width - 1, 24, 3);
  bytes.writeUIntLE(height - 1, 27, 3);
  return bytes;
}

/** Returns a PDF whose page tree is plain text. `streams`: the tree is inside of a compressed stream. */
export function makePdf(
  pages: number,
  { bytes = 0, streams = false, encrypted = false } = {},
): Buffer {
  const tree = `2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count ${pages} >>\nendobj\n`;
  const objects = streams
    ? `5 0 obj\n<< /Type /ObjStm /N 1 /Filter /FlateDecode >>\nstream\nxxxx\nendstream\nendobj\n`
    : tree;
  const text = [
    '%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n',
    objects,
    `% ${'x'.repeat(Math.max(0, bytes - 300))}\n`,
    `trailer\n<< /Root 1 0 R ${encrypted ? '/Encrypt 9 0 R' : ''} >>\nstartxref\n0\n%%EOF\n`,
  ];
  return Buffer.from(text.join(''), 'latin1');
}
