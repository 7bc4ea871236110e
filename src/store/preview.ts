// What a transcript shows of a value by default: which one it was, and how it begins.
import { hash } from 'node:crypto';
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
  const isWhole = text.length <= max;
  return {
    hash: `sha256:${hash('sha256', text)}`,
    characters: text.length,
    preview: isWhole ? redactor.text(text) : `${beginningOf(text, redactor, max)}…`,
  };
}

function beginningOf(text: string, redactor: Redactor, max: number): string {
  const start = text.slice(0, max);
  // A secret can end behind the cut: then its beginning is held back and never shown.
  return redactor.isClean(text) ? start : redactor.stream().push(start);
}
