import { makeGif, makeJpeg, makePdf, makePng, makeWebp } from '@kernmantle/test-support/files';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fileType } from './file-type.ts';

test('images are known by their bytes, with the size in their header', () => {
  const size = { width: 800, height: 600 };
  expect(fileType(makePng(800, 600))).toEqual({ mime: 'image/png', ...size });
  expect(fileType(makeJpeg(800, 600))).toEqual({ mime: 'image/jpeg', ...size });
  expect(fileType(makeGif(800, 600))).toEqual({ mime: 'image/gif', ...size });
  expect(fileType(makeWebp(800, 600))).toEqual({ mime: 'image/webp', ...size });
});

test('pages of a PDF are counted where the page tree is plain text', () => {
  expect(fileType(makePdf(101))).toEqual({ mime: 'application/pdf', pages: 101 });
  expect(fileType(makePdf(101, { streams: true }))).toEqual({ mime: 'application/pdf' });
  expect(fileType(makePdf(1, { encrypted: true }))).toMatchObject({ problem: 'encrypted' });
});

test('a file that was cut anywhere is truncated', () => {
  for (const whole of [makePng(4, 4), makeJpeg(4, 4), makeGif(4, 4), makeWebp(4, 4), makePdf(1)]) {
    const { mime } = fileType(whole);
    for (const length of [Math.floor(whole.length / 2), whole.length - 8]) {
      expect(fileType(whole.subarray(0, length)), `${mime} ${length}`).toMatchObject({
        mime,
        problem: 'truncated',
      });
    }
  }
});

test('other types have their own names', () => {
  const mimeOf = (text: string) => fileType(Buffer.from(text, 'latin1')).mime;
  expect(mimeOf('<!DOCTYPE html><p>x')).toBe('text/html');
  expect(mimeOf('<?xml version="1.0"?>\n<!-- a --><svg xmlns="x">')).toBe('image/svg+xml');
  expect(mimeOf('PK\x03\x04rest')).toBe('application/zip');
  expect(mimeOf('plain words')).toBe('text/plain');
  expect(mimeOf('')).toBe('text/plain');
  expect(mimeOf('\x00\x01\xff')).toBe('application/octet-stream');
});

test('no bytes crash the recognition', () => {
  const beginnings = [
    '\x89PNG\r\n\x1a\n',
    '\xff\xd8\xff',
    'GIF89a',
    'RIFF\x10\0\0\0WEBP',
    '%PDF-',
    '',
  ].map((text) => Buffer.from(text, 'latin1'));
  fc.assert(
    fc.property(
      fc.constantFrom(...beginnings),
      fc.uint8Array({ maxLength: 300 }),
      (start, rest) => {
        expect(typeof fileType(Buffer.concat([start, rest])).mime).toBe('string');
      },
    ),
  );
});
