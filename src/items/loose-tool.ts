import { basename } from 'node:path';
import type { ToolItem } from './item.ts';
import { lastSegment } from './item-place.ts';
import { placeOfFile } from './sign.ts';
import { parseTool } from './tool-parse.ts';

const withoutExtension = (file: string): string => basename(file).replace(/\.[^.]+$/, '');

/** A tool that no library holds, seen as if one did. */
export function looseTool(text: string, file: string): ToolItem {
  const { tool, diagnostics } = parseTool(text, file);
  const id = placeOfFile(file)?.id ?? withoutExtension(file);
  const facts = { title: lastSegment(id), description: '', category: '', tags: [] };
  const rest = { version: '', source: 'project', signature: { state: 'unsigned' } } as const;
  return { kind: 'tool', id, file, tool, diagnostics, shadows: [], body: text, ...facts, ...rest };
}
