// What a transcript shows of a value by default: which one it was, and how it begins.
import { createHash } from 'node:crypto';
import { canonicalJson, type Json } from '../base/index.ts';
import type { Redactor } from './redact.ts';

export interface Preview {
  /** Of the canonical text: equal values have equal hashes. */
  hash: string;
  characters: number;
  preview: string;
}

export function previewOf(value: Json, redactor: Redactor, max = 200): Preview {
  const text = typeof value === 'string' ? value : canonicalJson(value);
  const stream = redactor.stream();
  // Not ended: what is cut off in the middle of a secret is held back and never shown.
  const isWhole = text.length <= max;
  const shown = stream.push(text.slice(0, max)) + (isWhole ? stream.end() : '');
  return {
    hash: `sha256:${createHash('sha256').update(text).digest('hex')}`,
    characters: text.length,
    preview: isWhole ? shown : `${shown}…`,
  };
}
