// The extensions of the published package: the library door and the command line pass them to every
// runtime that they open.
import { fleet } from './fleet/extension.ts';
import { mcp } from './mcp/extension.ts';
import type { Extension } from './runtime/index.ts';
import { script } from './script/extension.ts';

export const EXTENSIONS: readonly Extension[] = [script, mcp, fleet];
