// Lists the extensions of the published package. The library and the command line pass them to every runtime
// that they open.
import type { Extension } from '@kernmantle/core/runtime';
import { fleet } from '@kernmantle/fleet/extension';
import { mcp } from '@kernmantle/mcp/extension';
import { script } from '@kernmantle/script/extension';

export const EXTENSIONS: readonly Extension[] = [script, mcp, fleet];
